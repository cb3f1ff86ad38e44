package cqlstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"loadstone/block/cql"
	"loadstone/block/servertest"
	"loadstone/system/menu"
	"loadstone/system/menu/menutest"
)

func TestMain(m *testing.M) {
	if menutest.IsWriter() {
		os.Exit(menutest.Writer(func(path string) (menu.Database, error) { return openAt(context.Background(), path) }))
	}
	if menutest.IsFiller() {
		os.Exit(menutest.FillUntilKilled(placeOf, fillersOf(menutest.FillerPlace())))
	}
	os.Exit(m.Run())
}

// node is the one Cassandra of these tests: it takes twenty seconds to start.
type node struct {
	*servertest.CassandraNode

	keyspaces atomic.Int64
}

// address is that of a keyspace of its own.
func (n *node) address(settings string) string {
	return fmt.Sprintf("cassandra:%s/menus%d%s", n.Host, n.keyspaces.Add(1), settings)
}

// config is for a node that many tests share, on a machine that may be busy.
func config(address string) (Config, error) {
	cfg, err := Parse(address)
	cfg.ConnectTimeout, cfg.RequestTimeout = 10*time.Second, 30*time.Second
	return cfg, err
}

// openAt opens a store as a service does that is started again until it runs: making a
// keyspace takes longer than anything else.
func openAt(ctx context.Context, address string) (*Store, error) {
	cfg, err := config(address)
	if err != nil {
		return nil, err
	}
	return patiently(ctx, cfg)
}

func patiently(ctx context.Context, cfg Config) (s *Store, err error) {
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if s, err = Open(ctx, cfg); !errors.Is(err, menu.ErrUnavailable) {
			break
		}
	}
	return s, err
}

func open(t *testing.T, address string) *Store {
	t.Helper()
	return openWith(t, address, func(*Config) {})
}

func openWith(t *testing.T, address string, change func(*Config)) *Store {
	t.Helper()
	cfg, err := config(address)
	if err != nil {
		t.Fatal(err)
	}
	change(&cfg)
	s, err := patiently(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestCassandra(t *testing.T) {
	n := &node{CassandraNode: servertest.Cassandra(t, servertest.CassandraConfig{
		CommitLog: "commitlog_sync: batch", JMX: true, LazySchema: true, // each test makes a keyspace
		Settings: "read_request_timeout: 25s\nrange_request_timeout: 25s\nwrite_request_timeout: 25s\ncas_contention_timeout: 25s\nrequest_timeout: 25s\n" +
			"memtable_allocation_type: unslabbed_heap_buffers", // else a megabyte for each table, and each test has nine
	})}
	// First: the node has few tables to read again.
	t.Run("a killed node comes back with what was acknowledged", func(t *testing.T) { outlives(t, n) })
	t.Run("is a database", func(t *testing.T) {
		menutest.Database(t, menutest.Databases{Spread: true, Place: func(t *testing.T) menutest.Open {
			t.Helper()
			address := n.address("")
			return func() (menu.Database, error) { return openAt(t.Context(), address) }
		}})
	})
	t.Run("is a desk", func(t *testing.T) {
		menutest.Desk(t, menutest.Databases{Spread: true, Place: func(t *testing.T) menutest.Open {
			t.Helper()
			address := n.address("")
			return func() (menu.Database, error) { return openAt(t.Context(), address) }
		}})
	})
	t.Run("is a filler", func(t *testing.T) {
		all := fillersOf("")
		all.Place = func(t *testing.T) menutest.Filled {
			t.Helper()
			return placeOf(n.address("?consistency=one"))
		}
		menutest.Filler(t, all)
	})
	t.Run("a killed process leaves what was acknowledged", func(t *testing.T) {
		menutest.Kill(t, n.address(""), func(path string) (menu.Database, error) { return openAt(t.Context(), path) })
	})
	t.Run("a killed filling goes on", func(t *testing.T) { killedFilling(t, n.address("")) })
	t.Run("sorted tables are what batches are", func(t *testing.T) { sortedTables(t, n) })
	t.Run("sorted tables need what they need", func(t *testing.T) { noTables(t, n) })
	t.Run("three replicas on one node are read with one and not with quorum", func(t *testing.T) { threeOnOne(t, n) })
	t.Run("the row cache is what the address says", func(t *testing.T) { rowCache(t, n) })
	t.Run("too many at once are overloaded", func(t *testing.T) { overloaded(t, n) })
	t.Run("all menus are read from a node that does not answer for a while", func(t *testing.T) { slow(t, n) })
	t.Run("an id that comes twice is no data set", func(t *testing.T) { twice(t, n) })
	t.Run("is a desk in its own way", func(t *testing.T) { deskParts(t, n) })
	t.Run("a keyspace from before gets what is new", func(t *testing.T) { older(t, n) })
}

func threeOnOne(t *testing.T, n *node) {
	t.Helper()
	address := n.address("?replication=3")
	s := open(t, address+"&consistency=one")
	cfg, err := config(address)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), cfg)
	if !errors.Is(err, menu.ErrUnavailable) || !strings.Contains(err.Error(), "consistency quorum needs 2 of 3 replicas, and 1 is there") {
		t.Errorf("got %v", err)
	}
	source := menutest.Generator(t, 1, 20)
	if _, err := s.Fill(t.Context(), source, nil); err != nil {
		t.Fatal(err)
	}
	m := source.Menu(3)
	menutest.Want(t, s, &m, 1)
	if _, err := s.Delete(t.Context(), 3, menu.Condition{}); !errors.Is(err, menu.ErrUnavailable) {
		t.Errorf("a write that no majority can take: got %v, want ErrUnavailable", err)
	}
}

func rowCache(t *testing.T, n *node) {
	t.Helper()
	address := n.address("")
	for _, c := range []struct{ settings, want string }{
		{"", "NONE"}, {"?row_cache=on", "ALL"}, {"", "ALL"}, {"?row_cache=off", "NONE"},
	} {
		s := open(t, address+c.settings)
		var options map[string]string
		err := s.session.Do(t.Context(), func(ctx context.Context, session *gocql.Session) error {
			return session.Query("SELECT caching FROM system_schema.tables WHERE keyspace_name = ? AND table_name = 'menus'", s.cfg.Cluster.Keyspace).
				ScanContext(ctx, &options)
		})
		if got := options["rows_per_partition"]; err != nil || got != c.want {
			t.Errorf("%q: got %q and %v, want %q", c.settings, got, err, c.want)
		}
	}
}

func overloaded(t *testing.T, n *node) {
	t.Helper()
	s := openWith(t, n.address(""), func(cfg *Config) { cfg.InFlight = 1 })
	err := s.session.Do(t.Context(), func(context.Context, *gocql.Session) error {
		_, err := s.Lookup(t.Context(), 1) // beside the one that this is
		return err
	})
	if !errors.Is(err, menu.ErrOverloaded) {
		t.Errorf("got %v, want ErrOverloaded", err)
	}
}

// A node that stands still for longer than several requests may take is asked again.
func slow(t *testing.T, n *node) {
	t.Helper()
	address := n.address("")
	source := menutest.Generator(t, 1, 300)
	if _, err := open(t, address).Fill(t.Context(), source, nil); err != nil {
		t.Fatal(err)
	}
	s := openWith(t, address, func(cfg *Config) { cfg.RequestTimeout = 2 * time.Second })
	n.Pause()
	read := make(chan error, 1)
	go func() {
		all, err := s.list(t.Context())
		if err == nil && len(all.ids) != 300 {
			err = fmt.Errorf("%d menus were read, want 300", len(all.ids))
		}
		read <- err
	}()
	// These begin later, so when each has had its time the reading has had as many.
	for range 6 {
		if _, err := s.Lookup(t.Context(), 1); !errors.Is(err, menu.ErrUnavailable) {
			t.Errorf("a look-up: got %v, want ErrUnavailable", err)
		}
	}
	n.Resume()
	if err := <-read; err != nil {
		t.Error(err)
	}
}

func twice(t *testing.T, n *node) {
	t.Helper()
	s := open(t, n.address(""))
	source := menutest.Generator(t, 1, 2)
	same := menutest.Source{Of: source.Meta(), Menus: func(_ context.Context, yield func(menu.Menu, error) bool) {
		for more := 2; more > 0 && yield(source.Menu(1), nil); more-- {
		}
	}}
	_, err := s.Fill(t.Context(), same, nil)
	if err == nil || errors.Is(err, menu.ErrUnavailable) || !strings.Contains(err.Error(), "an id twice") {
		t.Errorf("got %v", err)
	}
	if _, err := s.Lookup(t.Context(), 1); !errors.Is(err, menu.ErrMissing) {
		t.Errorf("got %v, want ErrMissing", err)
	}
	written := open(t, n.address(""))
	m := menutest.Example(1, 1)
	if _, err := written.Create(t.Context(), &m); err != nil {
		t.Fatal(err)
	}
	if _, err := written.Fill(t.Context(), source, nil); !errors.Is(err, menu.ErrOccupied) {
		t.Errorf("fill what has menus: got %v, want ErrOccupied", err)
	}
}

func outlives(t *testing.T, n *node) {
	t.Helper()
	address := n.address("")
	s := open(t, address)
	hasty := openWith(t, address, func(cfg *Config) { cfg.RequestTimeout = 3 * time.Second })
	m := menutest.Example(9, 1)
	if _, err := s.Create(t.Context(), &m); err != nil {
		t.Fatal(err)
	}
	n.FlushSchema()
	n.Kill()
	_, err := hasty.Lookup(t.Context(), 9)
	_, deleted := hasty.Delete(t.Context(), 9, menu.Condition{})
	for _, err := range []error{err, deleted, hasty.Ping(t.Context())} {
		if !errors.Is(err, menu.ErrUnavailable) {
			t.Errorf("got %v, want ErrUnavailable", err)
		}
	}
	n.Start()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		_, err := s.Lookup(t.Context(), 9)
		_, again := hasty.Lookup(t.Context(), 9) // each connects anew in its own time
		if err == nil && again == nil || time.Now().After(deadline) {
			break
		}
	}
	menutest.Want(t, s, &m, 1)
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	cfg, err := Parse("cassandra:a,b:9142/menus?consistency=one&replication=3&row_cache=on")
	if err != nil || cfg.Consistency != One || cfg.RowCache != "on" || cfg.Cluster.Replication != 3 || len(cfg.Cluster.Hosts) != 2 {
		t.Errorf("got %+v and %v", cfg, err)
	}
	for _, wrong := range []string{
		"cassandra:a/menus?consistency=two", "cassandra:a/menus?row_cache=yes", "cassandra:a/menus?replication=0", "cassandra:a",
		"cassandra:a/menus?password=hunter2", "cassandra://user:hunter2@a/menus", "cassandra:a/menus?consistency=one&passwd=hunter2",
	} {
		if _, err := Parse(wrong); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got %v", wrong, err)
		}
	}
	nobody := cfg
	nobody.Cluster = cql.Address{Hosts: []string{servertest.Host()}, Keyspace: "menus", Replication: 1}
	if _, err := Open(t.Context(), nobody); !errors.Is(err, menu.ErrUnavailable) {
		t.Errorf("nobody there: got %v, want ErrUnavailable", err)
	}
}
