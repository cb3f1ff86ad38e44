package report

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"loadstone/lab/chart"
	"loadstone/lab/format"
	"loadstone/lab/loadpage/pagetest"
	"loadstone/lab/result"
)

// faultsResult has faults that cost nothing, some, and everything.
func faultsResult() *result.Result {
	r := loadResult()
	r.Variants = r.Variants[:2]
	for i := range r.Variants {
		v := &r.Variants[i]
		v.Faults = []result.Fault{
			{What: "kill api-1", At: 60, Trials: 2, Back: new(11.234), Recovered: new(0.0), Window: 11.234,
				Before: &result.FaultFigures{P95: 12.3, P99: 18.8}, During: &result.FaultFigures{P95: 14.1, P99: 25.2}, After: &result.FaultFigures{P95: 12.2, P99: 18.4},
				Watched: []result.FaultWatched{{Name: "database_queries", Before: new(121.7), Most: new(402.0)}}},
			{What: "stop postgres-1", At: 120, Trials: 2, Back: new(22.9), Recovered: new(24.02), BadSeconds: 21, Window: 24.02, Failed: 8123,
				Kinds:  map[string]uint64{"status 503": 8101, "timeout": 22},
				Before: &result.FaultFigures{P95: 12.2, P99: 18.4}, During: &result.FaultFigures{P95: 1912, P99: 4980}, After: &result.FaultFigures{P95: 12.4, P99: 19},
				Watched: []result.FaultWatched{{Name: "database_queries", Before: new(119.0), Most: nil}}},
			{What: "exec redis-cli -h <b>redis</b> flushall", At: 200, Trials: 2, Failed: 1, BadSeconds: 60, Window: 100,
				Kinds: map[string]uint64{"dropped": 1}, Watched: []result.FaultWatched{{Name: "database_queries", Before: nil, Most: new(900.0)}}},
		}
		c := &result.Course{Trial: 1, Faults: []result.CourseFault{{What: "kill api-1", From: 60.01, To: 71.2}, {What: "stop postgres-1", From: 120, To: 142.9}, {What: "exec", From: 200, To: 200.004}}}
		queries := result.CourseMetric{Name: "database_queries", As: "rate"}
		for s := range 300 {
			c.Seconds = append(c.Seconds, float64(s))
			down := s >= 120 && s < 144
			rate, failed, p95 := 500.0, 0.0, new(12+float64(s%7)/5)
			q := new(120 + float64(s%11))
			if down {
				rate, failed, p95, q = 410, 380, new(1900.0), nil
			}
			if s == 130 {
				rate, p95 = 0, nil
			}
			if s >= 60 && s < 63 {
				q = new(402.0)
			}
			c.Rate, c.Failed, c.P95 = append(c.Rate, rate), append(c.Failed, failed), append(c.P95, p95)
			queries.Values = append(queries.Values, q)
		}
		c.Watched = []result.CourseMetric{queries, {Name: "never_published", As: "value", Values: make([]*float64, 300)}}
		v.Course = c
		v.SLO = append(v.SLO, result.SLO{Metric: "database_queries", Threshold: "max<300", Observed: 402})
	}
	return r
}

// watchedResult has watched metrics and no faults.
func watchedResult() *result.Result {
	r := faultsResult()
	for i := range r.Variants {
		r.Variants[i].Faults, r.Variants[i].Course.Faults = nil, nil
	}
	return r
}

func TestPageShowsFaults(t *testing.T) {
	t.Parallel()
	page := render(t, "faults-numbers", faultsResult())
	text := pagetest.Shown(pagetest.Parse(t, page))
	for _, want := range []string{
		"Faults", "kill api-1", "at 60 s", "8,123", "8,101 status 503, 22 timeout", "24.0 s", "never", "not back", "12.3 → 14.1 → 12.2",
		"122 → 402 (3.30×)", "119 → –", "– → 900", "<b>redis</b>", "none", "not known", "database_queries",
	} {
		if !strings.Contains(text, want) && !strings.Contains(text, strings.ReplaceAll(want, "–", format.Missing)) {
			t.Errorf("the page does not show %q", want)
		}
	}
	if strings.Contains(pagetest.Shown(pagetest.Parse(t, render(t, "watched-numbers", watchedResult()))), "Faults") {
		t.Error("a run without faults has a section about them")
	}
	if strings.Contains(pagetest.Shown(pagetest.Parse(t, render(t, "no-course", loadResult()))), "Second by second") {
		t.Error("a run without a course has a section about it")
	}
}

// TestGapsAreNotDrawn has a gap between two seconds of the same figure.
func TestGapsAreNotDrawn(t *testing.T) {
	t.Parallel()
	seconds := []float64{0, 1, 2, 3}
	time, scale := chart.Scale{Low: 0, High: 4}, chart.Scale{Low: 0, High: 10}
	draw := func(seconds []float64, values []*float64, x chart.Scale) string {
		return chart.StepArea((&figure{values: values}).steps(seconds, x.High), x, scale)
	}
	got := draw(seconds, []*float64{new(5.0), nil, new(5.0), new(10.0)}, time)
	if want := "M0 1000V500H250V1000ZM500 1000V500H750V0H1000V1000Z"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := draw(seconds, make([]*float64, 4), time); got != "" {
		t.Errorf("drew %s of nothing", got)
	}
	long := make([]float64, 3601)
	values := make([]*float64, len(long))
	for i := range long {
		long[i], values[i] = float64(i), new(1.0)
	}
	values[1800] = new(10.0)
	hour := draw(long, values, chart.Scale{Low: 0, High: 3601})
	if len(hour) > 12*maxColumns || !strings.Contains(hour, "V0H") {
		t.Errorf("an hour took %d bytes, or lost its one peak", len(hour))
	}
	if v, ok := together([]*float64{new(1.0), nil, new(4.0)}, true); !ok || v != 2.5 {
		t.Errorf("mean %g, %v, want 2.5", v, ok)
	}
}

func TestCourseSurvivesJSON(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := result.WriteJSON(&b, faultsResult()); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.String(), "\n"); n > 1500 {
		t.Errorf("got %d lines: lists with gaps are one number to a line", n)
	}
	r, err := result.ReadJSON(&b)
	if err != nil {
		t.Fatal(err)
	}
	v := r.Variants[0]
	if v.Course.P95[130] != nil || *v.Course.P95[121] != 1900 || v.Faults[2].Recovered != nil || *v.Faults[0].Recovered != 0 || v.Faults[1].Failed != 8123 {
		t.Errorf("got %+v", v.Faults)
	}
	bad := faultsResult()
	bad.Variants[0].Faults[1].Watched[0].Most = new(math.Inf(1))
	if err := result.WriteJSON(&b, bad); err == nil || !strings.Contains(err.Error(), "faults[1].watched[0].most") {
		t.Errorf("got %v, want the place of what is not finite", err)
	}
}

func TestFaultInWords(t *testing.T) {
	t.Parallel()
	f := result.Fault{What: "kill api-1", Failed: 1, Kinds: map[string]uint64{"timeout": 1}, BadSeconds: 1, Recovered: new(1.5), Back: new(3.0)}
	got := fmt.Sprint(faultSentences(&f))
	for _, want := range []string{"1 request failed (1 timeout)", "met again after 1.50 s (1 bad second)", "back after 3.00 s"} {
		if !strings.Contains(got, want) {
			t.Errorf("got %s, want %q in it", got, want)
		}
	}
}
