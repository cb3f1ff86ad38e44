package websocket

import (
	"math"
	"strconv"
	"time"

	"loadstone/lab/load"
	"loadstone/lab/load/seed"
)

// schedule is when one client wants to send. Times are start plus a sum of gaps
// that follow from the seed and the message's number, so that a seed offers the
// same gaps whatever the server does.
type schedule struct {
	key     uint64
	gap     float64 // mean, in seconds
	poisson bool

	start time.Duration
	place float64 // of the next message, in gaps after start
	drawn uint64  // elements of the stream that are used up
	next  time.Duration
}

// newSchedule returns the schedule of a client. It begins with begin.
func newSchedule(c *Config, client int) schedule {
	return schedule{
		key:     seed.Derive(c.Seed, "websocket", "arrivals", strconv.Itoa(client)),
		gap:     1 / c.Rate,
		poisson: c.Arrivals == load.Poisson,
	}
}

// newPings returns the schedule of a client's pings, evenly spaced.
func newPings(c *Config, client int) schedule {
	return schedule{key: seed.Derive(c.Seed, "websocket", "pings", strconv.Itoa(client)), gap: c.Ping.Seconds()}
}

// begin sets the first message's time, for a schedule that begins now. An even
// schedule begins within one gap, so that clients do not send in step.
func (s *schedule) begin(now time.Duration) {
	s.start, s.place = now, 0
	if s.poisson {
		s.advance()
		return
	}
	s.place = seed.Unit(s.draw())
	s.locate()
}

// advance moves on to the message after the next.
func (s *schedule) advance() {
	if s.poisson {
		s.place += -math.Log(1 - seed.Unit(s.draw()))
	} else {
		s.place++
	}
	s.locate()
}

func (s *schedule) draw() uint64 {
	s.drawn++
	return seed.At(s.key, s.drawn-1)
}

func (s *schedule) locate() {
	s.next = s.start + time.Duration(s.place*s.gap*float64(time.Second))
}
