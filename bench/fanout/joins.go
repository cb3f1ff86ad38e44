package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"loadstone/system/chat"
	"loadstone/system/chat/logstore"
	"loadstone/system/chat/serve"
)

// shown is how many messages who joins is shown.
const shown = 50

// serveChat is the whole chat, with one core, as a server of its own.
func serveChat(ctx context.Context, args []string, out io.Writer) error {
	if len(args) != 1 {
		return errors.New("usage: fanout chat DIRECTORY")
	}
	c := serve.DefaultConfig()
	c.Data, c.Listen, c.AdminListen, c.Drain, c.Hub.Loops = args[0], "127.0.0.1:0", "127.0.0.1:0", 0, 1
	const many = 1_000_000
	c.GuestsPerNetwork, c.Hub.MaxPerAddress = many, many
	c.Listening = func(api, _ net.Addr) { _, _ = fmt.Fprintln(out, api) }
	return serve.Run(ctx, c, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})))
}

// history makes a log with one stream, in which more was said than is shown.
func history(ctx context.Context, dir string) (err error) {
	c := logstore.DefaultConfig()
	c.Dir = dir
	log, err := logstore.Open(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	streams, err := chat.InventStreams(1)
	if err != nil {
		return err
	}
	if err := log.AddStreams(streams); err != nil {
		return err
	}
	for i := range 2 * shown {
		done := make(chan error, 1)
		m := chat.Message{At: someday, Sender: "guest-ABCDEFGHIJKLMNOPQRSTUVWXYZ", Name: "Noor", ID: fmt.Sprint("c-", i), Text: strings.Repeat("hello ", 10)}
		if err := log.Say(&chat.Draft{Stream: 1, Message: m, Done: func(s *chat.Said) { done <- s.Err }}); err != nil {
			return err
		}
		if err := <-done; err != nil {
			return err
		}
	}
	return nil
}

// measureJoins has so many viewers join, a few at a time, each with a token and until it was
// shown the last messages, and leave again.
func measureJoins(ctx context.Context, out io.Writer, dir string, joins int) (err error) {
	dir = filepath.Join(dir, "log")
	if err := history(ctx, dir); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self, "chat", dir)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1") //nolint:forbidigo // a program of its own; one core, which is kept busy
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cmd.Process.Signal(syscall.SIGTERM), cmd.Wait()) }()
	address, err := bufio.NewReader(pipe).ReadString('\n')
	if err != nil {
		return fmt.Errorf("read its address: %w", err)
	}
	address = strings.TrimSpace(address)
	path, err := entrance(address)
	if err != nil {
		return err
	}
	// Who stays keeps the room open, as a show's is.
	stays, err := join(address, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stays.Close()) }()
	before, err := cpuOf(cmd.Process.Pid)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := joinAll(address, path, joins); err != nil {
		return err
	}
	took := time.Since(began)
	after, err := cpuOf(cmd.Process.Pid)
	if err != nil {
		return err
	}
	used := after - before
	_, err = fmt.Fprintf(out, "%d joins with a token and %d messages in %v: %.0f us of CPU time each, %.0f per core and s\n",
		joins, shown, took.Round(time.Millisecond), used/float64(joins)*1e6, float64(joins)/used)
	return err
}

// entrance asks for a token, and returns the path that a viewer joins at.
func entrance(address string) (string, error) {
	response, err := http.Post("http://"+address+"/api/guest", "application/json", strings.NewReader(`{"name":"Noor"}`)) //nolint:noctx // a program that is ended by hand
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }() // it was read
	var guest struct {
		Token string `json:"token"`
	}
	if err := json.NewDecoder(response.Body).Decode(&guest); err != nil || guest.Token == "" {
		return "", fmt.Errorf("ask for a token: status %d: %w", response.StatusCode, err)
	}
	return "/ws?stream=1&token=" + guest.Token, nil
}

// joinAll has so many join and leave, a few at a time.
func joinAll(address, path string, joins int) error {
	const atOnce = 64 // so that the server has always something to do
	var left atomic.Int64
	left.Store(int64(joins))
	var all errgroup.Group
	for range atOnce {
		all.Go(func() error {
			for left.Add(-1) >= 0 {
				c, err := join(address, path)
				if err != nil {
					return err
				}
				if err := c.Close(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return all.Wait()
}

// join opens a connection and reads until the last message that is shown.
func join(address, path string) (net.Conn, error) {
	c, err := net.Dial("tcp", address) //nolint:noctx // a program that is ended by hand
	if err != nil {
		return nil, err
	}
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return nil, fmt.Errorf("a %T is no TCP connection", c)
	}
	// It ends with a reset: else its port is taken for a minute.
	in, err := handshake(c, address, path)
	if err = errors.Join(err, tcp.SetLinger(0)); err == nil {
		err = await(c, in, fmt.Sprintf(`"offset":%d,`, 2*shown-1))
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}
