package rediscache

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"
)

// pipeline is one connection for bulk writes: commands are gathered in one buffer
// and their replies read after all are sent. It speaks Redis's protocol (RESP2)
// itself, as far as a preload needs it: rueidis builds and answers each command
// as a value of its own, which took as much CPU as Redis took for the writing.
type pipeline struct {
	conn    net.Conn
	replies *bufio.Reader
	out     []byte
	timeout time.Duration
}

// connect dials and authenticates if there is a password.
func (p Preload) connect(ctx context.Context) (*pipeline, error) {
	dialer := net.Dialer{Timeout: p.Timeout}
	conn, err := dialer.DialContext(ctx, "tcp", p.Addr)
	if err != nil {
		return nil, fmt.Errorf("preload: connect to redis at %s: %w", p.Addr, err)
	}
	l := &pipeline{conn: conn, replies: bufio.NewReaderSize(conn, 64<<10), timeout: p.Timeout}
	switch {
	case p.Password == "":
		return l, nil
	case p.Username == "":
		l.add("AUTH", p.Password)
	default:
		l.add("AUTH", p.Username, p.Password)
	}
	err = l.send(ctx)
	if err == nil {
		err = l.reply()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("preload: authenticate: %w", err), conn.Close())
	}
	return l, nil
}

// begin starts a command of n arguments, its name included; each is then added.
func (l *pipeline) begin(n int) {
	l.out = append(l.out, '*')
	l.out = strconv.AppendInt(l.out, int64(n), 10)
	l.out = append(l.out, "\r\n"...)
}

// arg adds an argument that is the concatenation of two parts.
func (l *pipeline) arg(a, b string) {
	l.argBytes([]byte(a), []byte(b))
}

func (l *pipeline) argBytes(a, b []byte) {
	l.out = append(l.out, '$')
	l.out = strconv.AppendInt(l.out, int64(len(a)+len(b)), 10)
	l.out = append(l.out, "\r\n"...)
	l.out = append(l.out, a...)
	l.out = append(l.out, b...)
	l.out = append(l.out, "\r\n"...)
}

// add adds a whole command.
func (l *pipeline) add(args ...string) {
	l.begin(len(args))
	for _, arg := range args {
		l.arg(arg, "")
	}
}

// send sends what was gathered. It and the replies have until the timeout, less
// if ctx ends: then the connection is of no more use.
func (l *pipeline) send(ctx context.Context) error {
	if err := l.conn.SetDeadline(time.Now().Add(l.timeout)); err != nil { // see DefaultPreload
		return fmt.Errorf("set the deadline: %w", err)
	}
	// After that: if ctx ended before, what unblocks the connection was undone.
	if err := ctx.Err(); err != nil {
		return err
	}
	_, err := l.conn.Write(l.out)
	l.out = l.out[:0]
	if err != nil {
		return fmt.Errorf("send to redis: %w", err)
	}
	return nil
}

// reply reads an OK. Other replies are errors.
func (l *pipeline) reply() error {
	line, err := l.replies.ReadSlice('\n')
	if err != nil {
		return fmt.Errorf("read a reply of redis: %w", err)
	}
	if text := string(line); text != "+OK\r\n" {
		return fmt.Errorf("redis answered %q", text)
	}
	return nil
}
