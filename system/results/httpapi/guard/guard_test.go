package guard_test

import (
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"loadstone/system/results/httpapi/guard"
)

var start = time.Date(2026, 7, 1, 6, 0, 0, 0, time.UTC)

func newGuard(tb testing.TB, change func(*guard.Config)) *guard.Guard {
	tb.Helper()
	cfg := guard.DefaultConfig()
	if change != nil {
		change(&cfg)
	}
	g, err := guard.New(cfg, nil, start)
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

// wrong is a try that opens nothing, right one that does.
func wrong(g *guard.Guard, id int64, from guard.Address, now time.Time) time.Duration {
	try, wait := g.Try(id, from, now, false)
	if wait > 0 {
		return wait
	}
	return g.Refused(try, now)
}

func right(g *guard.Guard, id int64, from guard.Address, now time.Time) time.Duration {
	try, wait := g.Try(id, from, now, false)
	if wait == 0 {
		g.Opened(try)
	}
	return wait
}

func address(text string) guard.Address { return guard.Group(netip.MustParseAddr(text)) }

func TestRate(t *testing.T) {
	t.Parallel()
	g := newGuard(t, func(c *guard.Config) { c.Rate, c.Burst = 10, 3 })
	a, b := address("192.0.2.1"), address("192.0.2.2")
	for i := range 3 {
		if wait := g.Request(a, start); wait != 0 {
			t.Errorf("request %d: got %v to wait, want 0", i+1, wait)
		}
	}
	if got, want := g.Request(a, start), 100*time.Millisecond; got != want {
		t.Errorf("beyond the burst: got %v to wait, want %v", got, want)
	}
	if wait := g.Request(b, start); wait != 0 {
		t.Errorf("another address: got %v to wait, want 0", wait)
	}
	if wait := g.Request(a, start.Add(99*time.Millisecond)); wait != time.Millisecond {
		t.Errorf("too early: got %v to wait, want 1ms", wait)
	}
	if wait := g.Request(a, start.Add(100*time.Millisecond)); wait != 0 {
		t.Errorf("in time: got %v to wait, want 0", wait)
	}
	passed := 0
	for i := range 10_000 { // a request each millisecond for ten seconds
		if g.Request(a, start.Add(time.Minute+time.Duration(i)*time.Millisecond)) == 0 {
			passed++
		}
	}
	if want := 3 + 99; passed != want {
		t.Errorf("got %d requests in ten seconds, want %d", passed, want)
	}
}

// The bucket must agree with one that is written down plainly.
func TestRateIsATokenBucket(t *testing.T) {
	t.Parallel()
	const seed = 4
	random := rand.New(rand.NewPCG(seed, seed))
	g := newGuard(t, func(c *guard.Config) { c.Rate, c.Burst = 8, 5 })
	now, tokens := start, int64(5*time.Second/8)
	for i := range 100_000 {
		step := time.Duration(random.IntN(300)) * time.Millisecond
		now = now.Add(step)
		tokens = min(tokens+int64(step), int64(5*time.Second/8))
		want := tokens >= int64(time.Second/8)
		if want {
			tokens -= int64(time.Second / 8)
		}
		if got := g.Request(7, now) == 0; got != want {
			t.Fatalf("seed %d, request %d: got %v, want %v", seed, i, got, want)
		}
	}
}

func TestLockOut(t *testing.T) {
	t.Parallel()
	g := newGuard(t, func(c *guard.Config) { c.Tries, c.Window = 3, time.Minute })
	a, b := address("192.0.2.1"), address("192.0.2.2")
	const id = 5
	now := start
	for i := range 3 {
		now = now.Add(time.Second)
		if wait := wrong(g, id, a, now); wait != 0 {
			t.Errorf("wrong code %d: got %v to wait, want 0", i+1, wait)
		}
	}
	last := now
	if got := right(g, id, a, now); got != time.Minute {
		t.Errorf("the right code after the last try: got %v to wait, want 1m", got)
	}
	if wait := right(g, id, b, now); wait != 0 {
		t.Errorf("another address: got %v to wait, want 0", wait)
	}
	if wait := right(g, id+1, a, now); wait != 0 {
		t.Errorf("another id: got %v to wait, want 0", wait)
	}
	if wait := right(g, id, a, last.Add(time.Minute-1)); wait != 1 {
		t.Errorf("just before the end: got %v to wait, want 1ns", wait)
	}
	if wait := right(g, id, a, last.Add(time.Minute)); wait != 0 {
		t.Errorf("after the window: got %v to wait, want 0", wait)
	}
}

func TestRightCodeForgivesWrongOnes(t *testing.T) {
	t.Parallel()
	g := newGuard(t, func(c *guard.Config) { c.Tries, c.SlowAfter = 3, 1000 })
	for i := range 20 {
		code := wrong
		if i%3 == 2 {
			code = right
		}
		if wait := code(g, 1, 2, start); wait != 0 {
			t.Fatalf("code %d: got %v to wait, want 0", i+1, wait)
		}
	}
}

// Many addresses slow an id down, and can never take the last try from anybody.
func TestSlowDown(t *testing.T) {
	t.Parallel()
	g := newGuard(t, func(c *guard.Config) { c.Tries, c.SlowAfter, c.Window = 5, 20, time.Minute })
	for from := range guard.Address(1000) {
		guesses := 0
		for wrong(g, 1, from, start) == 0 {
			guesses++
		}
		want := 5
		if from >= 4 { // 4 addresses with 5 guesses make 20
			want = 1
		}
		if guesses != want {
			t.Fatalf("address %d: got %d guesses, want %d", from, guesses, want)
		}
	}
	if wait := right(g, 1, 5000, start); wait != 0 {
		t.Errorf("the student: got %v to wait, want 0", wait)
	}
	if got := right(g, 2, 1, start); got != 0 {
		t.Errorf("another id: got %v to wait, want 0", got)
	}
	later := start.Add(time.Minute)
	for range 4 {
		wrong(g, 1, 1, later)
	}
	if wait := right(g, 1, 1, later); wait != 0 {
		t.Errorf("after the window: got %v to wait after 4 wrong codes, want 0", wait)
	}
}

// With trouble a try is worth a sixth, and mixed with others it is what it is.
func TestTriesInTrouble(t *testing.T) {
	t.Parallel()
	for _, whole := range []int{0, 1, 4} {
		g := newGuard(t, nil)
		for range whole {
			wrong(g, 1, 2, start)
		}
		tries := 0
		for try, wait := g.Try(1, 2, start, true); wait == 0; try, wait = g.Try(1, 2, start, true) {
			g.Refused(try, start)
			tries++
		}
		if want := 6 * (5 - whole); tries != want {
			t.Errorf("after %d wrong codes: got %d tries, want %d", whole, tries, want)
		}
	}
}

// A code that is looked at is counted already: the right one among a thousand that are
// under way opens only if it is one of the first five.
func TestTriesUnderWayCount(t *testing.T) {
	t.Parallel()
	g := newGuard(t, nil)
	for range 5 {
		if _, wait := g.Try(1, 2, start, false); wait != 0 {
			t.Fatal("one of five tries is refused")
		}
	}
	if _, wait := g.Try(1, 2, start, false); wait == 0 {
		t.Error("a sixth code is looked at")
	}
}

// A thousand guesses that are compared at the same time are worth five.
func TestGuessesAtOnce(t *testing.T) {
	t.Parallel()
	g := newGuard(t, nil)
	told := make(chan bool, 1000)
	var guessers sync.WaitGroup
	for range cap(told) {
		guessers.Go(func() { told <- wrong(g, 1, 2, start) == 0 })
	}
	guessers.Wait()
	close(told)
	got := 0
	for ok := range told {
		if ok {
			got++
		}
	}
	if got != 5 {
		t.Errorf("got %d guesses told, want 5", got)
	}
}

// A full table forgets who matters least and keeps who misbehaves most.
func TestFullTable(t *testing.T) {
	t.Parallel()
	g := newGuard(t, func(c *guard.Config) { c.Pairs, c.Addresses, c.Rate, c.Burst = 64, 64, 1, 10 })
	for range 5 {
		wrong(g, 1, 1, start)
	}
	for range 10 {
		g.Request(1, start)
	}
	for i := range int64(100_000) { // one wrong code and one request each
		wrong(g, i+100, guard.Address(i+100), start)
		g.Request(guard.Address(i+100), start)
	}
	if right(g, 1, 1, start) == 0 {
		t.Error("the locked pair was forgotten for pairs with one wrong code")
	}
	if g.Request(1, start) == 0 {
		t.Error("the limited address was forgotten for addresses with one request")
	}
	addresses, pairs, ids := g.Forgotten()
	for name, got := range map[string]uint64{"addresses": addresses, "pairs": pairs, "ids": ids} {
		if got < 99_000 || got > 100_000 {
			t.Errorf("%s: got %d forgotten, want about 99,900", name, got)
		}
	}
	// What no longer counts makes room without being missed.
	later := start.Add(time.Hour)
	for i := range int64(30) {
		wrong(g, -i, 1, later)
	}
	if _, after, _ := g.Forgotten(); after > pairs+10 {
		t.Errorf("got %d pairs forgotten after all had expired, want none or a few", after-pairs)
	}
}

func TestGroup(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"192.0.2.1", "192.0.2.1", true},
		{"192.0.2.1", "192.0.2.2", false},
		{"192.0.2.1", "::ffff:192.0.2.1", true},
		{"2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff", true},
		{"2001:db8::1", "2001:db8:0:1::1", false},
		{"fe80::1%eth0", "fe80::2%eth1", true},
		{"192.0.2.1", "::192.0.2.1", false},
	} {
		if got := address(c.a) == address(c.b); got != c.same {
			t.Errorf("%s and %s: got the same %v, want %v", c.a, c.b, got, c.same)
		}
	}
	if got := guard.Group(netip.Addr{}); got != 0 {
		t.Errorf("no address: got %d, want 0", got)
	}
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	if err := guard.DefaultConfig().Validate(); err != nil {
		t.Errorf("the default: %v", err)
	}
	_, err := guard.New(guard.Config{}, nil, start)
	for _, want := range []string{"rate is 0", "burst is 0", "window is 0s", "tries is 0", "slow an id down is 0", "addresses is 0", "pairs is 0"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to say %q", err, want)
		}
	}
}

// What a request that opens a page costs here: the bound is 1 microsecond.
func BenchmarkChecks(b *testing.B) {
	for name, ids := range map[string]int64{"one id": 1, "all ids": 674_823} {
		b.Run(name, func(b *testing.B) {
			g := newGuard(b, func(c *guard.Config) { c.Rate, c.Burst = 1e6, 1e6 })
			now := start
			b.ReportAllocs()
			for i := int64(0); b.Loop(); i++ {
				id, from := i%ids, guard.Address(i%50_000)
				now = now.Add(time.Microsecond)
				if g.Request(from, now)+right(g, id, from, now) != 0 {
					b.Fatal("refused")
				}
			}
		})
	}
}
