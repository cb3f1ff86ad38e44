package nats

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"golang.org/x/sys/unix"
)

// BrokerConfig says where a broker listens and what it keeps where.
type BrokerConfig struct {
	// Addr is the address for producers and consumers, host:port. It has no access
	// control: bind it to an address that only they reach. Port 0 picks a free one.
	Addr string
	// Dir is the directory of its files.
	Dir string
	// MaxBytes bounds them. A full disk refuses messages as a full queue does.
	MaxBytes int64
	// Flush makes every accepted message reach the disk before it is acknowledged,
	// so that it survives a loss of power. Without it the kernel writes it within two
	// minutes, and it survives the death of the process only.
	Flush bool
}

// Validate returns all problems, joined, or nil.
func (c BrokerConfig) Validate() error {
	var errs []error
	if _, _, err := c.address(); err != nil {
		errs = append(errs, err)
	}
	if c.Dir == "" {
		errs = append(errs, errors.New("the broker has no directory for its files"))
	}
	if c.MaxBytes < 1<<20 {
		errs = append(errs, fmt.Errorf("the broker's files are bounded to %d bytes, must be at least 1 MiB", c.MaxBytes))
	}
	return errors.Join(errs...)
}

func (c BrokerConfig) address() (host string, port int, err error) {
	host, text, err := net.SplitHostPort(c.Addr)
	if err != nil {
		return "", 0, fmt.Errorf("the broker's address %q is not host:port: %w", c.Addr, err)
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("the broker's address %q has no port from 0 to 65535", c.Addr)
	}
	if n == 0 {
		return host, server.RANDOM_PORT, nil
	}
	return host, int(n), nil
}

// Broker is a NATS server with JetStream in this process. It owns its directory.
type Broker struct {
	inner *server.Server
	close func() error // once
}

// ErrTaken is wrapped by the error of StartBroker if the directory is another broker's
// or the address is taken.
var ErrTaken = errors.New("taken")

// The broker's own times.
const (
	// readyTimeout bounds a start, the recovery of its files included: a second for
	// some hundred megabytes.
	readyTimeout = 30 * time.Second
	// maxPayload is a message's body, headers and the protocol's lines.
	maxPayload = 1 << 20
)

// StartBroker starts a broker on the files that are there, if there are any, and
// returns once it takes connections. It must be closed. A directory has one broker at
// a time.
func StartBroker(ctx context.Context, cfg BrokerConfig) (*Broker, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	lock, err := claim(cfg.Dir)
	if err != nil {
		return nil, err
	}
	inner, err := start(ctx, cfg)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return &Broker{inner: inner, close: sync.OnceValue(func() error {
		inner.Shutdown()
		inner.WaitForShutdown()
		// Only now may another broker read the files.
		if err := lock.Close(); err != nil {
			return fmt.Errorf("give up the broker's directory %s: %w", cfg.Dir, err)
		}
		return nil
	})}, nil
}

// lockName is the file in a broker's directory that is locked while it runs.
const lockName = "lock"

// claim locks a broker's directory. JetStream takes no lock: of two servers on the
// same files each overwrites what the other has accepted. The kernel gives the lock
// back when the process ends, however it ends.
func claim(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("make the broker's directory: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the broker's directory: %w", err)
	}
	err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return lock, nil
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = fmt.Errorf("the broker's directory %s is %w: another broker keeps its files there; end that one, or give this one a directory of its own", dir, ErrTaken)
	} else {
		err = fmt.Errorf("lock the broker's directory %s: %w", dir, err)
	}
	return nil, errors.Join(err, lock.Close())
}

// free says why nobody can listen on an address. The server tries it in silence, as
// long as it is given.
func free(ctx context.Context, addr string) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if errors.Is(err, unix.EADDRINUSE) {
		return fmt.Errorf("the broker's address %s is %w: another process listens there", addr, ErrTaken)
	}
	if err != nil {
		return fmt.Errorf("listen as a broker: %w", err)
	}
	return l.Close()
}

// start starts the server on the files of its directory.
func start(ctx context.Context, cfg BrokerConfig) (*server.Server, error) {
	host, port, err := cfg.address()
	if err != nil {
		return nil, err
	}
	if err := free(ctx, cfg.Addr); err != nil {
		return nil, err
	}
	inner, err := server.NewServer(&server.Options{
		ServerName: "loadstone", Host: host, Port: port,
		JetStream: true, StoreDir: cfg.Dir, JetStreamMaxStore: cfg.MaxBytes,
		// Nothing is kept in memory only: a stream that asks for it is refused.
		JetStreamMaxMemory: 1,
		SyncAlways:         cfg.Flush,
		MaxPayload:         maxPayload,
		NoLog:              true, NoSigs: true,
	})
	if err != nil {
		return nil, fmt.Errorf("make a broker: %w", err)
	}
	inner.Start()
	if !inner.ReadyForConnections(readyTimeout) || !inner.JetStreamEnabled() {
		inner.Shutdown()
		inner.WaitForShutdown()
		return nil, fmt.Errorf("the broker on %s with its files in %s was not ready within %v: are the files whole, and is the disk writable?", cfg.Addr, cfg.Dir, readyTimeout)
	}
	return inner, nil
}

// Addr is the address that it listens on.
func (b *Broker) Addr() net.Addr { return b.inner.Addr() }

// URL is the address as a Client takes it.
func (b *Broker) URL() string { return "nats://" + b.Addr().String() }

// Run waits until ctx ends, or fails if the broker ends before.
func (b *Broker) Run(ctx context.Context) error {
	ended := make(chan struct{})
	go func() { defer close(ended); b.inner.WaitForShutdown() }()
	select {
	case <-ended:
		return errors.New("the broker ended by itself")
	case <-ctx.Done():
	}
	err := b.Close()
	<-ended
	return err
}

// Close stops the broker and waits for it; connections are cut. What was accepted is
// on disk already. A second call does nothing more.
func (b *Broker) Close() error { return b.close() }
