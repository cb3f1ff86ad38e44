package host

import (
	"os"
	"path/filepath"
	"testing"
)

// TestQuotasAreThoseOfAllGroupsAbove: a quota of the parent stops what its child runs.
func TestQuotasAreThoseOfAllGroupsAbove(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	child := filepath.Join(root, "a", "b")
	if err := os.MkdirAll(child, 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(dir, text string) {
		if err := os.WriteFile(filepath.Join(dir, "cpu.stat"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(child, "usage_usec 1\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n")
	write(filepath.Dir(child), "nr_periods 100\nnr_throttled 10\nthrottled_time 5\n")
	before := quotas(child)
	write(filepath.Dir(child), "nr_periods 300\nnr_throttled 60\nthrottled_time 5\n")
	after := quotas(child)
	if len(after) != 2 || after[child] != (Periods{}) {
		t.Errorf("got %v, want the group's and its parent's", after)
	}
	if got := Throttled(before, after); got != 0.25 {
		t.Errorf("got %v, want 0.25: 50 of 200 periods", got)
	}
	if got := Throttled(after, before); got != 0 {
		t.Errorf("got %v of a group that was made anew, want nothing", got)
	}
	if got := Throttled(before, before); got != 0 {
		t.Errorf("got %v without a period, want nothing", got)
	}
}

func TestTheMachineHasTime(t *testing.T) {
	t.Parallel()
	busy, total, err := MachineTime()
	if err != nil || busy <= 0 || total < busy {
		t.Errorf("got %v of %v, %v", busy, total, err)
	}
}
