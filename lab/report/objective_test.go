package report

import (
	"math"
	"testing"

	"loadstone/lab/result"
)

func TestObservedValueShowsItsSideOfTheThreshold(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		slo  result.SLO
		want string
	}{
		{result.SLO{Metric: "http_req_duration", Threshold: "p(95)<200", Observed: 187.34}, "187 ms"},
		{result.SLO{Metric: "http_req_duration", Threshold: "p(95)<200", Observed: 200.04}, "200.04 ms"},
		{result.SLO{Metric: "http_req_duration", Threshold: "p(95)<=200", Observed: 200}, "200 ms"},
		{result.SLO{Metric: "http_req_duration{name:lookup}", Threshold: "med < 20", Observed: 3.5}, "3.5 ms"},
		{result.SLO{Metric: "http_req_failed", Threshold: "rate<0.001", Observed: 0.00093}, "0.093 %"},
		{result.SLO{Metric: "http_req_failed", Threshold: "rate<0.001", Observed: 0.0010004}, "0.10004 %"},
		{result.SLO{Metric: "checks", Threshold: "rate>0.99", Observed: 0.9996}, "100 %"},
		{result.SLO{Metric: "checks{check:ok}", Threshold: "rate>0.99", Observed: 0.5}, "50 %"},
		{result.SLO{Metric: "http_req_service", Threshold: "p(95)<200 over 10s", Observed: 200.04}, "200.04 ms"},
		{result.SLO{Metric: "http_reqs", Threshold: "rate>100", Observed: 123.4}, "123/s"},
		{result.SLO{Metric: "data_sent", Threshold: "rate<1e6", Observed: 2000}, "2,000/s"},
		{result.SLO{Metric: "http_reqs", Threshold: "count>1000", Observed: 123456}, "123,000"},
		{result.SLO{Metric: "http_reqs", Threshold: "nonsense", Observed: 12}, "12"},
		{result.SLO{Metric: "http_req_duration", Threshold: "p(95)<200", Observed: math.NaN()}, "–"},
	} {
		if got := objective(c.slo).observed(); got != c.want {
			t.Errorf("%s %s %v: got %q, want %q", c.slo.Metric, c.slo.Threshold, c.slo.Observed, got, c.want)
		}
	}
}
