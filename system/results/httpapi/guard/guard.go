// Package guard decides who may ask again: a rate limit per address, and a
// lock-out for wrong access codes. It knows no HTTP; the caller tells it the
// client's address and what came of each code, and answers the client.
//
// # Addresses
//
// An IPv4 address counts alone, an IPv6 address with all of its /64: that is
// what one household or phone is given, and it could use every address in it.
// Behind a proxy the client's address is in X-Forwarded-For, see package forwarded.
//
// # The rate limit
//
// Each address has a bucket of Burst requests that fills at Rate per second.
// Many students share an address at a school or behind a mobile carrier, so the
// limit is for machines and not for people: it should be far above what a person
// does. A student takes two requests, the form and the answer. With the defaults 500
// students behind one address are served at the same moment, and 100 a second after
// that: a school at once, and 100,000 behind a carrier's gateway in 17 minutes.
//
// # The lock-out
//
// Tries are counted per pair of id and address, before the code is looked at: who sends
// a thousand guesses at once learns of Tries of them. After Tries within Window the pair
// is locked for Window: even the right code does not open then, for otherwise the lock
// would not slow guessing down. The right code sets the pair's count back.
//
// While the service has trouble, many who have the right code are refused and come back,
// so a try counts a sixth then, for everybody: with the defaults an address has 30 in
// Window.
//
// Wrong codes are also counted per id, from all addresses. After SlowAfter of
// them within Window the id is slowed down: each address then has one try in
// Window instead of Tries. It is never none.
//
// The trade: who guesses from many addresses gets one guess for each of them and
// Window, and who wants to keep a student out cannot, unless both share an
// address: then five wrong codes keep the student out for Window, and the rate
// limit bounds to how many students that can be done. A lock per id alone would
// let anybody keep anybody out for five requests; one per address alone would let
// one person keep out all that are behind the same carrier.
//
// Unknown ids are counted like known ones, so that an answer does not tell them
// apart.
//
// # Replicas
//
// With Peers, n replicas that share a Redis have the limits of one, up to this:
//
//	tries of a pair in Window    Tries + n. The first try of a pair at a replica is not
//	                             told before its code was looked at, so that a student
//	                             who makes no mistake costs Redis nothing.
//	tries of a pair, id slowed   1 + n
//	requests of an address       n × Burst at once, and in the long run Rate: requests
//	                             are told in lots of ten, and what the replicas let
//	                             through together, all of them wait for.
//
// The right code sets back what its own replica has counted or been told. Without Redis,
// or while it is away (Peers says how that is noticed), every replica counts for itself:
// n × Tries and n × Rate, as for one that is used alone. So a lost Redis opens no door
// that the limits close, and locks nobody out.
//
// # Memory
//
// Both counts live in tables of a fixed size, see table. When a table is full the
// least important entry is forgotten: a bucket that is closest to full, a pair
// with the fewest wrong codes. So a full table errs towards letting a request
// through; those who misbehave most are remembered longest. Forgotten counts what
// was lost.
package guard

import (
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"
)

// Config holds the limits. Start from DefaultConfig.
type Config struct {
	// Rate is how many requests a second one address may send in the long run.
	Rate float64
	// Burst is how many it may send at once.
	Burst int
	// Addresses is how many addresses are remembered at a time, at 33 bytes each.
	Addresses int

	// Tries is how many wrong codes a pair of id and address has in a Window.
	Tries int
	// Window is how long wrong codes are remembered and a pair stays locked.
	Window time.Duration
	// SlowAfter is how many wrong codes for one id, from anywhere, slow it down.
	SlowAfter int
	// Pairs is how many pairs, and how many ids, are remembered at a time, at 33
	// bytes each.
	Pairs int
}

// DefaultConfig returns limits for results day on the open internet. One address
// may be a whole school with a hundred phones, or a carrier's gateway.
func DefaultConfig() Config {
	return Config{
		Rate: 200, Burst: 1000, Addresses: 1 << 16,
		Tries: 5, Window: 15 * time.Minute, SlowAfter: 50, Pairs: 1 << 17,
	}
}

// Within these values nothing overflows: the longest debt is maxBurst/minRate
// seconds, 1e18 nanoseconds.
const (
	minRate   = 1e-3
	maxRate   = 1e6
	maxBurst  = 1e6
	maxWindow = 24 * time.Hour
	maxTable  = 1 << 24
)

// Validate returns all problems of the configuration, joined, or nil.
func (c Config) Validate() error {
	var errs []error
	if !(c.Rate >= minRate && c.Rate <= maxRate) { // not so for NaN
		errs = append(errs, fmt.Errorf("rate is %v requests a second, must be %v to %v", c.Rate, minRate, maxRate))
	}
	if c.Window < time.Second || c.Window > maxWindow {
		errs = append(errs, fmt.Errorf("lock-out window is %v, must be %v to %v", c.Window, time.Second, maxWindow))
	}
	for _, n := range []struct {
		name            string
		value, min, max int
	}{
		{"burst", c.Burst, 1, maxBurst},
		{"remembered addresses", c.Addresses, ways, maxTable},
		{"tries", c.Tries, 1, 1000},
		{"wrong codes that slow an id down", c.SlowAfter, 1, 1e6},
		{"remembered pairs", c.Pairs, ways, maxTable},
	} {
		if n.value < n.min || n.value > n.max {
			errs = append(errs, fmt.Errorf("%s is %d, must be %d to %d", n.name, n.value, n.min, n.max))
		}
	}
	return errors.Join(errs...)
}

// Guard holds the counts. It is safe for concurrent use.
//
// Instants are given by the caller, so that one reading of the clock serves a
// whole request; they should not go backwards by more than the limits can bear.
type Guard struct {
	epoch  time.Time // instants are counted from here
	every  int64     // nanoseconds in which one request is regained
	burst  int64     // nanoseconds of debt that an address may have
	tries  int32     // of weight whole
	slow   int32     // the same
	window int64
	peers  *Peers // nil: this replica is alone

	addresses, pairs, ids *table
	// slowUntil is when no id is slowed down any more. While none is, which is
	// nearly always, the table of ids need not be read: half of a request's cost
	// here are locks.
	slowUntil atomic.Int64
}

// New returns a guard that has seen nothing; peers may be nil. Its instants are at or
// after now.
func New(cfg Config, peers *Peers, now time.Time) (*Guard, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	every := int64(float64(time.Second) / cfg.Rate)
	return &Guard{
		// A time of 0 is an empty slot, so no instant is 0.
		epoch: now.Add(-time.Hour),
		every: every, burst: every * int64(cfg.Burst),
		tries: whole * int32(cfg.Tries), slow: whole * int32(cfg.SlowAfter), window: int64(cfg.Window), peers: peers,
		addresses: newTable(cfg.Addresses), pairs: newTable(cfg.Pairs), ids: newTable(cfg.Pairs),
	}, nil
}

// Address is what an address is counted as, see Group.
type Address uint64

// Group returns what an address is counted as: itself for IPv4, its /64 for
// IPv6. All peers without an IP address are one.
func Group(addr netip.Addr) Address {
	addr = addr.Unmap()
	switch {
	case addr.Is4():
		b := addr.As4()
		// The first half of ::ffff:0:0/32, which nobody has.
		return Address(0xffff_0000_0000 | uint64(b[0])<<24 | uint64(b[1])<<16 | uint64(b[2])<<8 | uint64(b[3]))
	case addr.Is6():
		b := addr.As16()
		var key uint64
		for _, octet := range b[:8] {
			key = key<<8 | uint64(octet)
		}
		return Address(key)
	}
	return 0
}

// Request counts a request from the address. It reports 0 if it may be answered,
// else how long the address should wait.
//
// This is the generic cell rate algorithm (ITU-T I.371): an entry's time is when
// the bucket will be full again.
func (g *Guard) Request(from Address, now time.Time) (wait time.Duration) {
	at := g.since(now)
	who := key{uint64(from), 0}
	set := g.addresses.lock(who)
	defer set.mu.Unlock()
	slot := set.claim(who, at, g.addresses)
	full := max(slot.until, at) + g.every
	if debt := full - at; debt > g.burst {
		return time.Duration(debt - g.burst)
	}
	slot.until = full
	if g.peers != nil {
		g.lot(who, slot, at)
	}
	return 0
}

// lot tells the peers of requests of an address, when there are ten.
func (g *Guard) lot(who key, slot *entry, at int64) {
	if slot.untold++; slot.untold < lot {
		return
	}
	select {
	case g.peers.lots <- spent{g, who, at, int64(slot.untold) * g.every}:
		slot.untold = 0
	default: // with the next request
	}
}

// owes makes an address wait for what all replicas let through.
func (g *Guard) owes(who key, at int64, debt time.Duration) {
	set := g.addresses.lock(who)
	defer set.mu.Unlock()
	slot := set.claim(who, at, g.addresses)
	slot.until = max(slot.until, at+int64(debt))
}

// whole is how much a try counts, and doubtful how much while the service has trouble.
const (
	whole    = 6
	doubtful = 1
)

// Try is one that was counted.
type Try struct {
	id     int64
	from   Address
	weight int32
	told   bool // the peers know
}

// Try counts a try of a code for the id. It reports 0 if the code may be looked at, and
// then Opened or Refused is to be called; else how long the address must wait. trouble
// says that many are refused now who have the right code.
func (g *Guard) Try(id int64, from Address, now time.Time, trouble bool) (try Try, wait time.Duration) {
	try = Try{id: id, from: from, weight: whole}
	if trouble {
		try.weight = doubtful
	}
	first, wait := g.countPair(&try, g.since(now))
	if wait > 0 || first || g.peers == nil {
		return try, wait
	}
	return try, g.tell(&try, false, now)
}

// Opened sets back what was counted for the pair: the code was right.
func (g *Guard) Opened(try Try) {
	pair := key{uint64(try.id), uint64(try.from)}
	set := g.pairs.lock(pair)
	if slot := set.find(pair); slot != nil {
		*slot = entry{}
	}
	set.mu.Unlock()
	if try.told {
		g.peers.forgive(&try)
	}
}

// Refused counts for the id that a try opened nothing. It reports 0 if that may be said,
// else how long the address must wait: other replicas have counted more of them.
func (g *Guard) Refused(try Try, now time.Time) (wait time.Duration) {
	g.countID(&try, g.since(now))
	if try.told || g.peers == nil {
		return 0
	}
	return g.tell(&try, true, now)
}

// tell counts the try for all replicas, and locks the pair here if it is locked there.
func (g *Guard) tell(try *Try, looked bool, now time.Time) (wait time.Duration) {
	wait, try.told = g.peers.try(try, looked)
	if wait == 0 {
		return 0
	}
	pair, at := key{uint64(try.id), uint64(try.from)}, g.since(now)
	set := g.pairs.lock(pair)
	defer set.mu.Unlock()
	slot := set.claim(pair, at, g.pairs)
	*slot = entry{until: at + int64(wait), count: g.tries}
	return wait
}

// countPair reports whether this is all that is counted for the pair, or how long it is
// locked.
func (g *Guard) countPair(try *Try, at int64) (first bool, wait time.Duration) {
	tries := g.triesFor(try.id, at)
	pair := key{uint64(try.id), uint64(try.from)}
	set := g.pairs.lock(pair)
	defer set.mu.Unlock()
	slot := set.claim(pair, at, g.pairs)
	if wait := slot.locked(at, tries); wait > 0 {
		return false, wait
	}
	first = slot.until <= at
	slot.add(at, g.window, tries, try.weight)
	return first, 0
}

func (g *Guard) countID(try *Try, at int64) {
	whom := key{uint64(try.id), 0}
	set := g.ids.lock(whom)
	defer set.mu.Unlock()
	slot := set.claim(whom, at, g.ids)
	slot.add(at, g.window, g.slow, try.weight)
	if slot.locked(at, g.slow) == 0 {
		return
	}
	for last := g.slowUntil.Load(); last < slot.until; last = g.slowUntil.Load() {
		if g.slowUntil.CompareAndSwap(last, slot.until) {
			return
		}
	}
}

// triesFor returns how much an address may try for the id.
func (g *Guard) triesFor(id, at int64) int32 {
	if at >= g.slowUntil.Load() {
		return g.tries
	}
	whom := key{uint64(id), 0}
	set := g.ids.lock(whom)
	defer set.mu.Unlock()
	if set.find(whom).locked(at, g.slow) > 0 {
		return whole
	}
	return g.tries
}

func (g *Guard) since(now time.Time) int64 { return max(int64(now.Sub(g.epoch)), 1) }

// Forgotten is how many entries were lost to others while they still counted.
func (g *Guard) Forgotten() (addresses, pairs, ids uint64) {
	return g.addresses.forgotten.Load(), g.pairs.forgotten.Load(), g.ids.forgotten.Load()
}
