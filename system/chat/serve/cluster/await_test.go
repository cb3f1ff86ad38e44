package cluster

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/servertest"
	"loadstone/system/chat/registry"
)

// A start without Redis, or without Kafka, says so, and ends with the reason.
func TestAStartDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	const nobody = "127.0.0.1:1"
	db, redis := servertest.MariaDB(t), servertest.Redis(t)
	made := registry.DefaultConfig() // to make the tables may take longer than is waited for below
	made.Address = db.Address()
	r, err := registry.Open(t.Context(), made)
	if err == nil {
		err = r.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	for what, at := range map[string]string{"Redis": nobody, "Kafka": redis.Addr()} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c := DefaultConfig()
			c.Registry.Address, c.Broadcast.Address, c.Topics.Brokers = db.Address(), "redis://"+at, []string{nobody}
			c.Registry.Patience, c.Registerer = 10*time.Second, prometheus.NewRegistry()
			var mu sync.Mutex
			var said []string
			c.Failed = func(err error) {
				mu.Lock()
				defer mu.Unlock()
				said = append(said, err.Error())
			}
			l, err := Open(t.Context(), c)
			if err == nil {
				err = errors.Join(errors.New("it has opened"), l.Close())
			}
			mu.Lock()
			defer mu.Unlock()
			if !strings.Contains(err.Error(), nobody) || !strings.Contains(strings.Join(said, ""), what+" at [") {
				t.Errorf("it ended with %v, and said %q", err, said)
			}
		})
	}
}
