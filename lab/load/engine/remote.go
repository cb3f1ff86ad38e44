package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"loadstone/lab/load/failure"
	"loadstone/lab/load/httpclient"
	"loadstone/lab/load/rpc"
)

// remote is a link for what connection does not speak: TLS and HTTP/2. A
// goroutine of its own has the round trips, over net/http, and posts what came
// of each to the event loop. That costs several times what a connection does;
// what it measures is the same.
type remote struct {
	loop *loop
	to   *target
	conn *sharedConn

	user   *user // whose request is under way
	opened func(failure.Kind, error)
	cancel context.CancelFunc // of what is under way
	why    failure.Kind       // it was cut off; None if it was not
	whyErr error

	call      *rpc.Method // of the request; nil if it is no call of gRPC
	framed    bool        // the request's message is as it goes over the wire
	wantsBody bool
	frame     []byte

	tasks   chan task // to the goroutine; nil until it is needed
	request httpclient.Request
	answer  httpclient.Answer
}

// task is one thing for a remote's goroutine to do.
type task struct {
	ctx    context.Context //nolint:containedctx // it lives as long as the task
	ahead  bool            // only connect
	finish func(began, done time.Duration, err error)
}

// newRemote returns a link over a connection.
func newRemote(l *loop, to *target, over *sharedConn) *remote {
	return &remote{loop: l, to: to, conn: over}
}

// target is the index of the target that it leads to.
func (r *remote) target() int { return r.to.index }

// ahead connects before it is needed, and calls done.
func (r *remote) ahead(done func(failure.Kind, error)) {
	r.opened = done
	r.start(true, r.loop.clock.now(), func(_, _ time.Duration, err error) {
		done := r.opened
		r.opened = nil
		done(r.ended(err))
	})
}

// send has one round trip for u, connecting first if need be.
func (r *remote) send(u *user) {
	r.user = u
	r.compose(u)
	r.start(false, u.sent, func(began, done time.Duration, err error) {
		r.user = nil
		kind, err := r.ended(err)
		u.sent, u.done, u.wrote, u.got = began, done, r.answer.Sent, r.answer.Received
		status := 0
		switch {
		case kind != failure.None:
		case r.answer.Status < 100 || r.answer.Status > 599:
			kind, err = failure.BadHTTP, badHTTPError(fmt.Sprintf("status %d", r.answer.Status))
		default:
			status = r.answer.Status
			r.captureAnswer(u)
		}
		r.answer.Body = trim(r.answer.Body[:0])
		u.answered(status, kind, err)
	})
}

// start gives the goroutine a task, which is due a request's timeout after it
// began.
func (r *remote) start(ahead bool, began time.Duration, finish func(began, done time.Duration, err error)) {
	if r.tasks == nil {
		r.tasks = make(chan task, 1)
		r.loop.remotes.Go(func() { r.serve(r.tasks) })
	}
	r.why, r.whyErr = failure.None, nil
	left := r.loop.timeout - (r.loop.clock.now() - began)
	ctx, cancel := context.WithTimeout(context.Background(), left)
	r.cancel = cancel
	r.tasks <- task{ctx: ctx, ahead: ahead, finish: finish}
}

// serve is the goroutine.
func (r *remote) serve(tasks <-chan task) {
	for t := range tasks {
		var err error
		if !t.ahead {
			err = r.encodeCall()
		}
		// A request is sent from here on. Until now it waited for this goroutine, which is
		// the generator's doing and no service time; what it waits for a handshake is.
		began := r.loop.clock.now()
		if err == nil {
			err = r.roundTrip(t)
		}
		done := r.loop.clock.now()
		if err == nil && !t.ahead && r.call != nil {
			err = r.decodeCall()
		}
		r.loop.post(func() { t.finish(began, done, err) })
	}
}

// roundTrip connects if need be, and has the round trip.
func (r *remote) roundTrip(t task) error {
	if t.ahead {
		conn, err := r.conn.acquire(t.ctx)
		r.conn.release(conn)
		return err
	}
	for try := 1; ; try++ {
		conn, err := r.conn.acquire(t.ctx)
		if err != nil {
			return err
		}
		err = conn.Do(t.ctx, &r.request, &r.answer)
		r.conn.release(conn)
		// If the server ended the connection while it was idle, nothing was
		// sent; if it said in its goodbye that it has not looked at the request,
		// nothing came of it. Another try sends nothing twice.
		again := httpclient.Unsent(err) || httpclient.Unprocessed(err)
		if !again || try == maxTries || t.ctx.Err() != nil {
			return err
		}
	}
}

// maxTries bounds the connections that a request is tried on: a server that
// says goodbye on every one of them has failed.
const maxTries = 3

// ended is what a task ended as.
func (r *remote) ended(err error) (failure.Kind, error) {
	r.cancel()
	switch {
	case err == nil:
		return failure.None, nil
	case r.why != failure.None:
		return r.why, r.whyErr
	default:
		return failureKind(err), err
	}
}

// compose makes the request of u's step.
func (r *remote) compose(u *user) {
	l, s := r.loop, u.step()
	l.fill(u)
	q := &r.request
	target := u.target(l.out[:0])
	l.out = target
	q.Method, q.Target, q.Host = s.method, string(target), s.host
	q.Header = q.Header[:0]
	for _, h := range s.header {
		q.Header = append(q.Header, httpclient.Field{Name: h.name, Value: string(h.value.append(nil, l.values))})
	}
	if jar := u.root().jar; jar != nil {
		if cookies := jar.header(target); cookies != "" {
			q.Header = append(q.Header, httpclient.Field{Name: "Cookie", Value: cookies})
		}
	}
	if u.stale != nil {
		q.Header = append(q.Header, httpclient.Field{Name: u.stale.condition.name, Value: u.stale.condition.value})
	}
	if s.frame != nil {
		q.Body = append(q.Body[:0], s.frame...)
	} else {
		q.Body = s.body.append(q.Body[:0], l.values)
	}
	r.call, r.framed = s.call, s.frame != nil
	r.wantsBody = s.capture != nil && s.capture.body
	q.WantBody = r.wantsBody
	q.WantHeader = s.capture != nil || s.call != nil
}

// captureAnswer hands over what is to be kept of the answer.
func (r *remote) captureAnswer(u *user) {
	want := u.step().capture
	if want == nil {
		return
	}
	u.captured.reset()
	u.captured.add(r.answer.Body)
	u.captured.cut = r.answer.Length > int64(len(r.answer.Body))
	for name, values := range r.answer.Header {
		for _, value := range values {
			u.captured.header(want, []byte(name), []byte(value))
		}
	}
}

// abort cuts off what is under way. It ends when the goroutine says so.
func (r *remote) abort(kind failure.Kind, err error) {
	if (r.user != nil || r.opened != nil) && r.why == failure.None {
		r.why, r.whyErr = kind, err
		r.cancel()
	}
}

// close ends the goroutine, and the connection if nobody shares it. Nothing may
// be under way.
func (r *remote) close() {
	if r.tasks != nil {
		close(r.tasks)
		r.tasks = nil
	}
	r.conn.closeUnlessShared()
}

// sharedConn is one connection over TLS or HTTP/2, opened when it is needed, and
// shared by as many remotes as use it.
type sharedConn struct {
	config httpclient.Config
	shared bool

	turn chan struct{} // held while a connection is opened

	mu    sync.Mutex
	conn  *httpclient.Conn
	users map[*httpclient.Conn]int // requests under way on each, also on those that were replaced
}

// newSharedConn returns a run's connection number index, to a target, which is not yet
// opened.
func newSharedConn(to *target, r *run, index int, protocol string, shared bool) *sharedConn {
	c := httpclient.Config{URL: to.base, LocalIP: r.plan.LocalIP(index), Protocol: protocol, TLS: r.tls}
	for _, a := range to.addresses {
		c.Addresses = append(c.Addresses, a.String())
	}
	return &sharedConn{config: c, shared: shared, turn: make(chan struct{}, 1), users: map[*httpclient.Conn]int{}}
}

// acquire returns the connection, and opens it if there is none that can be used.
// It is to be given back.
func (l *sharedConn) acquire(ctx context.Context) (*httpclient.Conn, error) {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the shared connection: %w", ctx.Err())
	}
	if conn := l.usable(); conn != nil {
		return conn, nil
	}
	conn, err := httpclient.Dial(ctx, l.config)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn = conn
	l.users[conn]++
	return conn, nil
}

// usable returns the connection if it can be used, and gives it up if not: it
// is closed when the requests under way on it have ended, which a server that
// says goodbye still answers.
func (l *sharedConn) usable() *httpclient.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == nil {
		return nil
	}
	if l.conn.Usable() {
		l.users[l.conn]++
		return l.conn
	}
	l.closeUnused(l.conn)
	l.conn = nil
	return nil
}

// release gives a connection back.
func (l *sharedConn) release(conn *httpclient.Conn) {
	if conn == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users[conn]--
	if conn != l.conn {
		l.closeUnused(conn)
	}
}

// closeUnused closes a connection that nobody uses. mu is held.
func (l *sharedConn) closeUnused(conn *httpclient.Conn) {
	if l.users[conn] == 0 {
		delete(l.users, conn)
		_ = conn.Close() // nothing is under way whose end it could tell
	}
}

// closeUnlessShared ends the connection, unless it is shared.
func (l *sharedConn) closeUnlessShared() {
	if !l.shared {
		l.close()
	}
}

// close ends the connection. Nothing may be under way.
func (l *sharedConn) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		l.closeUnused(l.conn)
		l.conn = nil
	}
}
