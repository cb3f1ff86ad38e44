package rediscache_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"loadstone/block/cache/rediscache"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen.
const patience = time.Minute

func tierConfig(tb testing.TB, addr string) rediscache.Config {
	tb.Helper()
	cfg := rediscache.DefaultConfig("results", addr, prometheus.NewRegistry())
	cfg.ReadTimeout, cfg.WriteTimeout = time.Minute, time.Minute // tests share their machine
	cfg.ProbeEvery = 10 * time.Millisecond
	return cfg
}

func openTier(tb testing.TB, cfg rediscache.Config) *rediscache.Tier {
	tb.Helper()
	tier, err := rediscache.New(tb.Context(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := tier.Close(); err != nil {
			tb.Error(err)
		}
	})
	return tier
}

// metric reads one metric; labels are parts of its labels' text, as `outcome:written`.
func metric(tb testing.TB, registerer prometheus.Registerer, name string, labels ...string) float64 {
	tb.Helper()
	families, err := registerer.(*prometheus.Registry).Gather()
	if err != nil {
		tb.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
	next:
		for _, m := range f.GetMetric() {
			for _, want := range labels {
				key, value, _ := strings.Cut(want, ":")
				has := false
				for _, l := range m.GetLabel() {
					has = has || l.GetName() == key && l.GetValue() == value
				}
				if !has {
					continue next
				}
			}
			return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	tb.Fatalf("there is no metric %s with %v", name, labels)
	return 0
}

// eventually waits until ok is true.
func eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatalf("not within %v: %s", patience, what)
		}
	}
}
