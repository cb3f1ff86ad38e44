package cassandrastore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"loadstone/block/cql"
	"loadstone/block/servertest"
	"loadstone/system/patterns/activity"
	"loadstone/system/patterns/activity/activitytest"
)

// writing is several writers that store activities until they are told to end. As a
// client of the service would, they send again what was answered with an error.
type writing struct {
	stored atomic.Int64 // acknowledged
	failed atomic.Int64 // attempts that were not

	end context.CancelFunc
	all sync.WaitGroup
	mu  sync.Mutex
	ids []string // acknowledged
	// Of the attempts that failed: how many for which reason, and the first and last.
	why      map[string]int
	from, to time.Time
}

func write(s *Store, name string) *writing {
	ctx, end := context.WithCancel(context.Background())
	w := &writing{end: end}
	for k := range 4 {
		w.all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				w.one(ctx, s, activitytest.Example(fmt.Sprintf("%s-%d-%d", name, k, i)))
			}
		})
	}
	return w
}

// one stores one activity, however often it takes.
func (w *writing) one(ctx context.Context, s *Store, a activity.Activity) {
	for ctx.Err() == nil {
		err := s.Put(ctx, &a)
		if err != nil && ctx.Err() != nil {
			return // it was told to end: stored or not, nobody was told so
		}
		if err != nil {
			w.failed.Add(1)
			w.mu.Lock()
			if w.why == nil {
				w.why, w.from = map[string]int{}, time.Now()
			}
			_, reason, _ := strings.Cut(err.Error(), ": ") // what comes before is the id
			w.why[reason]++
			w.to = time.Now()
			w.mu.Unlock()
			continue
		}
		w.mu.Lock()
		w.ids = append(w.ids, a.ID)
		w.mu.Unlock()
		w.stored.Add(1)
		return
	}
}

// more waits until n more were stored.
func (w *writing) more(t *testing.T, n int64) {
	t.Helper()
	const limit = time.Minute
	first := w.stored.Load()
	for deadline := time.Now().Add(limit); w.stored.Load() < first+n; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d were stored within %v, and %d attempts failed", w.stored.Load()-first, n, limit, w.failed.Load())
		}
	}
}

// finish ends the writers and returns what was acknowledged.
func (w *writing) finish() []string {
	w.end()
	w.all.Wait()
	return w.ids
}

// lost returns which of the activities the store does not give back as they were put.
// It asks again, as a client would, while the nodes find out who of them is dead.
func lost(t *testing.T, s *Store, ids []string) []string {
	t.Helper()
	var lost []string
	deadline, again := time.Now().Add(2*time.Minute), 0
	for _, id := range ids {
		got, err := s.Get(t.Context(), id)
		for errors.Is(err, activity.ErrUnavailable) && time.Now().Before(deadline) {
			time.Sleep(50 * time.Millisecond)
			again++
			got, err = s.Get(t.Context(), id)
		}
		if err != nil && !errors.Is(err, activity.ErrNotFound) {
			t.Fatalf("%s: %v", id, err)
		}
		if want := activitytest.Example(id); err != nil || got != want {
			lost = append(lost, id)
		}
	}
	t.Logf("%d read, %d not there; %d attempts had no answer", len(ids), len(lost), again)
	return lost
}

// Three nodes with each row on all of them take and give back activities while one is
// dead, and lose none, whichever two are asked later. With two dead, nobody is told
// that a row is stored.
func TestRingOfThree(t *testing.T) {
	servertest.Large(t)
	began := time.Now()
	ring := servertest.CassandraRing(t, 3, servertest.CassandraConfig{CommitLog: "commitlog_sync: batch"})
	t.Logf("three nodes were ready after %v", time.Since(began).Round(time.Second/10))
	cfg := DefaultConfig()
	cfg.Cluster = cql.Address{Hosts: []string{ring[0].Host, ring[1].Host, ring[2].Host}, Keyspace: "activities", Replication: 3}
	s := open(t, cfg)
	if d := s.Durability(); !d.Synced || !strings.Contains(d.How, "3 replicas, QUORUM") {
		t.Errorf("got %+v", d)
	}

	w := write(s, "kill")
	w.more(t, 300)
	ring[2].Kill()
	w.more(t, 600)
	ids := w.finish()
	t.Logf("%d stored, one node killed meanwhile; %d attempts failed within %v: %v", len(ids), w.failed.Load(), w.to.Sub(w.from), w.why)
	if missing := lost(t, s, ids); len(missing) != 0 {
		t.Errorf("with a node dead %d of %d are missing, such as %s", len(missing), len(ids), missing[0])
	}
	if missing := lost(t, s, []string{"never-stored", ids[0]}); len(missing) != 1 {
		t.Errorf("got %v, want the one that was never stored: nobody would notice a loss", missing)
	}

	// The one that was dead and one of the others: each row is on that one.
	ring[2].Start()
	ring[1].Kill()
	if missing := lost(t, s, ids); len(missing) != 0 {
		t.Errorf("read from the node that was dead and one other, %d of %d are missing, such as %s", len(missing), len(ids), missing[0])
	}

	ring[2].Kill()
	a := activitytest.Example("minority")
	if err := s.Put(t.Context(), &a); !errors.Is(err, activity.ErrUnavailable) {
		t.Errorf("put with two nodes dead: got %v, want ErrUnavailable", err)
	}
}
