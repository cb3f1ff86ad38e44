// Package guard decides who may ask again: a rate limit per address, and a
// lock-out for wrong access codes. It knows no HTTP; the caller tells it the
// client's address and what came of each code, and answers the client.
//
// # Addresses
//
// An IPv4 address counts alone, an IPv6 address with all of its /64: that is
// what one household or phone is given, and it could use every address in it.
// Behind a proxy the client's address is in X-Forwarded-For, see Proxies.
//
// # The rate limit
//
// Each address has a bucket of Burst requests that fills at Rate per second.
// Many students share an address at a school or behind a mobile carrier, so the
// limit is for machines and not for people: it should be far above what a person
// does.
//
// # The lock-out
//
// Wrong codes are counted per pair of id and address. After Tries wrong codes
// within Window the pair is locked for Window: even the right code does not open
// then, for otherwise the lock would not slow guessing down. The right code sets
// the pair's count back.
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
		Rate: 100, Burst: 500, Addresses: 1 << 16,
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
	tries  int32
	slow   int32
	window int64

	addresses, pairs, ids *table
	// slowUntil is when no id is slowed down any more. While none is, which is
	// nearly always, the table of ids need not be read: half of a request's cost
	// here are locks.
	slowUntil atomic.Int64
}

// New returns a guard that has seen nothing. Its instants are at or after now.
func New(cfg Config, now time.Time) (*Guard, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	every := int64(float64(time.Second) / cfg.Rate)
	return &Guard{
		// A time of 0 is an empty slot, so no instant is 0.
		epoch: now.Add(-time.Hour),
		every: every, burst: every * int64(cfg.Burst),
		tries: int32(cfg.Tries), slow: int32(cfg.SlowAfter), window: int64(cfg.Window),
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
	return 0
}

// Locked reports how long the address must wait before it may try a code for the
// id; 0 if it may now. It counts nothing.
func (g *Guard) Locked(id int64, from Address, now time.Time) (wait time.Duration) {
	at := g.since(now)
	tries := g.triesFor(id, at)
	pair := key{uint64(id), uint64(from)}
	set := g.pairs.lock(pair)
	defer set.mu.Unlock()
	return set.find(pair).locked(at, tries)
}

// Judge counts a code that has been compared, and reports whether what came of
// it may be told: wait is 0 then. It is not if the pair has been locked since
// Locked was asked, by codes that were compared at the same time: who sends a
// thousand guesses at once learns of Tries of them.
func (g *Guard) Judge(id int64, from Address, right bool, now time.Time) (wait time.Duration) {
	at := g.since(now)
	wait = g.judgePair(id, from, right, at)
	if !right && wait == 0 {
		g.countID(id, at)
	}
	return wait
}

func (g *Guard) judgePair(id int64, from Address, right bool, at int64) time.Duration {
	tries := g.triesFor(id, at)
	pair := key{uint64(id), uint64(from)}
	set := g.pairs.lock(pair)
	defer set.mu.Unlock()
	slot := set.find(pair)
	if wait := slot.locked(at, tries); wait > 0 {
		return wait
	}
	if right {
		if slot != nil {
			*slot = entry{}
		}
		return 0
	}
	if slot == nil {
		slot = set.claim(pair, at, g.pairs)
	}
	slot.wrong(at, g.window, tries)
	return 0
}

func (g *Guard) countID(id, at int64) {
	whom := key{uint64(id), 0}
	set := g.ids.lock(whom)
	defer set.mu.Unlock()
	slot := set.claim(whom, at, g.ids)
	slot.wrong(at, g.window, g.slow)
	if slot.locked(at, g.slow) == 0 {
		return
	}
	for last := g.slowUntil.Load(); last < slot.until; last = g.slowUntil.Load() {
		if g.slowUntil.CompareAndSwap(last, slot.until) {
			return
		}
	}
}

// triesFor returns how many wrong codes an address has for the id.
func (g *Guard) triesFor(id, at int64) int32 {
	if at >= g.slowUntil.Load() {
		return g.tries
	}
	whom := key{uint64(id), 0}
	set := g.ids.lock(whom)
	defer set.mu.Unlock()
	if set.find(whom).locked(at, g.slow) > 0 {
		return 1
	}
	return g.tries
}

func (g *Guard) since(now time.Time) int64 { return max(int64(now.Sub(g.epoch)), 1) }

// Forgotten is how many entries were lost to others while they still counted.
func (g *Guard) Forgotten() (addresses, pairs, ids uint64) {
	return g.addresses.forgotten.Load(), g.pairs.forgotten.Load(), g.ids.forgotten.Load()
}
