package service

import (
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestRegisterProcess(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	if err := RegisterProcess(r); err != nil {
		t.Fatal(err)
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range families {
		got = append(got, f.GetName())
	}
	for _, want := range []string{"go_goroutines", "process_cpu_seconds_total", "process_resident_memory_bytes"} {
		if !slices.Contains(got, want) {
			t.Errorf("got %v, want %s among them", got, want)
		}
	}
	if err := RegisterProcess(r); err == nil {
		t.Error("a second time: got nil, want an error")
	}
}
