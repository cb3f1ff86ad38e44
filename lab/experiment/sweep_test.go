package experiment_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"loadstone/lab/experiment"
)

func TestSweepBecomesVariants(t *testing.T) {
	t.Parallel()
	e := parseGood(t, "sweep")
	if e.Load.Warmup != 30*time.Second { // longer than the duration, which a search does not use
		t.Errorf("warm-up %v, want 30s", e.Load.Warmup)
	}
	var names []string
	for _, v := range e.Variants {
		names = append(names, v.Name)
	}
	if want := []string{"replicas-1", "replicas-2", "replicas-3", "replicas-6"}; !slices.Equal(names, want) {
		t.Errorf("variants %v, want %v", names, want)
	}
	want := "services:\n  api:\n    environment:\n      CACHE: \"on\"\n    deploy:\n      replicas: 3\n"
	if got := string(e.Variants[2].Overlay); got != want {
		t.Errorf("overlay\n%swant\n%s", got, want)
	}
	if e.Sweep.Carry != 4000 || e.Sweep.Setting() != "replicas" || e.Sweep.Sizes()[3] != (experiment.Size{Variant: "replicas-6", Size: 6}) {
		t.Errorf("sweep %+v, sizes %v", e.Sweep, e.Sweep.Sizes())
	}
	if strings.Contains(string(e.Variants[0].Overlay), "replicas: 6") {
		t.Error("the sizes share an override")
	}
}

func TestSweepOfSharesNeedsNoVariant(t *testing.T) {
	t.Parallel()
	e := parseGood(t, "sweep-cpus")
	if len(e.Variants) != 3 || e.Variants[0].Name != "cpus-0.1" {
		t.Fatalf("variants %+v", e.Variants)
	}
	want := "services:\n  lb:\n    deploy:\n      resources:\n        limits:\n          cpus: \"0.1\"\n"
	if got := string(e.Variants[0].Overlay); got != want {
		t.Errorf("overlay\n%swant\n%s", got, want)
	}
}

// What is swept must be there, and what is wrong with a size is the sweep's fault.
func TestSweptServiceMustBeThere(t *testing.T) {
	t.Parallel()
	e := parseGood(t, "sweep-cpus")
	if err := e.CheckServices([]string{"lb", "api"}); err != nil {
		t.Errorf("got %v, want no error", err)
	}
	err := e.CheckServices([]string{"api"})
	for _, want := range []string{":4:18: compose.yaml has no service \"lb\" for sweep to grow", ":3:8: compose.yaml has no service \"lb\" to be the entry"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if _, line, column := e.Position("variants", "cpus-0.2"); line != 4 || column != 1 {
		t.Errorf("a size stands at %d:%d, want 4:1, the sweep", line, column)
	}
	based := parseGood(t, "sweep")
	if _, line, column := based.Position("variants", "replicas-6"); line != 5 || column != 1 {
		t.Errorf("a size stands at %d:%d, want 5:1, the sweep", line, column)
	}
	if _, line, column := based.Position("variants", "cached"); line != 4 || column != 12 {
		t.Errorf("the base stands at %d:%d, want 4:12", line, column)
	}
	if err := based.CheckServices([]string{"lb", "api"}); err != nil {
		t.Errorf("got %v, want no error", err)
	}
}
