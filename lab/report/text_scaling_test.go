package report

import (
	"bytes"
	"strings"
	"testing"

	"loadstone/lab/result"
	"loadstone/lab/stats"
)

// grownResult is a sweep from 1 to 6 replicas of which the last two are limited
// by what stands before them.
func grownResult() *result.Result {
	r := sampleResult()
	at := func(v float64) result.Estimate {
		return result.Estimate{Interval: stats.Interval{Value: v, Low: 0.9 * v, High: 1.1 * v, Confidence: 0.97}, Unit: result.RequestsPerSecond}
	}
	r.Scaling = &result.Scaling{
		Service: "api", Setting: "replicas",
		Points: []result.ScalingPoint{
			{Size: 1, Capacity: at(1400), Limit: "api"}, {Size: 2, Capacity: at(2800), Limit: "api"},
			{Size: 3, Capacity: at(4000), Limit: "lb"}, {Size: 6, Capacity: at(4100)},
		},
		Law:      &result.ScalingLaw{Shape: "ceiling", Sigma: result.Estimate{Interval: stats.Interval{Value: 0.0213, Low: 0, High: 0.043, Confidence: 0.95}}, PeakNote: "no peak inside the measured range", Warnings: []string{"few sizes"}},
		HeldOut:  &result.HeldOut{Size: 6, Predicted: at(4000), Measured: at(4100), Error: -0.0244, From: "the bounds of replicas-3"},
		Takeover: &result.Takeover{Grown: "api", Next: "lb", At: 3, Bound: 4120},
	}
	c := &result.RequiredSize{Rate: 3000, Size: 3, Maybe: 2}
	c.Text = r.Scaling.RequiredText(c, result.RequestsPerSecond)
	r.Scaling.Carry = c
	return r
}

func TestScalingInWords(t *testing.T) {
	t.Parallel()
	r := grownResult()
	var b bytes.Buffer
	if err := Text(&b, r, Options{Width: 400}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"scaling of api replicas\n",
		"By the demands at 1 replica of api, lb becomes the bottleneck at 3 replicas of api (4,120 req/s at most). Measured: api is the bottleneck at 1 and 2, lb is the bottleneck at 3, no component named at 6.\n",
		"Capacity grows in a line up to another component's limit (σ 0.021 [0, 0.043], κ 0); no peak inside the measured range.\n",
		"6 replicas of api, predicted from the bounds of replicas-3: 4,000 [3,600, 4,400] req/s; measured 4,100: error -2.44 %.\n",
		"3 replicas of api (4,000 [3,600, 4,400]) is the smallest size measured that sustains 3,000 req/s; 2 replicas of api (2,800 [2,520, 3,080]) may.\n",
		"few sizes\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the summary lacks %q:\n%s", want, b.String())
		}
	}
}

// Those that limit equally are all named, wherever a size's limit is told.
func TestScalingNamesTies(t *testing.T) {
	t.Parallel()
	r := grownResult()
	p := &r.Scaling.Points[2]
	p.Limit, p.Tied = "", []string{"api", "lb"}
	if got, want := sizeLimits(r.Scaling), "Measured: api is the bottleneck at 1 and 2, api and lb are equally limiting at 3, no component named at 6."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	r.Scaling.Points[3].Tied = []string{"api", "lb"}
	if got := sizeLimits(r.Scaling); !strings.Contains(got, "api and lb are equally limiting at 3 and 6.") {
		t.Errorf("got %q, want one phrase for both sizes", got)
	}
	if row := newScalingChart(r).Rows[2]; row.Limit != "api = lb" {
		t.Errorf("the table says %q, want api = lb", row.Limit)
	}
}

// The sentence says when growing helps nowhere, and when it always did.
func TestTakeoverOutsideOfTheSizes(t *testing.T) {
	t.Parallel()
	s := *grownResult().Scaling
	say := func(at float64) string {
		s.Takeover = &result.Takeover{Grown: "api", Next: "lb", At: at, Bound: 4120}
		return takeoverText(&s, result.RequestsPerSecond)
	}
	if got := say(1); !strings.Contains(got, "growing does not help: lb is the bottleneck already (4,120 req/s at most)") {
		t.Errorf("at the smallest size: %q", got)
	}
	if got := say(9); !strings.Contains(got, "lb becomes the bottleneck only at 9 replicas of api (4,120 req/s at most), beyond what was measured") {
		t.Errorf("beyond the largest size: %q", got)
	}
	s.Setting = "cpus"
	if got := say(2.5); !strings.Contains(got, "lb becomes the bottleneck at 2.5 CPU for api") {
		t.Errorf("a share: %q", got)
	}
	s.Takeover, s.Law, s.Note = nil, nil, "too few sizes"
	if got := strings.Join(scalingSentences(&s, result.RequestsPerSecond), "|"); !strings.HasPrefix(got, "Measured: api is the bottleneck at 1 and 2") || !strings.Contains(got, "|too few sizes|") {
		t.Errorf("without takeover and law: %q", got)
	}
}

// The chart says what its horizontal axis is, to those who see it and to those
// who hear it.
func TestScalingChartNamesItsAxis(t *testing.T) {
	t.Parallel()
	c := newScalingChart(grownResult())
	if c.X.Name != "api replicas" || !strings.HasPrefix(c.Desc, "Capacity in req/s by api replicas. 1: ") {
		t.Errorf("got the axis %q and the description %q", c.X.Name, c.Desc)
	}
}
