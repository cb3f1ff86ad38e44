package kafka

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"loadstone/block/queue/queuetest"
)

// What stands for Kafka here is franz-go's imitation; the real one is used by the
// tests of the whole pattern.
func TestContract(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	queuetest.Run(t, func(t *testing.T, name string, s queuetest.Setting) queuetest.Queue {
		t.Helper()
		cfg := DefaultConfig()
		cfg.Brokers, cfg.Name, cfg.Capacity, cfg.WhenFull = cluster.ListenAddrs(), name, s.Capacity, s.WhenFull
		cfg.Retry, cfg.Batch = queuetest.FastRetry(), 32
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		c, err := Open(ctx, cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	})
}

func TestValidate(t *testing.T) {
	t.Parallel()
	if err := (Config{}).Validate(); err == nil {
		t.Error("an empty configuration: got nil, want an error")
	}
}
