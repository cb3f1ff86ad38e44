package host

import (
	"testing"
	"time"
)

func TestParseMachine(t *testing.T) {
	t.Parallel()
	got, err := parseMachine("cpu  10 1 20 300 40 5 6 7 0 0")
	if want := (cpuTimes{490 * time.Millisecond, 3890 * time.Millisecond, 110 * time.Millisecond, 70 * time.Millisecond}); err != nil || got != want {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	for _, bad := range []string{"", "cpu0 1 2 3 4 5 6 7 8", "cpu 1 2", "cpu a b c d e f g h"} {
		if _, err := parseMachine(bad); err == nil {
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
