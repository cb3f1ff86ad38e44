package fault

import (
	"math"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"loadstone/lab/load"
	"loadstone/lab/threshold"
)

var began = time.Date(2026, 6, 1, 8, 0, 0, 0, time.UTC)

func at(s float64) time.Time { return began.Add(time.Duration(s * float64(time.Second))) }

// windows are seconds of 100 requests at 10 ms each, changed by second.
func windows(t *testing.T, n int, change func(s int, w *load.Window) (ms float64)) []load.Window {
	t.Helper()
	out := make([]load.Window, n)
	for s := range out {
		w := load.Window{Start: at(float64(s)), Seconds: 1, Requests: 100, Errors: map[string]uint64{}}
		ms := change(s, &w)
		h := load.NewHistogram()
		_ = h.RecordValues(int64(ms*1000), int64(w.Requests))
		text, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
		if err != nil {
			t.Fatal(err)
		}
		w.Response, w.Service = string(text), string(text)
		out[s] = w
	}
	return out
}

func slo(t *testing.T, metricAndExpression ...string) []threshold.Threshold {
	t.Helper()
	var out []threshold.Threshold
	for i := 0; i < len(metricAndExpression); i += 2 {
		x, err := threshold.Parse(metricAndExpression[i], metricAndExpression[i+1])
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, x)
	}
	return out
}

func killed(number int, asked, back float64) Event {
	e := Event{Number: number, Action: Kill, Asked: at(asked), Done: at(asked), Instances: []Affected{{Name: "api-1", Done: at(asked)}}}
	if back > 0 {
		e.Instances[0].Ready = at(back)
	}
	return e
}

func effects(t *testing.T, objectives []threshold.Threshold, ws []load.Window, events ...Event) []Effect {
	t.Helper()
	last := 0.0
	for _, w := range ws {
		if !w.Drain {
			last = w.Start.Sub(began).Seconds() + 1
		}
	}
	got, err := Effects(Input{Events: events, Windows: ws, SLO: objectives, From: began, To: at(last)})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func near(a, b float64) bool { return math.Abs(a-b) <= 0.01*math.Abs(b)+1e-9 }

// TestWhatAFaultCosts has failures and slow answers from second 10 to 14, and
// failures before the fault that are not its.
func TestWhatAFaultCosts(t *testing.T) {
	t.Parallel()
	ws := windows(t, 30, func(s int, w *load.Window) float64 {
		switch {
		case s == 3:
			w.Failed, w.Errors["reset"] = 9, 9
		case s >= 10 && s < 13:
			w.Failed, w.Errors["refused"], w.Dropped = 5, 5, 2
			return 300
		case s == 13:
			return 250
		}
		return 10
	})
	x := effects(t, slo(t, "http_req_duration", "p(95)<200"), ws, killed(1, 10.4, 12))[0]
	if x.Failed != 21 || x.Kinds["refused"] != 15 || x.Kinds["dropped"] != 6 || x.Kinds["reset"] != 0 {
		t.Errorf("failed %d, %v; want 15 and 6 dropped", x.Failed, x.Kinds)
	}
	if !x.Recovers || !near(x.Recovered, 3.6) || x.BadSeconds != 4 || !near(x.Window, 3.6) {
		t.Errorf("recovers %v after %g s, %d bad seconds, window %g; want 3.6 s, 4", x.Recovers, x.Recovered, x.BadSeconds, x.Window)
	}
	if !near(x.Before.P95, 10) || !near(x.During.P95, 300) || !near(x.During.P99, 300) || !near(x.After.P99, 10) {
		t.Errorf("got %+v, %+v, %+v", x.Before, x.During, x.After)
	}
	if x.Before.Requests != 1000 || x.During.Requests != 400 || x.After.Requests != 1600 {
		t.Errorf("got %d before, %d during, %d after", x.Before.Requests, x.During.Requests, x.After.Requests)
	}
}

func TestAFaultThatIsNotFelt(t *testing.T) {
	t.Parallel()
	ws := windows(t, 20, func(int, *load.Window) float64 { return 10 })
	x := effects(t, slo(t, "http_req_duration", "p(95)<200"), ws, killed(1, 5, 9.5))[0]
	if !x.Recovers || x.Recovered != 0 || x.BadSeconds != 0 || x.Failed != 0 || !near(x.Window, 4.5) {
		t.Errorf("got %+v, want a window until it was back and nothing else", x)
	}
}

// TestRecoveryNever has one bad second at the end.
func TestRecoveryNever(t *testing.T) {
	t.Parallel()
	ws := windows(t, 20, func(s int, w *load.Window) float64 {
		if s == 6 || s == 19 {
			w.Failed = 1
		}
		return 10
	})
	drain := windows(t, 1, func(_ int, w *load.Window) float64 { w.Drain, w.Failed, w.Start = true, 4, at(20); return 10 })
	drain[0].Start = at(20)
	x := effects(t, nil, append(ws, drain...), killed(1, 5, 7))[0]
	if x.Recovers || x.BadSeconds != 2 || x.Failed != 6 || x.After.Requests != 0 || !near(x.Window, 15) {
		t.Errorf("got %+v; want no recovery, and all that failed until the end", x)
	}
	// A second earlier it recovers, at the end of that.
	ws[18].Failed, ws[19].Failed = 1, 0
	x = effects(t, nil, ws, killed(1, 5, 7))[0]
	if !x.Recovers || !near(x.Recovered, 14) || x.Failed != 2 {
		t.Errorf("got %+v; want recovery after 14 s", x)
	}
}

// TestFaultsDoNotPayForEachOther has the second fault do harm.
func TestFaultsDoNotPayForEachOther(t *testing.T) {
	t.Parallel()
	ws := windows(t, 30, func(s int, w *load.Window) float64 {
		if s >= 20 && s < 23 {
			w.Failed = 10
			return 400
		}
		return 10
	})
	xs := effects(t, slo(t, "http_req_duration", "p(95)<200"), ws, killed(1, 5.5, 7), killed(2, 20.5, 21))
	if xs[0].Failed != 0 || xs[0].BadSeconds != 0 || !xs[0].Recovers || !near(xs[0].After.P99, 10) {
		t.Errorf("the first: %+v", xs[0])
	}
	if xs[1].Failed != 30 || xs[1].BadSeconds != 3 || !near(xs[1].Recovered, 2.5) || !near(xs[1].Before.P99, 10) {
		t.Errorf("the second: %+v", xs[1])
	}
	// What it did not recover from is not the next one's baseline.
	ws = windows(t, 30, func(s int, _ *load.Window) float64 {
		if s >= 5 {
			return 400
		}
		return 10
	})
	xs = effects(t, slo(t, "http_req_duration", "p(95)<200"), ws, killed(1, 5.5, 7), killed(2, 20.5, 21))
	if xs[0].Recovers || xs[1].Recovers || xs[1].Before.Requests != 0 {
		t.Errorf("got %+v", xs)
	}
}

// TestASecondWithoutAnswersIsBad if there was enough to answer.
func TestASecondWithoutAnswersIsBad(t *testing.T) {
	t.Parallel()
	silent := func(requests uint64) Effect {
		ws := windows(t, 20, func(s int, w *load.Window) float64 {
			if w.Requests = requests; s == 8 {
				w.Requests = 0
			}
			return 10
		})
		return effects(t, nil, ws, killed(1, 5, 6))[0]
	}
	if x := silent(50); x.BadSeconds != 1 || !near(x.Recovered, 4) {
		t.Errorf("50 a second: got %+v, want a bad second", x)
	}
	if x := silent(3); x.BadSeconds != 0 {
		t.Errorf("3 a second: got %+v, want none", x)
	}
}

// TestObjectivesOnFailuresForgive what they allow for.
func TestObjectivesOnFailuresForgive(t *testing.T) {
	t.Parallel()
	ws := windows(t, 20, func(s int, w *load.Window) float64 { w.Failed = uint64(s % 2); return 10 })
	if x := effects(t, slo(t, "http_req_failed", "rate<0.05"), ws, killed(1, 5, 6))[0]; x.BadSeconds != 0 || !x.Recovers {
		t.Errorf("1 %% failed of 5 %%: got %+v", x)
	}
	if x := effects(t, slo(t, "http_req_failed", "rate<0.001"), ws, killed(1, 5, 6))[0]; x.BadSeconds == 0 || x.Recovers {
		t.Errorf("1 %% failed of 0.1 %%: got %+v", x)
	}
}

// TestWhatStaysAway has a window until the end of the load.
func TestWhatStaysAway(t *testing.T) {
	t.Parallel()
	ws := windows(t, 20, func(int, *load.Window) float64 { return 10 })
	x := effects(t, nil, ws, killed(1, 5, 0))[0]
	if !near(x.Window, 15) || !x.Recovers || x.After.Requests != 0 {
		t.Errorf("got %+v", x)
	}
}

func TestSeconds(t *testing.T) {
	t.Parallel()
	ws := windows(t, 3, func(s int, w *load.Window) float64 { w.Failed, w.Dropped, w.Drain = 2, 1, s == 2; return 10 })
	got, err := Seconds(ws)
	if err != nil || len(got) != 2 || got[1].Rate != 100 || got[1].Failed != 3 || !near(got[1].P95, 10) || !got[1].To.Equal(at(2)) {
		t.Errorf("got %+v, %v", got, err)
	}
	ws[0].Response = "x"
	if _, err := Seconds(ws); err == nil {
		t.Error("a window that cannot be read is no error")
	}
	if _, err := Effects(Input{Events: []Event{killed(1, 1, 2)}, Windows: ws, From: began, To: at(3)}); err == nil {
		t.Error("a window that cannot be read is no error of Effects")
	}
}
