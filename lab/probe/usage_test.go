package probe

import (
	"math"
	"testing"
	"time"

	"loadstone/lab/host"
)

var t0 = time.Date(2026, 6, 1, 8, 0, 0, 0, time.UTC)

func moment(seconds float64) time.Time {
	return t0.Add(time.Duration(seconds * float64(time.Second)))
}

// steady has one instance that uses a quarter of a core, throttled in half of
// its periods of 20 ms, sampled each 0.1 s for two seconds.
func steady() []host.Sample {
	var out []host.Sample
	for i := range 21 {
		s := float64(i) / 10
		out = append(out, host.Sample{
			At: moment(s), MachineBusy: time.Duration(s * 1e9), MachineTotal: time.Duration(2 * s * 1e9),
			Interrupts: time.Duration(0.1 * s * 1e9), Stolen: time.Duration(0.2 * s * 1e9), Self: time.Duration(0.01 * s * 1e9),
			Instances: []host.Instance{{
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
	if math.Abs(span.Interrupts-0.1) > 1e-6 || math.Abs(span.Stolen-0.2) > 1e-6 {
		t.Errorf("interrupts %v, stolen %v; want 0.1, 0.2", span.Interrupts, span.Stolen)
	}
	if u.Memory != 1014 {
		t.Errorf("memory %d, want 1014, the most within the span", u.Memory)
	}
}

func TestOverNeedsSamples(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		samples  []host.Sample
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

func TestSlowFiguresCoverTheSpan(t *testing.T) {
	t.Parallel()
	began := time.Now()
	var samples []host.Sample
	for i := range 41 {
		s := host.Sample{At: began.Add(time.Duration(i) * 100 * time.Millisecond), Instances: []host.Instance{{Name: "a-1"}}}
		if i%10 == 0 {
			n := uint64(i / 10)
			s.Slow = &host.Slow{
				Instances:       []host.SlowInstance{{RunDelay: time.Duration(n) * 300 * time.Millisecond, MajorFaults: 10 * n, DiskRead: 100 * n}},
				ListenOverflows: 5 * n,
			}
		}
		samples = append(samples, s)
	}
	span, ok := Over(samples, began.Add(1200*time.Millisecond), began.Add(3200*time.Millisecond))
	u := span.Instances["a-1"]
	if !ok || u.RunDelay.Round(time.Millisecond) != 600*time.Millisecond || math.Abs(u.MajorFaults-20) > 1e-9 ||
		math.Abs(u.DiskRead-200) > 1e-9 || math.Abs(span.ListenOverflows-5) > 1e-9 {
		t.Errorf("got %+v, %v overflows/s; want 600 ms, 20 faults, 200 bytes and 5", u, span.ListenOverflows)
	}
	for i := range samples {
		samples[i].Slow = nil // a run of an earlier version
	}
	if span, ok := Over(samples, began.Add(time.Second), began.Add(3*time.Second)); !ok || span.Instances["a-1"].RunDelay != 0 {
		t.Errorf("without: got %+v, %v", span, ok)
	}
}
