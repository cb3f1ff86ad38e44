package threshold_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"loadstone/lab/load"
	"loadstone/lab/threshold"
)

// second is the k-th second of the measured part, in which requests with these
// response times in ms ended. Service times are half of them.
func second(t *testing.T, k int, ms ...float64) load.Window {
	t.Helper()
	half := make([]float64, len(ms))
	for i := range ms {
		half[i] = ms[i] / 2
	}
	return load.Window{
		Start: start.Add(time.Duration(k) * time.Second), Seconds: 1,
		Requests: uint64(len(ms)), Iterations: uint64(len(ms)),
		Response: histogram(t, ms...), Service: histogram(t, half...),
	}
}

func warmup(w load.Window) load.Window {
	w.Warmup = true
	return w
}

func drain(w load.Window) load.Window {
	w.Drain = true
	return w
}

func inFlight(w load.Window, n int) load.Window {
	w.InFlight = n
	return w
}

// watched adds windows to a watch of one threshold, and returns the first
// reason to end the load.
func watched(t *testing.T, x threshold.Threshold, windows ...load.Window) (w *threshold.Watch, abort string) {
	t.Helper()
	w = threshold.NewWatch([]threshold.Threshold{x})
	for i, window := range windows {
		reason, err := w.Add(window)
		if err != nil {
			t.Fatalf("Add of window %d fails: %v", i, err)
		}
		if abort == "" {
			abort = reason
		}
	}
	return w, abort
}

// concluded judges one threshold on windows; the result has measured something.
func concluded(t *testing.T, text string, windows ...load.Window) threshold.Outcome {
	t.Helper()
	w, abort := watched(t, parse(t, text), windows...)
	if abort != "" {
		t.Errorf("%s ends the load: %s", text, abort)
	}
	got, err := w.Outcomes(&load.Result{From: start, To: start.Add(time.Minute), Requests: 1})
	if err != nil {
		t.Fatal(err)
	}
	return got[0]
}

// TestOutcomesOfWindows has, for every metric that windows have, a threshold
// that is met and one beside it that is not.
func TestOutcomesOfWindows(t *testing.T) {
	t.Parallel()
	good, bad := second(t, 0, 10, 20, 30, 40), second(t, 1, 10, 20, 30, 80)
	bad.Failed, bad.Dropped, bad.Checks, bad.CheckFails, bad.Iterations = 1, 1, 8, 2, 2
	bad.Sent, bad.Received = 100, 1000
	good.Checks, good.Sent, good.Received = 4, 300, 3000
	for _, w := range []*load.Window{&good, &bad} {
		w.Steps = []load.WindowStep{
			{Scenario: "shop", Name: "login", Requests: 1, Response: histogram(t, 40), Service: histogram(t, 20)},
			{Scenario: "shop", Name: "buy", Requests: 1, Failed: 1, Response: histogram(t, 50), Service: histogram(t, 25)},
			{Scenario: "room", Name: "connect", Requests: 5, Failed: 2, Response: histogram(t, 1, 2, 3, 4, 5)},
			{Scenario: "room", Name: "message", Requests: 1, Response: histogram(t, 7)},
		}
	}
	tests := []struct {
		metric, met, missed string
		observed            float64
	}{
		{"http_req_duration", "max<81", "max<80", 80.06},
		{"http_req_duration", "avg>=25", "avg>=25.1", 25}, // the worst is the first
		{"http_req_duration{step:login}", "max<41", "max<40", 40.03},
		{"http_req_duration{scenario:shop}", "max<51", "max<50", 50.015},
		{"http_req_service", "max<41", "max<40", 40.03},
		{"http_req_service{step:buy}", "med<26", "med<25", 25.01},
		{"http_req_failed", "rate<=0.4", "rate<0.4", 0.4},
		{"http_req_failed{scenario:shop}", "rate<=0.5", "rate<0.5", 0.5},
		{"http_reqs", "rate>=4", "rate>4", 4},
		{"http_reqs{scenario:shop}", "count>=2", "count>2", 2},
		{"iterations", "rate>=2", "rate>2", 2},
		{"dropped_iterations", "count<=1", "count<1", 1},
		{"checks", "rate>=0.75", "rate>0.75", 0.75},
		{"data_sent", "rate>=100", "rate>100", 100},
		{"data_received", "count<=3000", "count<3000", 3000},
		{"ws_connecting", "p(100)<6", "p(100)<5", 5.003},
		{"ws_msg_duration", "med<8", "med<7", 7.003},
		{"ws_sessions{scenario:room}", "count>=3", "count>3", 3},
	}
	for _, tt := range tests {
		for expression, met := range map[string]bool{tt.met: true, tt.missed: false} {
			o := concluded(t, tt.metric+" "+expression+" over 1s", good, bad)
			if o.Met != met || math.Abs(o.Observed-tt.observed) > 0.02 || !strings.HasPrefix(o.Reason, "from second ") {
				t.Errorf("%s %s: got %+v, want %v by %g", tt.metric, expression, o, met, tt.observed)
			}
		}
	}
}

// TestEveryWindowCounts compares the worst of sliding windows with that of
// windows that are each added up from nothing.
func TestEveryWindowCounts(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 14))
	for round := range 8 {
		length, over := 1+random.IntN(16), 1+random.IntN(6)
		var times [][]float64
		var windows []load.Window
		for k := range length {
			ms := make([]float64, 1+random.IntN(4))
			for i := range ms {
				ms[i] = float64(1 + random.IntN(1000))
			}
			times, windows = append(times, ms), append(windows, second(t, k, ms...))
		}
		wantMax, wantCount := 0.0, math.Inf(1)
		at := 0
		for from := range max(length-over, 0) + 1 {
			most, n := 0.0, 0
			for _, ms := range times[from:min(from+over, length)] {
				for _, v := range ms {
					most, n = max(most, v), n+1
				}
			}
			if float64(n) < wantCount {
				wantCount, at = float64(n), from
			}
			wantMax = max(wantMax, most)
		}
		if o := concluded(t, fmt.Sprintf("http_reqs count>1000 over %ds", over), windows...); o.Observed != wantCount ||
			o.Reason != fmt.Sprintf("from second %d to %d", at, min(at+over, length)) {
			t.Errorf("round %d: got %+v, want %g from second %d", round, o, wantCount, at)
		}
		if o := concluded(t, fmt.Sprintf("http_req_duration max<1 over %ds", over), windows...); math.Abs(o.Observed-wantMax) > 1 {
			t.Errorf("round %d: got %+v, want %g ms", round, o, wantMax)
		}
	}
}

// TestAMinuteThatTheWholeLoadHides is what windows are for.
func TestAMinuteThatTheWholeLoadHides(t *testing.T) {
	t.Parallel()
	var windows []load.Window
	for k := range 60 {
		ms := []float64{10, 10, 10, 10, 10, 10, 10, 10, 10, 10}
		if k == 30 || k == 31 {
			ms = []float64{500, 500, 500, 500, 500, 500, 500, 500, 500, 500}
		}
		windows = append(windows, second(t, k, ms...))
	}
	if o := concluded(t, "http_req_duration p(95)<200 over 10s", windows...); o.Met || math.Abs(o.Observed-500) > 1 || o.Reason != "from second 21 to 31" {
		t.Errorf("over 10s: got %+v, want it missed from second 21 to 31", o)
	}
	if o := concluded(t, "http_req_duration p(95)<200 over 60s", windows...); !o.Met || o.Reason != "from second 0 to 60" {
		t.Errorf("over 60s: got %+v, want it met", o)
	}
}

func TestWhatIsNoFullWindow(t *testing.T) {
	t.Parallel()
	slow := second(t, 0, 900)
	short := second(t, 3, 500)
	short.Seconds = 0.5
	tests := []struct {
		name, text string
		windows    []load.Window
		met        bool
		observed   float64
		reason     string
	}{
		{"the warm-up is not judged", "http_req_duration max<100 over 2s", []load.Window{warmup(slow), second(t, 1, 10), second(t, 2, 10)}, true, 10, "from second 0 to 2"},
		{"a load shorter than the window is one", "http_req_duration max<100 over 10s", []load.Window{second(t, 0, 10), second(t, 1, 300)}, false, 300, "from second 0 to 2"},
		{"and can be met", "http_reqs count>=2 over 10s", []load.Window{second(t, 0, 10), second(t, 1, 30)}, true, 2, "from second 0 to 2"},
		{"a part of a second at the end is judged", "http_req_duration max<100 over 2s", []load.Window{second(t, 0, 10), second(t, 1, 10), second(t, 2, 10), short}, false, 500, "from second 1 to 3.5"},
		{"a rate is by the time there was", "http_reqs rate>1 over 2s", []load.Window{second(t, 0, 10), second(t, 1, 10), second(t, 2, 10), short}, false, 1, "from second 0 to 2"},
		{"what drains is slow too", "http_req_duration max<100 over 2s", []load.Window{second(t, 0, 10), second(t, 1, 10), drain(second(t, 2)), drain(second(t, 3, 1900))}, false, 1900, "from second 0 to 2"},
		{"what drains of a short load", "http_req_duration max<100 over 9s", []load.Window{second(t, 0, 10), drain(second(t, 1, 400))}, false, 400, "from second 0 to 1"},
		{"draining is no window of its own", "http_req_duration med<100 over 2s", []load.Window{second(t, 0, 10, 10), second(t, 1, 10, 10), drain(second(t, 2, 400))}, true, 10, "from second 0 to 2"},
		{"draining slows no rate", "http_reqs rate>=2 over 1s", []load.Window{second(t, 0, 10, 10), second(t, 1, 10, 10), drain(second(t, 2, 400))}, true, 2, "from second 0 to 1"},
		{"and adds to none", "http_reqs count<=2 over 1s", []load.Window{second(t, 0, 10, 10), drain(second(t, 1, 400))}, true, 2, "from second 0 to 1"},
		{"the drain alone is no load", "http_req_duration max<1000 over 2s", []load.Window{drain(slow)}, false, 0, "nothing was measured"},
		{"the warm-up alone is no load", "http_req_duration max<1000 over 2s", []load.Window{warmup(slow)}, false, 0, "nothing was measured"},
	}
	for _, tt := range tests {
		o := concluded(t, tt.text, tt.windows...)
		if o.Met != tt.met || math.Abs(o.Observed-tt.observed) > 1 || o.Reason != tt.reason {
			t.Errorf("%s: got %+v, want %v by %g %q", tt.name, o, tt.met, tt.observed, tt.reason)
		}
	}
}

// TestWindowsInWhichNothingHappened: see Watch.
func TestWindowsInWhichNothingHappened(t *testing.T) {
	t.Parallel()
	stalled := []load.Window{
		inFlight(second(t, 0, 10), 3), inFlight(second(t, 1), 7), inFlight(second(t, 2), 11), inFlight(second(t, 3), 15), second(t, 4, 10),
	}
	idle := []load.Window{second(t, 0, 10), second(t, 1), second(t, 2), inFlight(second(t, 3), 1), second(t, 4, 10)}
	dropped := second(t, 1)
	dropped.Dropped = 5
	tests := []struct {
		name, text string
		windows    []load.Window
		met        bool
		observed   float64
		reason     string
	}{
		{"a stall is missed before it ends", "http_req_duration p(95)<200 over 2s", stalled, false, 3000, "nothing was answered from second 2 to 4, with 15 in flight"},
		{"unless it is allowed for", "http_req_duration p(95)<3001 over 2s", stalled, true, 10, "from second 0 to 2"},
		{"a lower bound learns nothing from it", "http_req_duration p(95)>5 over 2s", stalled, true, 10, "from second 0 to 2"},
		{"nor does service time", "http_req_service p(95)<200 over 2s", stalled, true, 5, "from second 0 to 2"},
		{"nor a share", "http_req_failed rate<0.1 over 2s", stalled, true, 0, "from second 0 to 2"},
		{"nor a step, of which it is not known", "http_req_duration{step:a} p(95)<200 over 2s", stalled, true, 10, "from second 0 to 2"},
		{"a rate is then nothing", "http_reqs rate>=0.5 over 2s", stalled, false, 0, "from second 1 to 3"},
		{"with nothing due, nothing is late", "http_req_duration p(95)<200 over 1s", idle, true, 10, "from second 0 to 1"},
		{"nor failed", "http_req_failed rate<0.1 over 1s", idle, true, 0, "from second 0 to 1"},
		{"but the rate is nothing", "http_reqs rate>0 over 1s", idle, false, 0, "from second 1 to 2"},
		{"dropped are failed", "http_req_failed rate<0.5 over 1s", []load.Window{second(t, 0, 10), dropped}, false, 1, "from second 1 to 2"},
		{"a step in whose load all are dropped", "http_req_failed{step:a} rate<0.5 over 1s", []load.Window{second(t, 0, 10), dropped}, false, 1, "from second 1 to 2"},
		{"nothing at all", "http_req_duration p(95)<200 over 1s", []load.Window{second(t, 0), second(t, 1)}, false, 0, "nothing was measured"},
		{"no checks", "checks rate>=0 over 1s", stalled, false, 0, "nothing was measured"},
		{"a stall that the warm-up began", "http_req_duration p(95)<200 over 1s", []load.Window{warmup(inFlight(second(t, 0), 4)), inFlight(second(t, 1), 4), second(t, 2, 1)}, false, 1000, "nothing was answered from second 0 to 1, with 4 in flight"},
	}
	for _, tt := range tests {
		o := concluded(t, tt.text, tt.windows...)
		if o.Met != tt.met || math.Abs(o.Observed-tt.observed) > 0.1 || o.Reason != tt.reason {
			t.Errorf("%s: got %+v, want %v by %g %q", tt.name, o, tt.met, tt.observed, tt.reason)
		}
	}
}

func TestAbort(t *testing.T) {
	t.Parallel()
	fast, slow := []float64{10, 10}, []float64{900, 900}
	failing := second(t, 1, fast...)
	failing.Failed = 1
	tests := []struct {
		name, text string
		delay      time.Duration
		windows    []load.Window
		want       string // empty: it goes on
	}{
		{"it holds", "http_req_duration p(95)<200", 0, []load.Window{second(t, 0, fast...), second(t, 1, fast...)}, ""},
		{"the load so far", "http_req_duration avg<200", 0, []load.Window{second(t, 0, fast...), second(t, 1, slow...)}, "the threshold avg<200 of http_req_duration does not hold: it was 454.9, after 2 s"},
		{"which outweighs a slow second", "http_req_duration med<200", 0, []load.Window{second(t, 0, 10, 10, 10), second(t, 1, slow...)}, ""},
		{"a share", "http_req_failed rate<0.1", 0, []load.Window{second(t, 0, fast...), failing}, "the threshold rate<0.1 of http_req_failed does not hold: it was 0.25, after 2 s"},
		{"the delay is measured time", "http_req_failed rate<0.1", 2 * time.Second, []load.Window{second(t, 0, fast...), failing}, "the threshold rate<0.1 of http_req_failed does not hold: it was 0.25, after 2 s"},
		{"not before it", "http_req_failed rate<0.1", 3 * time.Second, []load.Window{second(t, 0, fast...), failing}, ""},
		{"the warm-up does not count", "http_req_duration p(95)<200", 0, []load.Window{warmup(second(t, 0, slow...)), second(t, 1, fast...)}, ""},
		{"nor its time", "http_req_duration p(95)<200", 2 * time.Second, []load.Window{warmup(second(t, 0, slow...)), second(t, 1, slow...)}, ""},
		{"the drain ends nothing", "http_req_duration p(95)<200", 0, []load.Window{second(t, 0, fast...), drain(second(t, 1, slow...))}, ""},
		{"nothing yet", "http_req_duration p(95)<200", 0, []load.Window{second(t, 0), second(t, 1)}, ""},
		{"a count too large", "http_reqs count<3", 0, []load.Window{second(t, 0, fast...), second(t, 1, fast...)}, "the threshold count<3 of http_reqs does not hold: it was 4, after 2 s"},
		{"a count to be reached", "http_reqs count>300", 0, []load.Window{second(t, 0, fast...), second(t, 1, fast...)}, ""},
		{"a window", "http_req_duration max<200 over 2s", 0, []load.Window{second(t, 0, fast...), second(t, 1, slow...)}, "the threshold max<200 over 2s of http_req_duration does not hold: it was 900.1, from second 0 to 2"},
		{"no part of one", "http_req_duration max<200 over 3s", 0, []load.Window{second(t, 0, fast...), second(t, 1, slow...)}, ""},
		{"a window before the delay", "http_req_duration max<200 over 1s", 2 * time.Second, []load.Window{second(t, 0, slow...), second(t, 1, fast...)}, ""},
		{"a stall", "http_req_duration max<200 over 1s", 0, []load.Window{inFlight(second(t, 0, fast...), 2), inFlight(second(t, 1), 9)}, "the threshold max<200 over 1s of http_req_duration does not hold: it was 1000, nothing was answered from second 1 to 2, with 9 in flight"},
	}
	for _, tt := range tests {
		x := parse(t, tt.text)
		if _, got := watched(t, x, tt.windows...); got != "" {
			t.Errorf("%s: ends the load without being told to: %s", tt.name, got)
		}
		x.AbortOnFail, x.DelayAbortEval = true, tt.delay
		if _, got := watched(t, x, tt.windows...); got != tt.want {
			t.Errorf("%s:\n got %q\nwant %q", tt.name, got, tt.want)
		}
	}
}

// TestRateOfAStep is throughput, which only the windows know by step.
func TestRateOfAStep(t *testing.T) {
	t.Parallel()
	w := second(t, 0, 10, 10, 10)
	w.Steps = []load.WindowStep{{Scenario: "shop", Name: "buy", Requests: 20, Response: w.Response}, {Scenario: "shop", Name: "login", Requests: 1}}
	late := w
	late.Start, late.Drain = start.Add(time.Second), true
	watch, _ := watched(t, parse(t, "http_reqs{step:buy} rate>=2"), w, late)
	got, err := watch.Outcomes(hundred(t))
	if err != nil || !got[0].Met || got[0].Observed != 2 {
		t.Errorf("got %+v, %v, want 20 in 10 s, without those that drained", got, err)
	}
}

func TestNow(t *testing.T) {
	t.Parallel()
	var thresholds []threshold.Threshold
	for _, text := range []string{
		"http_req_duration p(95)<200", "http_req_duration max<50", "http_req_duration max<50 over 1s", "http_reqs count>2 over 9s",
		"checks{check:a} rate>0", "ws_msgs_sent rate>0", "checks rate>0",
	} {
		thresholds = append(thresholds, parse(t, text))
	}
	w := threshold.NewWatch(thresholds)
	for _, o := range w.Now() {
		if o.Met || o.Reason == "" {
			t.Errorf("before anything: got %+v, want it open", o)
		}
	}
	for _, x := range []load.Window{second(t, 0, 10, 60), second(t, 1, 20)} {
		if _, err := w.Add(x); err != nil {
			t.Fatal(err)
		}
	}
	const later = "this is known when the load has ended"
	want := []threshold.Outcome{
		{Observed: 60, Met: true}, {Observed: 60}, {Observed: 60, Reason: "from second 0 to 1"}, {Observed: 3, Met: true, Reason: "from second 0 to 2"},
		{Reason: later}, {Reason: later}, {Reason: "nothing was measured yet"},
	}
	for i, got := range w.Now() {
		if got.Met != want[i].Met || math.Abs(got.Observed-want[i].Observed) > 0.1 || got.Reason != want[i].Reason {
			t.Errorf("%s %s: got %+v, want %+v", got.Metric, got.Threshold, got, want[i])
		}
	}
}

// TestRequestsWithoutTimesAreNoObservation: no connection came free for any request of a
// second, so that none was sent. That second says nothing of service times, and ends no load.
func TestRequestsWithoutTimesAreNoObservation(t *testing.T) {
	t.Parallel()
	unsent := second(t, 0, 2000, 2000)
	unsent.Service = histogram(t)
	sent := second(t, 1, 20)
	const slow, quick = "http_req_service p(95)<5 over 1s", "http_req_service p(95)<50 over 1s"
	if got := concluded(t, quick, unsent, sent); !got.Met || math.Abs(got.Observed-10) > 0.1 {
		t.Errorf("got %+v, want 10 ms, of the second that has an observation", got)
	}
	if got := concluded(t, slow, unsent, sent); got.Met {
		t.Errorf("got %+v, want it crossed by the second that has an observation", got)
	}
	if got := concluded(t, quick, unsent); got.Met || got.Reason != "nothing was measured" {
		t.Errorf("got %+v, want nothing measured", got)
	}
	whole := &load.Result{From: start, To: start.Add(time.Second), Requests: 2, Service: load.Latency{Histogram: histogram(t)}}
	got, err := threshold.NewWatch([]threshold.Threshold{parse(t, "http_req_service p(95)<50")}).Outcomes(whole)
	if err != nil || got[0].Met || got[0].Reason != "nothing was measured" {
		t.Errorf("of the whole load: got %+v, %v; want nothing measured", got, err)
	}
}

func TestAddRefusesAWindowItCannotRead(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*load.Window){
		"no histogram": func(w *load.Window) { w.Response = "" },
		"garbage":      func(w *load.Window) { w.Response = "%%%" },
		"no length":    func(w *load.Window) { w.Seconds = 0 },
		"no number":    func(w *load.Window) { w.Seconds = math.NaN() },
		"endless":      func(w *load.Window) { w.Seconds = math.Inf(1) },
	} {
		x := second(t, 0, 10)
		spoil(&x)
		if got, err := threshold.NewWatch([]threshold.Threshold{parse(t, "http_req_duration max<5")}).Add(x); err == nil {
			t.Errorf("%s: got %q, want an error", name, got)
		}
	}
}
