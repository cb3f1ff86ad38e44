package probe

import (
	"math"
	"testing"
	"time"
)

var t0 = time.Date(2026, 6, 1, 8, 0, 0, 0, time.UTC)

func moment(seconds float64) time.Time {
	return t0.Add(time.Duration(seconds * float64(time.Second)))
}

// steady has one instance that uses a quarter of a core, throttled in half of
// its periods of 20 ms, sampled each 0.1 s for two seconds.
func steady() []Sample {
	var out []Sample
	for i := range 21 {
		s := float64(i) / 10
		out = append(out, Sample{
			At: moment(s), MachineBusy: time.Duration(s * 1e9), MachineTotal: time.Duration(2 * s * 1e9),
			Self: time.Duration(0.01 * s * 1e9),
			Instances: []Instance{{
				Name: "api-1", CPU: time.Duration(0.25 * s * 1e9), Periods: uint64(50 * s), Throttled: uint64(25 * s),
				Memory: uint64(1000 + i),
			}},
		})
	}
	return out
}

func TestOver(t *testing.T) {
	t.Parallel()
	// The ends lie between samples.
	span, ok := Over(steady(), moment(0.53), moment(1.48))
	if !ok {
		t.Fatal("no span")
	}
	u := span.Instances["api-1"]
	if got, want := u.CPU.Seconds(), 0.25*0.95; math.Abs(got-want) > 1e-6 {
		t.Errorf("CPU %v s, want %v", got, want)
	}
	if got := u.Throttled / u.Periods; math.Abs(got-0.5) > 0.05 {
		t.Errorf("throttled in %v of periods, want 0.5", got)
	}
	if math.Abs(span.MachineBusy-0.5) > 1e-6 || math.Abs(span.Self-0.01) > 1e-6 {
		t.Errorf("machine %v, self %v; want 0.5, 0.01", span.MachineBusy, span.Self)
	}
	if want := 1 - 0.25 - 0.01; math.Abs(span.Outside-want) > 1e-6 {
		t.Errorf("outside %v, want %v: of one core that is busy, what neither the instance nor watching used", span.Outside, want)
	}
	if u.Memory != 1014 {
		t.Errorf("memory %d, want 1014, the most within the span", u.Memory)
	}
}

func TestOverNeedsSamples(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		samples  []Sample
		from, to float64
	}{
		"no samples":      {nil, 0, 1},
		"starts too soon": {steady(), -1, 1},
		"ends too late":   {steady(), 1, 3},
		"empty span":      {steady(), 1, 1},
		"backwards":       {steady(), 1, 0.5},
	} {
		if span, ok := Over(c.samples, moment(c.from), moment(c.to)); ok {
			t.Errorf("%s: got %+v, want none", name, span)
		}
	}
}

func TestParseMachine(t *testing.T) {
	t.Parallel()
	busy, total, err := parseMachine("cpu  10 1 20 300 40 5 6 7 0 0")
	if err != nil || busy != 490*time.Millisecond || total != 3890*time.Millisecond {
		t.Errorf("got %v of %v, %v; want 490ms of 3.89s", busy, total, err)
	}
	for _, bad := range []string{"", "cpu0 1 2 3 4 5 6 7 8", "cpu 1 2", "cpu a b c d e f g h"} {
		if _, _, err := parseMachine(bad); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

func TestParseProcess(t *testing.T) {
	t.Parallel()
	in, err := parseProcess("42 (a) b) S 1 42 42 0 -1 4194560 1 2 3 4 150 50 0 0 20 0 8 0 100 9999 10 18446744073709551615")
	if err != nil || in.User != 1500*time.Millisecond || in.System != 500*time.Millisecond || in.CPU != 2*time.Second {
		t.Errorf("got %+v, %v; want 1.5 s user, 0.5 s system", in, err)
	}
	for _, bad := range []string{"", "42 (a) S 1", "42 (a) S 1 42 42 0 -1 4194560 1 2 3 4 x 50 0 0 20 0 8 0 100 9999 10 1"} {
		if _, err := parseProcess(bad); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}
