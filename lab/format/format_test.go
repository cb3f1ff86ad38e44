package format

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
		if got := Measured(c.v); got != c.want {
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
		v, l, h := Interval(c.value, c.low, c.high)
		if got := v + " " + l + " " + h; got != c.want {
			t.Errorf("formatInterval(%v, %v, %v): got %q, want %q", c.value, c.low, c.high, got, c.want)
		}
	}
}

func TestUnitsAreNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ got, want string }{
		{Percent(0.96875), "96.9 %"}, {Percent(1), "100 %"}, {Percent(0.0004), "0.04 %"},
		{Percent(math.NaN()), "–"},
		{Milliseconds(0.421), "0.421 ms"}, {Milliseconds(187.3), "187 ms"}, {Milliseconds(1843), "1,840 ms"}, {Milliseconds(12_345), "12.3 s"},
		{Latency(0), "–"}, {Setting(0.25), "0.25"},
		{Bytes(512), "512 B"}, {Bytes(43384832), "41.4 MiB"}, {Bytes(math.MaxUint64), "16,800,000 TiB"},
		{Duration(312 * time.Second), "5 min 12 s"}, {Duration(3 * time.Hour), "3 h 0 min"}, {Duration(900 * time.Millisecond), "1 s"},
		{Plural(1, "trial"), "1 trial"}, {Plural(6, "trial"), "6 trials"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}
