package cassandrastore

import (
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"loadstone/block/servertest"
	"loadstone/system/patterns/activity"
	"loadstone/system/patterns/activity/activitytest"
)

func open(t *testing.T, cfg Config) *Store {
	t.Helper()
	s, err := Open(t.Context(), cfg)
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
	cfg.Cluster = Address{[]string{server.Host}, "activities", 1}
	t.Run("the schema is made once", func(t *testing.T) {
		if err := open(t, cfg).Close(); err != nil { // this is the keyspace
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				s, err := Open(t.Context(), cfg)
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
		if _, err := Open(t.Context(), other); !errors.Is(err, errKeyspace) || errors.Is(err, activity.ErrUnavailable) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("too many at once are busy", func(t *testing.T) {
		s := open(t, cfg)
		for range cfg.InFlight {
			s.gate.Enter()
		}
		if _, err := s.Get(t.Context(), "x"); !errors.Is(err, activity.ErrBusy) {
			t.Errorf("got %v, want ErrBusy", err)
		}
		s.gate.Leave()
		if _, err := s.Get(t.Context(), "x"); !errors.Is(err, activity.ErrNotFound) {
			t.Errorf("got %v, want ErrNotFound", err)
		}
	})
	t.Run("what was acknowledged survives a killed node", func(t *testing.T) { outlives(t, server, cfg) })
}

func outlives(t *testing.T, server *servertest.CassandraNode, cfg Config) {
	cfg.RequestTimeout = time.Second
	s := open(t, cfg)
	a := activitytest.Example("acknowledged")
	activitytest.Put(t, s, a)
	server.Kill()
	if _, err := s.Get(t.Context(), a.ID); !errors.Is(err, activity.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
	server.Start()
	deadline := time.Now().Add(time.Minute)
	for time.Now().Before(deadline) {
		if _, err := s.Get(t.Context(), a.ID); err == nil {
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
	cfg.Cluster = Address{[]string{address}, "activities", 1}
	if _, err := Open(t.Context(), cfg); !errors.Is(err, activity.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
}

func TestParseAddress(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Address{
		"cassandra:db/shop":                             {[]string{"db"}, "shop", 1},
		"cassandra://10.0.0.1:9043,b/s_2?replication=3": {[]string{"10.0.0.1:9043", "b"}, "s_2", 3},
	} {
		got, err := ParseAddress(text)
		if err != nil || !slices.Equal(got.Hosts, want.Hosts) || got.Keyspace != want.Keyspace || got.Replication != want.Replication {
			t.Errorf("%s: got %+v, %v, want %+v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"scylla:db/shop":                    AddressForm,
		"cassandra:db":                      AddressForm,
		"cassandra:/shop":                   `has the host ""`,
		"cassandra:a,,b/shop":               `has the host ""`,
		"cassandra:a:0/shop":                `has the host "a:0"`,
		"cassandra:a b/shop":                `has the host "a b"`,
		"cassandra:db/Shop":                 `the keyspace is "Shop"`,
		"cassandra:db/x; DROP":              "the keyspace is",
		"cassandra:db/shop?replication=0":   "replication is 0",
		"cassandra:db/shop?replication=two": `replication is "two"`,
		"cassandra:db/shop?consistency=ONE": "only ?replication=N",
	} {
		if got, err := ParseAddress(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %+v, %v, want %q", text, got, err, want)
		}
	}
	if err := (Config{}).Validate(); err == nil || !strings.Contains(err.Error(), "no host") || !strings.Contains(err.Error(), "timeouts") {
		t.Errorf("got %v", err)
	}
}

func FuzzParseAddress(f *testing.F) {
	for _, seed := range []string{"cassandra:a/b", "cassandra://a:1,b/c?replication=3", "cassandra:[::1]/x", "cassandra:?/"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if a, err := ParseAddress(text); err == nil && a.validate() != nil {
			t.Errorf("%q: %+v is accepted and not valid", text, a)
		}
	})
}
