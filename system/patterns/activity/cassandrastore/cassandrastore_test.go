package cassandrastore

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"loadstone/block/cql"
	"loadstone/block/servertest"
	"loadstone/system/patterns/activity"
	"loadstone/system/patterns/activity/activitytest"
)

// patiently opens a store; a node on a busy machine may not answer in its time.
func patiently(t *testing.T, cfg cql.Config) (*Store, error) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if s, err := Open(t.Context(), cfg); !errors.Is(err, activity.ErrUnavailable) || time.Now().After(deadline) {
			return s, err
		}
	}
}

func open(t *testing.T, cfg cql.Config) *Store {
	t.Helper()
	s, err := patiently(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// One node for all: it takes twenty seconds to start, and as many after it was
// killed.
func TestCassandra(t *testing.T) {
	server := servertest.Cassandra(t, servertest.CassandraConfig{CommitLog: "commitlog_sync: batch"})
	cfg := DefaultConfig()
	cfg.Cluster = cql.Address{Hosts: []string{server.Host}, Keyspace: "activities", Replication: 1}
	cfg.ConnectTimeout, cfg.RequestTimeout = 10*time.Second, 30*time.Second // the machine may be busy
	t.Run("the schema is made once", func(t *testing.T) {
		if err := open(t, cfg).Close(); err != nil { // this is the keyspace
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				s, err := patiently(t, cfg)
				if err != nil {
					t.Error(err)
					return
				}
				_ = s.Close()
			})
		}
		all.Wait()
	})
	t.Run("is a store", func(t *testing.T) {
		activitytest.Suite(t, func(t *testing.T) activity.Store { t.Helper(); return open(t, cfg) })
	})
	t.Run("says how durable it is", func(t *testing.T) {
		if d := open(t, cfg).Durability(); !d.Synced || d.How != "Cassandra: 1 replicas, QUORUM, commitlog_sync of the nodes: batch" {
			t.Errorf("got %+v", d)
		}
	})
	t.Run("another number of replicas is refused", func(t *testing.T) {
		other := cfg
		other.Cluster.Replication = 3
		if _, err := patiently(t, other); !errors.Is(err, cql.ErrKeyspace) || errors.Is(err, activity.ErrUnavailable) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("too many at once are busy", func(t *testing.T) {
		one := cfg
		one.InFlight = 1
		s := open(t, one)
		err := s.session.Do(t.Context(), func(context.Context, *gocql.Session) error {
			_, err := s.Get(t.Context(), "x") // beside the one that this is
			return err
		})
		if !errors.Is(err, activity.ErrBusy) {
			t.Errorf("got %v, want ErrBusy", err)
		}
		if _, err := s.Get(t.Context(), "x"); !errors.Is(err, activity.ErrNotFound) {
			t.Errorf("got %v, want ErrNotFound", err)
		}
	})
	t.Run("what was acknowledged survives a killed node", func(t *testing.T) { outlives(t, server, cfg) })
}

func outlives(t *testing.T, server *servertest.CassandraNode, cfg cql.Config) {
	s := open(t, cfg)
	cfg.RequestTimeout = 10 * time.Second
	hasty := open(t, cfg)
	a := activitytest.Example("acknowledged")
	activitytest.Put(t, s, a)
	server.Kill()
	if _, err := hasty.Get(t.Context(), a.ID); !errors.Is(err, activity.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
	server.Start()
	deadline := time.Now().Add(5 * time.Minute)
	for time.Now().Before(deadline) {
		_, err := s.Get(t.Context(), a.ID)
		_, again := hasty.Get(t.Context(), a.ID) // each connects anew in its own time
		if err == nil && again == nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	activitytest.Want(t, s, a)
}

func TestNobodyThereIsUnavailable(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	cfg := DefaultConfig()
	cfg.Cluster = cql.Address{Hosts: []string{address}, Keyspace: "activities", Replication: 1}
	if _, err := Open(t.Context(), cfg); !errors.Is(err, activity.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
}
