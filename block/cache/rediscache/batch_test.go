package rediscache

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/servertest"
)

func TestBatchTakesKeysUntilItIsFullOrSealed(t *testing.T) {
	t.Parallel()
	var bs batches
	first, _ := bs.join("0")
	for i := 1; i < batchKeys; i++ {
		if b, place := bs.join("more"); b != first || place != i {
			t.Fatalf("key %d has place %d, in the first batch: %v; want place %[1]d in it", i, place, b == first)
		}
	}
	second, place := bs.join("one too many")
	if second == first || place != 0 {
		t.Fatalf("a full batch took another key")
	}
	bs.seal(first) // it is closed already
	if b, place := bs.join("more"); b != second || place != 1 {
		t.Errorf("sealing one batch closed another")
	}
	bs.seal(second)
	if b, place := bs.join("more"); b == second || place != 0 {
		t.Errorf("a sealed batch took another key")
	}
}

// What many wait for is late once: a pause of this process must not look like a Redis that
// has failed many times.
func TestALateBatchIsOneFailure(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	cfg := DefaultConfig("results", s.Addr(), prometheus.NewRegistry())
	cfg.ProbeEvery = 10 * time.Millisecond
	tier, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := tier.Close(); err != nil {
			t.Error(err)
		}
	}()
	client, ok := tier.up()
	for deadline := time.Now().Add(time.Minute); !ok; client, ok = tier.up() {
		if time.Now().After(deadline) {
			t.Fatal("Redis was not found within a minute")
		}
		time.Sleep(time.Millisecond)
	}
	s.Pause()
	tier.cfg.ReadTimeout = 50 * time.Millisecond
	for i := range cfg.Failures {
		if tier.breaker.isOpen() {
			t.Fatalf("the breaker is open after %d late batches, want %d", i, cfg.Failures)
		}
		var bs batches
		b, _ := bs.join("0")
		for range 4 * cfg.Failures {
			bs.join("more")
		}
		tier.fetch(t.Context(), client, b)
	}
	if !tier.breaker.isOpen() {
		t.Errorf("the breaker is closed after %d late batches", cfg.Failures)
	}
	s.Resume()
}
