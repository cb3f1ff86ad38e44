package plant

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// waitedHeader says in an answer how long the item waited for room, in
// nanoseconds: for that time the stage before was blocked.
const waitedHeader = "Plant-Waited"

// stage is a step of a pipeline: a buffer and one worker.
type stage struct {
	items chan struct{}
	each  time.Duration
	next  []*caller
	// lag is what was taken on and is not done, with those who wait for room.
	lag, done     atomic.Int64
	busy, blocked seconds
}

func newStage(c Stage, next []*caller) *stage {
	return &stage{items: make(chan struct{}, c.Capacity), each: millis(c.SleepMillis), next: next}
}

// put waits until an item is in the buffer, and returns for how long. ok is false
// if within passes first.
func (s *stage) put(within time.Duration) (waited time.Duration, ok bool) {
	s.lag.Add(1)
	select {
	case s.items <- struct{}{}:
		return 0, true
	default:
	}
	began := time.Now()
	late := time.NewTimer(within)
	defer late.Stop()
	select {
	case s.items <- struct{}{}:
		return time.Since(began), true
	case <-late.C:
		s.lag.Add(-1)
		return time.Since(began), false
	}
}

// work takes items out until ctx ends. Forwarding counts as work, except for
// the time that the next stage had no room.
func (s *stage) work(ctx context.Context) {
	var answer fasthttp.Response
	for {
		select {
		case <-s.items:
		case <-ctx.Done():
			return
		}
		began := time.Now()
		select {
		case <-time.After(s.each):
		case <-ctx.Done():
			return
		}
		blocked := s.forward(&answer)
		s.blocked.add(blocked)
		s.busy.add(max(0, time.Since(began)-blocked))
		s.done.Add(1)
		s.lag.Add(-1)
	}
}

// forward returns for how long the next stages had no room. An item that they do
// not take within callTimeout is lost, as when the next plant has been stopped.
func (s *stage) forward(answer *fasthttp.Response) (blocked time.Duration) {
	for _, c := range s.next {
		began := time.Now()
		if err := c.call(0, answer); err != nil {
			blocked += time.Since(began)
			continue
		}
		n, err := strconv.ParseInt(string(answer.Header.Peek(waitedHeader)), 10, 64)
		if err == nil {
			blocked += time.Duration(n)
		}
	}
	return blocked
}

// enqueue answers a request once its item is in the stage's buffer.
func (s *Service) enqueue(ctx *fasthttp.RequestCtx) {
	waited, ok := s.stage.put(callTimeout)
	if !ok {
		ctx.SetStatusCode(fasthttp.StatusServiceUnavailable)
		ctx.SetBodyString("the stage's buffer stayed full\n")
		return
	}
	ctx.Response.Header.Set(waitedHeader, strconv.FormatInt(int64(waited), 10))
	ctx.Response.SetBodyRaw(s.body)
}
