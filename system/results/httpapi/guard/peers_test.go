package guard

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"loadstone/block/servertest"
)

const replicas = 3

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// replicated returns the guards of replicas that share the Redis at addr, connected, with
// all the time that a busy machine takes.
func replicated(t *testing.T, addr string, change func(*Config)) (all [replicas]*Guard) {
	t.Helper()
	cfg := DefaultConfig()
	change(&cfg)
	for i := range all {
		p := NewPeers(cfg, addr, "", "")
		p.timeout, p.option.ConnWriteTimeout, p.option.Dialer.Timeout = time.Minute, time.Minute, time.Minute
		for p.connect(); p.client.Load() == nil; p.connect() {
			t.Log("connecting to Redis again")
		}
		ctx, stop := context.WithCancel(context.Background())
		var running sync.WaitGroup
		running.Go(func() { _ = p.Run(ctx) })
		t.Cleanup(func() {
			stop()
			running.Wait()
			_ = p.Close()
		})
		var err error
		if all[i], err = New(cfg, p, noon); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// guess tries a wrong code and reports whether it was looked at.
func (g *Guard) guess(id int64, from Address) bool {
	try, wait := g.Try(id, from, noon, false)
	if wait == 0 {
		g.Refused(try, noon)
	}
	return wait == 0
}

// guesses asks all replicas, at each from as many goroutines, until none of them
// looks at another code, and returns how many were looked at.
func guesses(all [replicas]*Guard, id int64, from Address, atOnce int) int {
	var looked atomic.Int64
	var running sync.WaitGroup
	for _, g := range all {
		for range atOnce {
			running.Go(func() {
				for g.guess(id, from) {
					looked.Add(1)
				}
			})
		}
	}
	running.Wait()
	return int(looked.Load())
}

// The bounds that the package states, whether guesses come one after the other or all at
// once, and when the id is slowed down.
func TestReplicasShareTries(t *testing.T) {
	t.Parallel()
	all := replicated(t, servertest.Redis(t).Addr(), func(c *Config) { c.SlowAfter = 40 })
	const tries = 5
	inTurn := 0
	for i := range 20 * replicas {
		if all[i%replicas].guess(1, 7) {
			inTurn++
		}
	}
	if inTurn < tries || inTurn > tries+replicas {
		t.Errorf("in turn: %d codes were looked at, want %d to %d", inTurn, tries, tries+replicas)
	}
	for id := int64(2); id < 20; id++ {
		if got := guesses(all, id, 7, 10); got < tries || got > tries+replicas {
			t.Errorf("at once: %d codes were looked at, want %d to %d", got, tries, tries+replicas)
		}
	}
	// Many addresses, one after the other: 40 wrong codes slow the id down.
	total := 0
	for from := range Address(100) {
		got := guesses(all, 20, 1000+from, 3)
		if total > 40+replicas && (got < 1 || got > 1+replicas) {
			t.Errorf("an address to a slowed id: %d codes were looked at, want 1 to %d", got, 1+replicas)
		}
		total += got
	}
}

// A first try that a replica tells of when the pair is locked already was a wrong code all
// the same: it counts for the id.
func TestFirstTriesSlowAnID(t *testing.T) {
	t.Parallel()
	all := replicated(t, servertest.Redis(t).Addr(), func(c *Config) { c.SlowAfter = 40 })
	from := Address(1)
	for looked := 0; looked < 40; from++ {
		var first [replicas]Try
		for i, g := range all {
			try, wait := g.Try(1, from, noon, false)
			if wait > 0 {
				t.Fatalf("address %d: the first try at replica %d has to wait %v", from, i, wait)
			}
			first[i] = try
		}
		for looked += replicas; all[0].guess(1, from); {
			looked++
		}
		for i, g := range all {
			g.Refused(first[i], noon)
		}
	}
	if got := guesses(all, 1, from, 1); got > 1+replicas {
		t.Errorf("an address to a slowed id: %d codes were looked at, want at most %d", got, 1+replicas)
	}
}

// The right code sets the count back, at the replica that it came to and in Redis, and
// whoever makes no mistake is not told of.
func TestRightCodeAmongReplicas(t *testing.T) {
	t.Parallel()
	redis := servertest.Redis(t)
	all := replicated(t, redis.Addr(), func(*Config) {})
	for i := range 30 {
		for range i % 3 {
			if !all[0].guess(1, 7) {
				t.Fatalf("round %d: locked out after a few mistakes and the right code", i)
			}
		}
		try, wait := all[0].Try(1, 7, noon, false)
		if wait > 0 {
			t.Fatalf("round %d: the right code has to wait %v", i, wait)
		}
		all[0].Opened(try)
	}
	if got := redis.Command("EXISTS", "results.limits:1:pair:1:7"); got != "0" {
		t.Error("Redis still counts for the pair")
	}
	redis.Flush()
	for i := range int64(100) {
		try, _ := all[i%replicas].Try(i, 7, noon, false)
		all[i%replicas].Opened(try)
	}
	if got := redis.Command("DBSIZE"); got != "0" {
		t.Errorf("students without a mistake left %s keys in Redis", got)
	}
}

// What the replicas let through together, all of them wait for: an address that asks them
// in turn gets the burst once, and what has not been told. A request is regained in 1,000 s
// here, so that the time that the test takes does not matter.
func TestReplicasShareRequests(t *testing.T) {
	t.Parallel()
	const burst = 100
	redis := servertest.Redis(t)
	all := replicated(t, redis.Addr(), func(c *Config) { c.Rate, c.Burst = 1e-3, burst })
	passed := 0
	for turn := range 20 * replicas {
		g, before := all[turn%replicas], passed
		for range lot {
			if g.Request(7, noon) == 0 {
				passed++
			}
		}
		if passed == before+lot {
			g.hears(t, redis, passed)
		}
	}
	if passed < burst || passed > burst+replicas*lot {
		t.Errorf("%d requests passed, want %d to %d", passed, burst, burst+replicas*lot)
	}
	if all[0].Request(8, noon) != 0 {
		t.Error("another address has to wait")
	}
}

// hears waits until Redis and the guard know that so many requests of address 7 passed.
func (g *Guard) hears(t *testing.T, redis *servertest.RedisServer, passed int) {
	t.Helper()
	who, debt := key{7, 0}, (int64(passed)-1)*g.every
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		full, _ := strconv.ParseInt(redis.Command("GET", "results.limits:1:address:7"), 10, 64)
		told := full-time.Now().UnixMicro() >= debt/int64(time.Microsecond)
		set := g.addresses.lock(who)
		knows := told && set.find(who).until-g.since(noon) >= debt
		set.mu.Unlock()
		if knows {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the replica did not hear of %d requests", passed)
		}
	}
}

// Without Redis every replica counts for itself, and goes on when Redis is there again.
func TestReplicasWithoutRedis(t *testing.T) {
	t.Parallel()
	redis := servertest.Redis(t)
	all := replicated(t, redis.Addr(), func(*Config) {})
	redis.Kill()
	for _, g := range all {
		g.peers.timeout = callTimeout
	}
	if got := guesses(all, 1, 7, 1); got != replicas*5 {
		t.Errorf("%d codes were looked at, want %d", got, replicas*5)
	}
	if all[0].peers.Alone() == 0 {
		t.Error("no call is counted as unanswered")
	}
	redis.Start()
	deadline := time.Now().Add(time.Minute)
	for id := int64(100); guesses(all, id, 7, 1) > 5+replicas; id++ {
		if time.Now().After(deadline) {
			t.Fatal("Redis is back and nothing is shared")
		}
	}
}
