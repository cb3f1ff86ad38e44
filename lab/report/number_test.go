package report

import (
	"math"
	"testing"
	"time"
)

func TestNumbersKeepThreeDigits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		v    float64
		want string
	}{
		{0, "0"}, {438.4, "438"}, {4312.7, "4,310"}, {999.6, "1,000"}, {0.9996, "1.00"}, {2.9449, "2.94"}, {-1234567, "-1,230,000"},
		{0.0571, "0.0571"}, {0.00012345, "0.000123"}, {1e-12, "1e-12"}, {1e20, "1e+20"}, {-0.0000000001, "-1e-10"},
		{math.NaN(), "–"}, {math.Inf(1), "–"}, {math.MaxFloat64, "1.8e+308"},
	} {
		if got := formatMeasured(c.v); got != c.want {
			t.Errorf("formatMeasured(%v): got %q, want %q", c.v, got, c.want)
		}
	}
}

func TestIntervalsShareTheirLastDigit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		value, low, high float64
		want             string
	}{
		{4312.7, 4181.2, 4423.9, "4,310 4,180 4,420"},
		{2.9449, 2.71, 3.1251, "2.94 2.71 3.13"},
		{9.84, 9.28, 10.304, "9.84 9.28 10.30"},
		{999.6, 912.3, 1043, "1,000 910 1,040"},
		{4312, 3.3, 9000, "4,310 3.30 9,000"},
		{5, math.NaN(), math.Inf(1), "5.00 – –"},
	} {
		v, l, h := formatInterval(c.value, c.low, c.high)
		if got := v + " " + l + " " + h; got != c.want {
			t.Errorf("formatInterval(%v, %v, %v): got %q, want %q", c.value, c.low, c.high, got, c.want)
		}
	}
}

func TestUnitsAreNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ got, want string }{
		{formatPercent(0.96875), "96.9 %"}, {formatPercent(1), "100 %"}, {formatPercent(0.0004), "0.04 %"},
		{formatPercent(math.NaN()), "–"},
		{formatMS(0.421), "0.421 ms"}, {formatMS(187.3), "187 ms"}, {formatMS(1843), "1,840 ms"}, {formatMS(12_345), "12.3 s"},
		{formatLatency(0), "–"}, {formatSetting(0.25), "0.25"},
		{formatBytes(512), "512 B"}, {formatBytes(43384832), "41.4 MiB"}, {formatBytes(math.MaxUint64), "16,800,000 TiB"},
		{formatDuration(312 * time.Second), "5 min 12 s"}, {formatDuration(3 * time.Hour), "3 h 0 min"}, {formatDuration(900 * time.Millisecond), "1 s"},
		{plural(1, "trial"), "1 trial"}, {plural(6, "trial"), "6 trials"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func TestObservedValueShowsItsSideOfTheThreshold(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		slo  SLO
		want string
	}{
		{SLO{Metric: "http_req_duration", Threshold: "p(95)<200", Observed: 187.34}, "187 ms"},
		{SLO{Metric: "http_req_duration", Threshold: "p(95)<200", Observed: 200.04}, "200.04 ms"},
		{SLO{Metric: "http_req_duration", Threshold: "p(95)<=200", Observed: 200}, "200 ms"},
		{SLO{Metric: "http_req_duration{name:lookup}", Threshold: "med < 20", Observed: 3.5}, "3.5 ms"},
		{SLO{Metric: "http_req_failed", Threshold: "rate<0.001", Observed: 0.00093}, "0.093 %"},
		{SLO{Metric: "http_req_failed", Threshold: "rate<0.001", Observed: 0.0010004}, "0.10004 %"},
		{SLO{Metric: "checks", Threshold: "rate>0.99", Observed: 0.9996}, "100 %"},
		{SLO{Metric: "checks{check:ok}", Threshold: "rate>0.99", Observed: 0.5}, "50 %"},
		{SLO{Metric: "http_req_service", Threshold: "p(95)<200 over 10s", Observed: 200.04}, "200.04 ms"},
		{SLO{Metric: "http_reqs", Threshold: "rate>100", Observed: 123.4}, "123/s"},
		{SLO{Metric: "data_sent", Threshold: "rate<1e6", Observed: 2000}, "2,000/s"},
		{SLO{Metric: "http_reqs", Threshold: "count>1000", Observed: 123456}, "123,000"},
		{SLO{Metric: "http_reqs", Threshold: "nonsense", Observed: 12}, "12"},
		{SLO{Metric: "http_req_duration", Threshold: "p(95)<200", Observed: math.NaN()}, "–"},
	} {
		if got := objective(c.slo).observed(); got != c.want {
			t.Errorf("%s %s %v: got %q, want %q", c.slo.Metric, c.slo.Threshold, c.slo.Observed, got, c.want)
		}
	}
}
