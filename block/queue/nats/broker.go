package nats

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
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

// Broker is a NATS server with JetStream in this process.
type Broker struct{ inner *server.Server }

// The broker's own times.
const (
	// readyTimeout bounds a start, the recovery of its files included: a second for
	// some hundred megabytes.
	readyTimeout = 30 * time.Second
	// maxPayload is a message's body, headers and the protocol's lines.
	maxPayload = 1 << 20
)

// StartBroker starts a broker on the files that are there, if there are any, and
// returns once it takes connections. It must be closed.
func StartBroker(cfg BrokerConfig) (*Broker, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	host, port, err := cfg.address()
	if err != nil {
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
		return nil, fmt.Errorf("the broker on %s with its files in %s was not ready within %v: is the address taken, or another broker at work there?", cfg.Addr, cfg.Dir, readyTimeout)
	}
	return &Broker{inner: inner}, nil
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
// on disk already.
func (b *Broker) Close() error {
	b.inner.Shutdown()
	b.inner.WaitForShutdown()
	return nil
}
