package load

import (
	"context"
	"errors"
	"net"
	"net/url"
	"sync/atomic"
	"time"
)

// user is a virtual user: one goroutine with one connection, which sends a
// request, reads the answer, and is free for the next. Its fields belong to
// that goroutine, except where they say otherwise.
type user struct {
	index   int // within its scenario; decides its target and its shard
	clock   *clock
	timeout time.Duration
	script  *template
	conn    *connection

	texts  [][]byte      // scratch for feed values
	out    []byte        // the request being sent
	usedAt time.Duration // when the last request ended

	// cutAt is when its request is to be cut off because the user itself was
	// taken away (ramping-vus), as an offset in nanoseconds; never is never.
	cutAt atomic.Int64

	// turn and behind make the line of free users in front of a queue; holding
	// says that the user has taken an arrival from it.
	turn    chan struct{}
	behind  *user
	holding bool
}

// never is a time that does not come.
const never = int64(1<<63 - 1)

// outcome is what came of one request.
type outcome struct {
	intended, sent, done time.Duration

	status int     // 0 if failed
	failed failure // why there is no status
	err    error   // the failure in words
	open   bool    // it came from a schedule
	waited bool    // no user was free at its time
}

// target is one base URL, with what each scenario sends to it.
type target struct {
	address string // host:port
	base    *url.URL
}

// newUser returns user number index, who talks to to.
func newUser(index int, to target, script *template, run *run) *user {
	u := &user{
		index:   index,
		clock:   run.clock,
		timeout: run.plan.Timeout,
		script:  script,
		conn:    newConnection(to.address),
		texts:   make([][]byte, len(script.feeds)),
		turn:    make(chan struct{}, 1),
	}
	for i := range u.texts {
		u.texts[i] = make([]byte, 0, len("-9223372036854775808"))
	}
	u.cutAt.Store(never)
	return u
}

// connect opens the user's connection ahead of its first request, unless it is
// open.
func (u *user) connect(ctx context.Context) error { return u.conn.open(ctx, u.timeout) }

// perform sends request number k of the scenario and completes o, whose
// intended time is set. ctx ends when connecting is to be cut off.
func (u *user) perform(ctx context.Context, k uint64, o *outcome) {
	u.out = u.script.fill(u.out[:0], k, u.texts)
	o.sent = u.clock.now()
	o.status, o.failed, o.err = u.exchange(ctx, o.sent)
	o.done = u.clock.now()
	u.usedAt = o.done
	if o.failed != succeeded || !u.conn.answer.keepAlive {
		u.conn.close()
	}
}

// exchange makes sure of a connection and has one round trip on it.
func (u *user) exchange(ctx context.Context, sent time.Duration) (int, failure, error) {
	due := sent + u.timeout
	idle := sent - u.usedAt
	for {
		if u.conn.socket == nil {
			if err := u.conn.open(ctx, due-u.clock.now()); err != nil {
				return 0, u.dialFailure(ctx, err), err
			}
			idle = 0
		}
		u.conn.due.Store(int64(due))
		status, err := u.conn.roundTrip(u.out, u.script.head, idle)
		switch u.conn.due.Swap(dueNever) {
		case dueMissed:
			return 0, failTimeout, errTimeout
		case dueCut:
			return 0, failCutOff, errCutOff
		}
		if !errors.Is(err, errStale) {
			return status, classifyExchange(err), err
		}
		// Nothing of the request was written. It goes over a new connection,
		// which cannot be stale, so this happens once.
		u.conn.close()
	}
}

// dialFailure names the kind of a failure to connect. When the context ended,
// it was the end of the scenario that cut the attempt off.
func (u *user) dialFailure(ctx context.Context, err error) failure {
	if ctx.Err() != nil {
		return failCutOff
	}
	return classifyDial(err)
}

var (
	errTimeout = errors.New("no whole answer within the timeout")
	errCutOff  = errors.New("still under way at the end of the time of graceful stop")
)

// parseTarget reads a base URL. Plan.Validate has looked at it before.
func parseTarget(raw string) (target, error) {
	base, err := url.Parse(raw)
	if err != nil {
		return target{}, err
	}
	port := base.Port()
	if port == "" {
		port = "80"
	}
	return target{address: net.JoinHostPort(base.Hostname(), port), base: base}, nil
}
