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
