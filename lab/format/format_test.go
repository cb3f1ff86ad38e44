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
			t.Errorf("Measured(%v): got %q, want %q", c.v, got, c.want)
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
			t.Errorf("Interval(%v, %v, %v): got %q, want %q", c.value, c.low, c.high, got, c.want)
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
		{Duration(5 * time.Minute), "5 min"}, {Seconds(0.5), "0.5 s"}, {Seconds(90), "1 min 30 s"}, {Seconds(math.Inf(1)), "–"},
		{Share(0.99996), "99.996 %"}, {Share(1), "100 %"}, {Share(0.9999999), "99.9999 %"}, {Percent(0.99996), "100 %"},
		{Change(0.0613), "+6.1 %"}, {Change(-0.004), "−0.4 %"}, {Change(-0.0004), "0.0 %"},
		{FixedShare(0, 0), "0 %"}, {FixedShare(0, 5), "0.00 %"}, {FixedShare(1, 1_000_000), "< 0.01 %"}, {FixedShare(1, 3), "33.33 %"},
		{Demand(0.34), "340 µs"}, {Demand(2.5), "2.5 ms"}, {Demand(1843), "1,840 ms"}, {Rounded(4312.7), "4,310"}, {Rounded(2.50), "2.5"}, {Rounded(100), "100"},
		{Approximate(22 * time.Second), "20 s"}, {Approximate(5 * time.Minute), "5 min"}, {Approximate(95 * time.Minute), "1.6 h"},
		{Coefficient(0.0123), "0.012"}, {Coefficient(math.Inf(1)), "–"},
		{LatencyTick(5000), "5 s"}, {LatencyTick(0.5), "0.5 ms"},
		{LatencyNumber(0), "–"}, {LatencyNumber(1843), "1,840"}, {Bytes(1), "1 B"}, {Count(94435), "94,435"}, {Count(-1234), "-1,234"},
		{Plural(1, "trial"), "1 trial"}, {Plural(6, "trial"), "6 trials"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func TestFiguresKeepWhatIsBeforeThePoint(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{
		0: "0", 0.0123: "0.0123", 1.234: "1.23", 9.996: "10.0", 12.34: "12.3", 99.96: "100", 999: "999", 1234.5: "1,235",
		-12.34: "-12.3", -1234: "-1,234", math.Inf(1): "–", math.NaN(): "–", 4987.2: "4,987",
	} {
		if got := Figure(v); got != want {
			t.Errorf("Figure(%v): got %q, want %q", v, got, want)
		}
	}
	for v, want := range map[float64]string{0: "0", 200.4: "200.4", 0.00141: "0.00141", 123456.7: "123,457", math.Inf(-1): "–"} {
		if got := Precise(v); got != want {
			t.Errorf("Precise(%v): got %q, want %q", v, got, want)
		}
	}
	for v, want := range map[float64]string{4312: "4,312", 0.25: "0.25", 1234567: "1,234,567", 12.5: "12.5", 100: "100"} {
		if got := Setting(v); got != want {
			t.Errorf("Setting(%v): got %q, want %q", v, got, want)
		}
	}
}

func TestRemaining(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0 s", 300 * time.Millisecond: "1 s", 12400 * time.Millisecond: "12 s", 59900 * time.Millisecond: "1 min", 61 * time.Second: "1 min", 245 * time.Second: "4 min 10 s",
		599 * time.Second: "10 min", 11*time.Minute + 40*time.Second: "12 min", 119*time.Minute + 59*time.Second: "2 h 0 min", 150 * time.Minute: "2 h 30 min",
	} {
		if got := Remaining(d); got != want {
			t.Errorf("%v: got %q, want %q", d, got, want)
		}
	}
}
