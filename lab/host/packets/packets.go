// Package packets sees from outside how long requests wait, and where: it reads the
// headers of TCP segments on the loopback interface, and follows on each connection who
// asks and who answers. Nothing has to be declared, instrumented or decrypted for it.
//
// An exchange is a request and its answer: all that one side of a connection sends until
// the other begins to answer. HTTP/1, Redis, PostgreSQL and whatever else asks and waits
// are seen exactly; of protocols that have several requests under way on one connection,
// such as HTTP/2, only how often anybody waited. A hop is a client with an address that it
// asks. By Little's law the mean time of a hop's exchanges is how many were under way,
// on average, divided by how many ended each second, and that holds as well where a
// stretch of time is shorter than most exchanges.
//
// Packets bear the time of day. A slice in which the clock is set is left out, and what is under way
// then is not followed any further.
//
// Only IPv4 is followed, and only what passes the loopback interface of this network
// namespace. Reading it takes CAP_NET_RAW.
//
// What it costs is bounded: Watch reads on while there are few segments, and takes glimpses where
// there are more than mostPackets a second, so that as many are read in all. In a glimpse,
// exchanges that take longer than it lasts seem to take no longer.
package packets

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNotAllowed is why nothing is seen without the right to read packets.
var ErrNotAllowed = errors.New("reading packets is not allowed here: it takes root or the capability CAP_NET_RAW")

// Slice is what was seen in a stretch of time.
type Slice struct {
	At      time.Time `json:"t"` // its begin
	Seconds float64   `json:"d"`
	// Packets is how many were read, and Lost how many there was no room for: then
	// exchanges are missing.
	Packets uint64 `json:"p"`
	Lost    uint64 `json:"l,omitempty"`
	Hops    []Hop  `json:"h"`
}

// Hop is what one client asked of one address in a Slice.
type Hop struct {
	// Client is the target that asks, as Config names it, or Watcher; empty for whoever is
	// neither. Unnamed says that it is empty because it is not known: sockets are looked up
	// now and then, and a connection may be closed by then.
	Client  string         `json:"c,omitempty"`
	Unnamed bool           `json:"u,omitempty"`
	Server  netip.AddrPort `json:"s"`
	// Exchanges were answered in the slice, and InFlight is for how long they were
	// under way, summed over them: from a request's last byte to the first of its answer.
	Exchanges uint64        `json:"n"`
	InFlight  time.Duration `json:"f"`
	// Asking and Answering are from the first to the last byte of requests and answers.
	Asking    time.Duration `json:"q,omitempty"`
	Answering time.Duration `json:"a,omitempty"`
	// Stalls is how many pauses of 40 ms there were within requests and answers: one side
	// holds back a small segment until the one before is acknowledged (Nagle's
	// algorithm), which the other side delays for as long.
	Stalls uint64 `json:"k,omitempty"`
	// Near is how many pauses were a little shorter or longer than that: where messages come in
	// their own time, such as those that a server pushes, there are twice as many as Stalls.
	Near uint64 `json:"j,omitempty"`
}

// Watcher is the Client of what this process asks, such as metrics.
const Watcher = "(watcher)"

// Config says whom to see.
type Config struct {
	// Processes are the ids of the processes of each target by its name, as they are now.
	Processes func() map[string][]int
}

const (
	// sliceTime is the length of a slice.
	sliceTime = 200 * time.Millisecond
	// mostPackets is how many are read each second, on average. Where there are more, a
	// glimpse is taken now and then.
	mostPackets = 5_000
	glimpseTime = 100 * time.Millisecond
	// settles is until every packet of a moment can be read: the kernel hands on a part
	// of the ring when it is full, or after retire.
	retire  = 20 * time.Millisecond
	settles = 3 * retire
)

// Watch emits a slice after the other until ctx ends, and returns nil then. The error is
// ErrNotAllowed where packets may not be read. Calls of emit do not overlap.
func Watch(ctx context.Context, c Config, emit func(*Slice) error) (err error) {
	r, err := allowed()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	t := newTracker(&owners{processes: c.Processes})
	for ctx.Err() == nil {
		read, elapsed, err := r.stretch(ctx, t, emit)
		if err != nil {
			return err
		}
		for many := true; many && ctx.Err() == nil; {
			wait(ctx, time.Duration(float64(read)/mostPackets*float64(time.Second))-elapsed)
			if read, elapsed, err = r.glimpse(ctx, t, emit); err != nil {
				return err
			}
			many = float64(read) > mostPackets*glimpseTime.Seconds()
		}
	}
	return nil
}

// wait waits for so long, or until ctx ends, and says whether it did.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(max(d, 0)):
		return true
	case <-ctx.Done():
		return false
	}
}

// Check says whether packets may be read here: the error is ErrNotAllowed where they may not.
func Check() error {
	r, err := allowed()
	if err != nil {
		return err
	}
	return r.close()
}

func allowed() (*ring, error) {
	r, err := open()
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return nil, ErrNotAllowed
	}
	return r, err
}

// glimpse reads a short slice, in one piece when it is over: it fits into the ring.
func (r *ring) glimpse(ctx context.Context, t *tracker, emit func(*Slice) error) (read uint64, elapsed time.Duration, err error) {
	if err := r.receive(); err != nil {
		return 0, 0, err
	}
	began := time.Now()
	wait(ctx, glimpseTime/2)
	t.who.refresh() // of what is open before it and after it they tell
	wait(ctx, glimpseTime/2)
	ended := time.Now()
	if err := r.rest(); err != nil || ctx.Err() != nil {
		return 0, 0, err
	}
	if !wait(ctx, settles) { // it is not whole
		return 0, 0, nil
	}
	t.begin(began, ended, true)
	for r.block(t.add) {
	}
	if r.isSet(began) {
		t.who.forget()
		return 0, time.Since(began), nil
	}
	s := t.cut(ended)
	s.Lost = r.lost()
	return s.Packets, time.Since(began), emit(s)
}

// stretch reads for as long as there are few packets, and for a slice at the least.
func (r *ring) stretch(ctx context.Context, t *tracker, emit func(*Slice) error) (read uint64, elapsed time.Duration, err error) {
	if err := r.receive(); err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, r.rest()) }()
	began := time.Now()
	t.begin(began, began.Add(sliceTime), false)
	var before uint64 // lost, for which the next slice may lack some as well: it had begun
	for cut := began.Add(sliceTime); ; cut = cut.Add(sliceTime) {
		r.until(ctx, cut, t.add)
		if ctx.Err() != nil {
			return read, time.Since(began), nil // the slice is not whole
		}
		if r.isSet(began) { // nobody can say what is of the slice, and what is to come would be of none
			t.who.forget()
			return read, time.Since(began), nil
		}
		s, lost := t.cut(cut), r.lost()
		if s.Lost, before = lost+before, lost; s.Lost > 0 {
			t.lose()
		}
		read += s.Packets
		if err := emit(s); err != nil {
			return read, time.Since(began), err
		}
		if elapsed = time.Since(began); float64(read) > mostPackets*elapsed.Seconds() {
			return read, elapsed, nil
		}
	}
}
