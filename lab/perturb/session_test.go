package perturb

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"loadstone/lab/load"
)

func window(t *testing.T, second int, requests uint64) load.Window {
	t.Helper()
	return slowWindow(t, second, requests, 2*time.Millisecond)
}

func slowWindow(t *testing.T, second int, requests uint64, takes time.Duration) load.Window {
	t.Helper()
	h := load.NewHistogram()
	if err := h.RecordValues(takes.Microseconds(), int64(requests)); err != nil {
		t.Fatal(err)
	}
	text, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		t.Fatal(err)
	}
	return load.Window{Start: time.Unix(int64(second), 0), Seconds: 1, Requests: requests, Response: string(text)}
}

// session is one over two knobs that note what they are set to.
func session(c Config, fail error) (*Session, map[string]float64) {
	now := map[string]float64{"front": 1, "store": 1}
	var k []Knob
	for _, name := range slices.Sorted(maps.Keys(now)) {
		k = append(k, Knob{Target: Target{Component: name, Resource: CPU}, Set: func(_ context.Context, factor float64) error {
			now[name] = factor
			if factor != 1 {
				return fail
			}
			return nil
		}})
	}
	s := NewSession(c, k)
	return s, now
}

func TestASessionKeepsWhatItSetAndRestoresIt(t *testing.T) {
	t.Parallel()
	c := DefaultConfig()
	c.Budget, c.MinRequests = 100*time.Second, 400
	s, now := session(c, nil)
	var clock time.Time
	s.now = func() time.Time { return clock }
	warm := window(t, 0, 100)
	warm.Warmup = true
	if _, err := s.Window(t.Context(), warm); err != nil {
		t.Fatal(err)
	}
	for second := 1; second <= 13; second++ {
		w := window(t, second, 100)
		clock = w.Start.Add(time.Second + 10*time.Millisecond)
		if stop, err := s.Window(t.Context(), w); stop != "" || err != nil {
			t.Fatalf("it stopped: %q, %v", stop, err)
		}
	}
	slots := s.Slots() // of 4 windows each: 400 requests
	if len(slots) != 3 {
		t.Fatalf("%d slots in 13 s, want 3", len(slots))
	}
	got := slots[1]
	if got.Seconds != 4 || got.Requests != 400 || got.P95 < 1.9 || got.P95 > 2.1 || got.Set < 0.009 || got.Set > 0.011 || len(got.Targets) != 1 || got.Factor == 1 {
		t.Errorf("a slot is %+v", got)
	}
	if len(slots[0].Targets) != 0 {
		t.Error("the first slot is perturbed")
	}
	if err := s.turn(t.Context(), step{arm: 0, factor: 0.8}, clock); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Close(ended); err != nil {
		t.Fatal(err)
	}
	if now["front"] != 1 || now["store"] != 1 {
		t.Errorf("after Close the knobs are at %v", now)
	}
}

// Slots of a slow system are no longer than leaves time for two blocks of each arm, without
// which there are no intervals.
func TestASlowSystemIsToldOf(t *testing.T) {
	t.Parallel()
	s, _ := session(DefaultConfig(), nil)
	var clock time.Time
	s.now = func() time.Time { return clock }
	warm := window(t, 0, 30)
	warm.Warmup = true
	stop, err := s.Window(t.Context(), warm)
	for second := 1; stop == "" && err == nil && second <= 60; second++ {
		w := window(t, second, 30)
		clock = w.Start.Add(time.Second)
		stop, err = s.Window(t.Context(), w)
	}
	if err != nil || stop == "" || s.spent > s.config.Budget {
		t.Fatalf("got %q, %v after %v", stop, err, s.spent)
	}
	if got := Estimate(s.Slots()); len(got) != 2 {
		t.Errorf("got elasticities of %d of 2 components from %d slots", len(got), len(s.Slots()))
	}
}

func TestAKnobThatFailsEndsTheSessionAndIsRestored(t *testing.T) {
	t.Parallel()
	broken := errors.New("no such file")
	s, now := session(DefaultConfig(), broken)
	stop, err := s.Window(t.Context(), window(t, 0, 1000))
	if stop != Done || !errors.Is(err, broken) {
		t.Fatalf("got %q, %v", stop, err)
	}
	if stop, err := s.Window(t.Context(), window(t, 1, 1000)); stop != "" || err != nil {
		t.Errorf("it went on: %q, %v", stop, err)
	}
	if err := s.Close(t.Context()); err != nil || now["front"] != 1 || now["store"] != 1 {
		t.Errorf("after Close the knobs are at %v (%v)", now, err)
	}
}

func TestASessionEndsWithinItsBudget(t *testing.T) {
	t.Parallel()
	c := DefaultConfig()
	c.Budget = 5 * time.Second
	s, _ := session(c, nil)
	for second := range 10 {
		w := window(t, second, 1000)
		s.now = func() time.Time { return w.Start.Add(time.Second) }
		stop, err := s.Window(t.Context(), w)
		if err != nil {
			t.Fatal(err)
		}
		if stop == Done {
			if got := len(s.Slots()); got != 4 {
				t.Errorf("%d slots in 5 s, want 4: a block is begun only if it can end", got)
			}
			return
		}
	}
	t.Error("it did not end")
}

// Slots are longer where few requests come, and begin to count later where these take long, as far
// as the budget has time for enough of them.
func TestSlotsAreAsLongAsQueuesNeed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		budget   time.Duration
		rate     float64
		response time.Duration
		want     lengths
	}{
		{30 * time.Second, 1000, 5 * time.Millisecond, lengths{0, 1}},
		{30 * time.Second, 1000, 40 * time.Millisecond, lengths{0, 1}}, // within what a setting may take
		{40 * time.Second, 150, 100 * time.Millisecond, lengths{1, 1}},
		{40 * time.Second, 150, 240 * time.Millisecond, lengths{1, 1}},
		{60 * time.Second, 150, 400 * time.Millisecond, lengths{2, 1}},
		{30 * time.Second, 150, 400 * time.Millisecond, lengths{0, 1}}, // too few slots are left
		{60 * time.Second, 30, 100 * time.Millisecond, lengths{1, 2}},
		{300 * time.Second, 30, time.Second, lengths{5, 4}},
	} {
		d := DefaultConfig()
		d.Budget = c.budget
		if got := d.lengths(c.rate, c.response); got != c.want {
			t.Errorf("%v, %v a second that take %v: got %+v, want %+v", c.budget, c.rate, c.response, got, c.want)
		}
		d.Budget = Enough(c.response)
		if got := d.lengths(c.rate, c.response).settle; c.rate >= 100 && got != d.settling(c.response) {
			t.Errorf("%v is to be enough where requests take %v: %d windows to settle, want %d", d.Budget, c.response, got, d.settling(c.response))
		}
	}
}

// What comes of the time in which queues move is in no slot.
func TestASlotBeginsToCountWhenQueuesHaveMoved(t *testing.T) {
	t.Parallel()
	c := DefaultConfig()
	c.Budget = 60 * time.Second
	s, _ := session(c, nil)
	var clock time.Time
	s.now = func() time.Time { return clock }
	for second := range 30 {
		w := slowWindow(t, second, 150, 250*time.Millisecond)
		w.Warmup = second == 0
		if second%3 != 0 { // it settles for two, and counts the third
			w = slowWindow(t, second, 1500, time.Millisecond)
		}
		clock = w.Start.Add(time.Second + 300*time.Millisecond)
		if stop, err := s.Window(t.Context(), w); stop != "" || err != nil {
			t.Fatalf("it stopped: %q, %v", stop, err)
		}
	}
	for i, slot := range s.Slots() {
		if want := int64(3 * (i + 1)); slot.Requests != 150 || slot.Seconds != 1 || slot.Settled != 2 || slot.Set != 0 || slot.Start.Unix() != want || slot.P95 < 200 {
			t.Errorf("slot %d: got %+v, want what came in second %d", i, slot, want)
		}
		if f := slot.Factor; f != 1 && f != 0.8 && f != 1.25 {
			t.Errorf("slot %d: got a step of %v, after which queues take longer", i, f)
		}
	}
	if len(s.Slots()) != 9 {
		t.Errorf("got %d slots of three seconds in 29, want 9", len(s.Slots()))
	}
}

func TestLongSlotsLeaveTimeForFewerSingles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		budget  time.Duration
		windows int
		want    int
	}{{30 * time.Second, 1, 2}, {22 * time.Second, 1, 2}, {30 * time.Second, 2, 1}, {12 * time.Second, 1, 1}, {60 * time.Second, 3, 2}, {30 * time.Second, 5, 1}} {
		d := DefaultConfig()
		d.Budget = c.budget
		if got := d.fitting(c.windows).Singles; got != c.want {
			t.Errorf("%v in slots of %d s: %d singles, want %d", c.budget, c.windows, got, c.want)
		}
	}
}

// A session of the default length has time to split a group: what its windows show is
// that the resource of d limits, which is perturbed together with c at first.
func TestASessionSplitsAGroupWithinItsBudget(t *testing.T) {
	t.Parallel()
	at := map[string]float64{}
	k := knobs("a", "b", "c", "d")
	for i := range k {
		k[i].Set = func(_ context.Context, factor float64) error {
			at[k[i].Component] = factor
			return nil
		}
		at[k[i].Component] = 1
	}
	noise := rand.New(rand.NewPCG(7, 8))
	s := NewSession(DefaultConfig(), k)
	for second := range 60 {
		w := window(t, second, uint64(1000*at["d"]*(1+0.03*noise.NormFloat64())))
		w.Warmup = second == 0
		s.now = func() time.Time { return w.Start.Add(time.Second) }
		stop, err := s.Window(t.Context(), w)
		if err != nil {
			t.Fatal(err)
		}
		if stop == Done {
			break
		}
	}
	if got := len(s.Slots()); got > 30 {
		t.Errorf("%d slots of a second, want 30 at most", got)
	}
	alone := map[string]bool{}
	for _, e := range Estimate(s.Slots()) {
		if len(e.Targets) == 1 {
			alone[e.Targets[0].Component] = e.Throughput.Low > 0
		}
	}
	if !alone["d"] || len(alone) != 4 || alone["a"] || alone["b"] || alone["c"] {
		t.Errorf("by themselves moved %v, want all four told and only d to move", alone)
	}
}
