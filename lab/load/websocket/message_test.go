package websocket

import (
	"sync/atomic"
	"testing"
	"time"

	"loadstone/lab/load"
)

func TestIDsAreFound(t *testing.T) {
	t.Parallel()
	g := &Group{config: Config{WebSocket: load.WebSocket{Message: `{"id":"{id}","again":"{id}"}`}}}
	s, err := g.newScript()
	if err != nil {
		t.Fatal(err)
	}
	text := s.fill([]byte("["), nil, 12, 345)
	text = append(text, s.prefix...)
	text = append(text, "7-x-"...)
	text = append(text, s.prefix...)
	text = s.fill(text, nil, 0, 0)
	var got [][2]uint64
	for {
		sender, seq, rest, ok := s.next(text)
		if !ok {
			break
		}
		got, text = append(got, [2]uint64{sender, seq}), rest
	}
	want := [][2]uint64{{12, 345}, {12, 345}, {0, 0}, {0, 0}}
	if len(got) != len(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("id %d: got %v, want %v", i, got[i], want[i])
		}
	}
}

func FuzzIDs(f *testing.F) {
	s := &script{message: template{{then: theID}}, prefix: []byte("ls-abc-")}
	f.Add([]byte("ls-abc-1-2-"))
	f.Add([]byte("ls-abc-ls-abc-1--ls-abc-99999999999999999999-1-"))
	f.Add([]byte("ls-abc-3-"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for {
			sender, seq, rest, ok := s.next(text)
			if !ok {
				return
			}
			id := s.fill(nil, nil, int(sender), seq)
			if len(rest) >= len(text) || len(id) > len(text) {
				t.Fatalf("found %s in %q", id, text)
			}
			text = rest
		}
	})
}

func TestLedger(t *testing.T) {
	t.Parallel()
	r := newRoster()
	seats := map[int]*seat{}
	for client := range 130 {
		seats[client] = r.seat(client)
	}
	for _, client := range []int{0, 64, 129} {
		seats[client].set(true)
	}
	l := &ledger{}
	var inFlight atomic.Int64
	seq, ok := l.put(stamp{intended: 1, sent: 2}, dues{at: r}, 16, &inFlight)
	if !ok || seq != 0 {
		t.Fatalf("got %d and %v, want 0 and true", seq, ok)
	}
	seats[1].set(true) // too late
	seats[64].set(false)
	seats[64].set(true)
	const timeout = 10 * time.Nanosecond
	check := func(seq uint64, client int, now time.Duration, want verdict) {
		t.Helper()
		if got, _ := l.arrive(seq, seats[client], false, now, timeout); got != want {
			t.Errorf("message %d at %d: got %v, want %v", seq, client, got, want)
		}
	}
	check(0, 64, 5, fresh)
	check(0, 64, 6, duplicate)
	check(0, 1, 6, unexpected)
	check(1, 0, 6, unknown)
	check(0, 0, 13, late) // the sweeper has not come by yet
	var lost []int
	settle := func(before time.Duration) {
		l.settle(before, func(_ *entry, client int) { lost = append(lost, client) })
	}
	settle(1)
	if len(lost) != 0 {
		t.Errorf("got %v lost too early", lost)
	}
	settle(2)
	settle(2)
	if len(lost) != 2 || lost[0] != 0 || lost[1] != 129 {
		t.Errorf("got %v lost, want 0 and 129", lost)
	}
	check(0, 129, 20, late)
	check(0, 64, 20, duplicate)
	if got := time.Duration(l.oldest.Load()); got != never {
		t.Errorf("got an oldest message of %v, want none", got)
	}
}

// A ledger is full when as many are under way as it may hold, and has room again
// when the oldest is settled; what was overwritten is late.
func TestLedgerIsBounded(t *testing.T) {
	t.Parallel()
	l := &ledger{}
	var inFlight atomic.Int64
	const most = 40 // becomes 64
	n := uint64(0)
	for ; n < 10; n++ { // what comes at once leaves room, and the ring as short as it began
		if _, ok := l.put(stamp{}, dues{own: true}, most, &inFlight); !ok {
			t.Fatal("no room")
		}
		_, _ = l.arrive(n, nil, true, 0, 100)
	}
	for ; n < 1000; n++ {
		if _, ok := l.put(stamp{sent: time.Duration(n)}, dues{own: true}, most, &inFlight); !ok {
			break
		}
	}
	if n != 74 {
		t.Fatalf("got room for %d, want 64", n-10)
	}
	if v, _ := l.arrive(0, nil, true, 70, 100); v != late {
		t.Errorf("got %v for a message that has no entry, want late", v)
	}
	for seq := uint64(10); seq < n; seq++ {
		if v, s := l.arrive(seq, nil, true, 70, 100); v != fresh || s.sent != time.Duration(seq) {
			t.Fatalf("message %d: got %v sent at %v, want it fresh", seq, v, s.sent)
		}
		if _, ok := l.put(stamp{sent: time.Duration(n + seq)}, dues{own: true}, most, &inFlight); !ok {
			t.Fatalf("no room after message %d came", seq)
		}
	}
	if v, _ := l.arrive(0, nil, true, 70, 100); v != late {
		t.Errorf("got %v, want late", v)
	}
	if v, _ := l.arrive(n, nil, false, 70, 100); v != unexpected {
		t.Errorf("got %v, want unexpected", v)
	}
	if gone, taken := l.retract(); gone != 1 || !taken {
		t.Errorf("got %d taken back (%v), want 1", gone, taken)
	}
	if gone, taken := l.retract(); gone != 0 || taken {
		t.Errorf("what has been given up: got %d taken back (%v), want nothing", gone, taken)
	}
}
