package engine

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"loadstone/lab/load"
	"loadstone/lab/load/failure"
	"loadstone/lab/load/feed"
	"loadstone/lab/load/seed"
	"loadstone/lab/load/websocket"
)

// sockets carries out a WebSocket scenario: its virtual users are clients with
// one connection each, which package websocket looks after. Here is when how
// many of them are wanted, and where what they say is recorded.
type sockets struct {
	spec  *load.Scenario
	run   *run
	shard *shard
	group *websocket.Group
	ramp  load.UserRamp
	steps map[int]int // in the recorder, by those of an Outcome

	stopped  chan struct{}
	stopOnce sync.Once
	most     atomic.Int64
	fewest   int64 // connections that had joined, in the measured part; the observer's own

	sent, received uint64 // bytes counted so far; whoever cuts windows owns them
}

// joinAfter is how long after its handshake a client counts as one that must
// get what is sent to all, if the server does not say so. Servers subscribe a client after they have answered
// its handshake; a message sent in between would be called lost.
const joinAfter = 500 * time.Millisecond

// newSockets prepares a scenario.
func newSockets(s *load.Scenario, r *run, ids *stepIDs) (*sockets, error) {
	k := &sockets{
		spec: s, run: r, shard: r.recorder.shards[len(r.recorder.shards)-1],
		ramp: load.NewUserRamp(s), steps: map[int]int{}, stopped: make(chan struct{}), fewest: -1,
	}
	for i, name := range s.StepNames() {
		k.steps[slices.Index(outcomeSteps, name)] = ids.steps[i]
	}
	feeds, err := feed.Open(r.plan.Seed, s.Name, s.Feed)
	if err != nil {
		return nil, InputError{err}
	}
	c := websocket.Config{
		WebSocket: *s.WebSocket, TLS: r.tls, LocalIP: r.plan.LocalIP, Feeds: feeds, Given: r.plan.Given, Loops: r.plan.ThreadCount(),
		Clients: k.ramp.Peak(), Arrivals: s.Arrivals, Seed: seed.Derive(r.plan.Seed, s.Name, "websocket"),
		JoinAfter: joinAfter, Timeout: r.plan.Timeout, From: r.from, Now: r.clock.now, Record: k.record,
	}
	for _, t := range r.targets {
		// http and https are taken for what they become when upgraded.
		u := *t.base
		u.Scheme = strings.Replace(u.Scheme, "http", "ws", 1)
		c.URLs = append(c.URLs, strings.TrimSuffix(u.String(), "/"))
	}
	k.group, err = websocket.New(c)
	return k, err
}

// outcomeSteps are the names of an Outcome's steps.
var outcomeSteps = []string{
	websocket.StepConnect: load.StepConnect, websocket.StepMessage: load.StepMessage, websocket.StepSession: load.StepSession,
	websocket.StepAck: load.StepAck, websocket.StepPing: load.StepPing, websocket.StepLogin: load.StepLogin,
	websocket.StepRefused: load.StepRefused,
}

// record takes down what came of one connect or delivery. What is about connections counts
// whenever it was: the warm-up is there to open them.
func (k *sockets) record(w websocket.Outcome) {
	if w.Dropped {
		k.shard.addDrop(w.Intended, false, false)
		return
	}
	o := outcome{
		step: k.steps[w.Step], intended: w.Intended, sent: w.Sent, done: w.Done,
		status: w.Status, unexpected: w.Status >= 400, failed: w.Failed, err: w.Err, waited: w.Waited, open: true,
	}
	switch w.Step {
	case websocket.StepConnect, websocket.StepLogin:
		o.always = true
	case websocket.StepSession:
		o.always, o.untimed, o.open = true, true, false
	case websocket.StepRefused:
		o.untimed = true
	}
	switch {
	case w.Status >= 400 && w.Failed != failure.None:
		// The server said no in good HTTP: that is an answer, and its status says
		// what it is worth.
		o.failed, o.err = failure.None, nil
	case o.failed != failure.None:
		o.status = 0
	}
	k.shard.addRequest(&o)
	k.shard.addIteration(false, o.always || w.Intended >= k.run.from, w.Done)
}

// countBytes records what has gone to and fro since the last call.
func (k *sockets) countBytes() {
	s := k.group.Stats()
	k.shard.addBytes(k.run.clock.now(), s.SentBytes-k.sent, s.ReceivedBytes-k.received)
	k.sent, k.received = s.SentBytes, s.ReceivedBytes
}

// perform runs the scenario to its end.
func (k *sockets) perform(ctx context.Context) error {
	var controlling sync.WaitGroup
	controlling.Go(k.control)
	// Not the context of the caller: what is under way outlasts it by the time
	// of a cut, so that all of it is accounted for.
	err := k.group.Run(context.WithoutCancel(ctx))
	k.stopOnce.Do(func() { close(k.stopped) })
	controlling.Wait()
	return err
}

// control keeps the number of clients at what the ramp says, to its end.
func (k *sockets) control() {
	start := k.spec.StartTime
	for at := time.Duration(0); k.waitUntil(start + at); {
		if at >= k.ramp.End() {
			k.group.Stop(k.spec.GracefulStop)
			return
		}
		k.group.SetClients(k.ramp.At(at))
		next, ok := k.ramp.Next(at)
		if !ok {
			next = k.ramp.End()
		}
		at = max(next, k.run.clock.now()-start) // a late wake-up skips steps
	}
}

// waitUntil returns false if the load is stopped before t.
func (k *sockets) waitUntil(t time.Duration) bool {
	timer := time.NewTimer(t - k.run.clock.now())
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-k.stopped:
		return false
	}
}

// stop ends the offered load now, and what is under way after the time of
// graceful stop, or at once.
func (k *sockets) stop(atOnce bool) {
	k.stopOnce.Do(func() { close(k.stopped) })
	grace := k.spec.GracefulStop
	if atOnce {
		grace = 0
	}
	k.group.Stop(grace)
}

// advance returns how many deliveries are due.
func (k *sockets) advance(now time.Duration) (due uint64, working int) {
	stats := k.group.Stats()
	n := stats.InFlight
	k.most.Store(max(k.most.Load(), n))
	if now >= k.run.from && int64(now) < k.run.recorder.to.Load() && (k.fewest < 0 || stats.Joined < k.fewest) {
		k.fewest = stats.Joined
	}
	return 0, int(n)
}

// busiest is the most deliveries that were due at once.
func (k *sockets) busiest() int { return int(k.most.Load()) }

// socketStats adds up what the clients of all WebSocket scenarios counted; nil if
// there is none.
func (r *run) socketStats() *load.WebSocketResult {
	if len(r.sockets) == 0 {
		return nil
	}
	var out load.WebSocketResult
	for _, k := range r.sockets {
		s := k.group.Stats()
		out.Clients += k.ramp.Peak()
		out.LeastOpen += int(max(k.fewest, 0))
		out.Connects += s.Connects
		out.Reconnects += s.Reconnects
		out.Closed += s.Closed
		out.Sent += s.Sent
		out.Delivered += s.Delivered
		out.Lost += s.Lost
		out.CutOff += s.CutOff
		out.Skipped += s.Skipped
		out.Acked += s.Acked
		out.Refused += s.Refused
		out.Duplicates += s.Duplicates
		out.Other += s.Other
		out.Early += s.Unexpected
	}
	return &out
}
