package cqlstore

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"loadstone/block/dataset"
	"loadstone/block/servertest"
	"loadstone/system/menu"
	"loadstone/system/menu/menutest"
)

// testChunk is how many menus these tests have in a chunk: few, as their number is what
// counts.
const testChunk = 256

// A place in these tests is an address, and for sorted tables their directory and
// Cassandra's own behind it.
func tablesPlace(address, dir, home string) string { return address + " " + dir + " " + home }

func placeOf(place string) menutest.Filled {
	return menutest.Of(func(ctx context.Context) (*Store, error) { return openPlace(ctx, place) })
}

func openPlace(ctx context.Context, place string) (*Store, error) {
	fields := strings.Fields(place)
	cfg, err := config(fields[0])
	if err != nil {
		return nil, err
	}
	if len(fields) > 1 {
		cfg.SortedTables = SortedTables{Dir: fields[1], Home: fields[2]}
	}
	s, err := patiently(ctx, cfg)
	if err == nil {
		s.chunk = testChunk
	}
	return s, err
}

// How many menus are filled into one node, and into three.
const (
	nodeMenus  = 4 * testChunk
	threeMenus = 10 * testChunk
)

// fillersOf are those of a place, also in the process that KillFilling starts.
func fillersOf(place string) menutest.Fillers {
	if strings.Contains(place, ",") {
		return menutest.Fillers{Menus: threeMenus, Resumes: true}
	}
	return menutest.Fillers{Menus: nodeMenus, Resumes: true}
}

func killedFilling(t *testing.T, place string) {
	t.Helper()
	menutest.KillFilling(t, place, placeOf, fillersOf(place))
}

// A filling with sorted tables that was killed, and one in batches, end with the same.
func sortedTables(t *testing.T, n *node) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "tables")
	place := tablesPlace(n.address(""), dir, n.Home)
	killedFilling(t, place)
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("a filling left %v and %v", left, err)
	}
	tables, err := openPlace(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	defer tables.Close()
	batches := open(t, n.address(""))
	if _, err := batches.Fill(t.Context(), menutest.Generator(t, menutest.KilledSeed, nodeMenus), nil); err != nil {
		t.Fatal(err)
	}
	same(t, tables, batches)
	change(t, tables)
}

// same expects the same rows in both, to the byte; their times too.
func same(t *testing.T, a, b *Store) {
	t.Helper()
	var sums [2]uint64
	for i, s := range []*Store{a, b} {
		all, err := s.list(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		sums[i] = all.digest
		source, err := s.Menus(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		digest := uint64(0)
		err = dataset.Each(t.Context(), source, nil, func(m *menu.Menu) error {
			digest = digest*31 + menu.Tag(m.AppendJSON(nil))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		sums[i] = sums[i]*31 + digest
		var written int64
		err = s.session.Do(t.Context(), func(ctx context.Context, session *gocql.Session) error {
			return session.Query("SELECT writetime(body) FROM menus WHERE id = 1").ScanContext(ctx, &written)
		})
		if err != nil || written != rowTime {
			t.Errorf("a row was written at %d, want %d: %v", written, rowTime, err)
		}
	}
	if sums[0] != sums[1] {
		t.Error("the stores are not the same")
	}
}

// change changes a menu that came by a table.
func change(t *testing.T, s *Store) {
	t.Helper()
	m := menutest.Example(7, 3)
	page, created, err := s.Replace(t.Context(), &m, menu.Condition{Exists: true})
	if err != nil || created || page.Version != 2 {
		t.Errorf("got version %d, created %v, and %v, want version 2", page.Version, created, err)
	}
	menutest.Want(t, s, &m, 2)
}

// What stops a filling with sorted tables is said, and it goes on without them.
func noTables(t *testing.T, n *node) {
	t.Helper()
	source := menutest.Generator(t, 3, 20)
	fill := func(place, want string) {
		t.Helper()
		s, err := openPlace(t.Context(), place)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if _, err = s.Fill(t.Context(), source, nil); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	address, dir := n.address(""), t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	fill(tablesPlace(address, file, n.Home), "make sorted tables")
	fill(tablesPlace(address, dir, t.TempDir()), "the program that writes sorted tables ended")
	fill(address, "")
	fill(tablesPlace(address, dir, n.Home), "") // there is nothing left to do

	begun := n.address("")
	ctx, cancel := context.WithCancel(t.Context())
	broken := menutest.Source{Of: source.Meta(), Menus: func(context.Context, func(menu.Menu, error) bool) { cancel() }}
	if _, err := open(t, begun).Fill(ctx, broken, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it was cancelled", err)
	}
	fill(tablesPlace(begun, dir, n.Home), "go on without sorted tables")
	fill(begun, "")
}

// Every node of three has every menu, though each was written once.
func TestSortedTablesOnThreeNodes(t *testing.T) {
	servertest.Large(t)
	cfg := servertest.CassandraConfig{CommitLog: "commitlog_sync: batch", JMX: true}
	var ring []*servertest.CassandraNode
	var hosts []string
	for range 3 {
		ring = append(ring, servertest.Cassandra(t, cfg))
		cfg.Seed = ring[0].Host
		hosts = append(hosts, ring[len(ring)-1].Host)
	}
	address, dir := "cassandra:"+strings.Join(hosts, ",")+"/", t.TempDir()
	few, err := openPlace(t.Context(), tablesPlace(address+"few?replication=2", dir, ring[0].Home))
	if err != nil {
		t.Fatal(err)
	}
	defer few.Close()
	if _, err := few.Fill(t.Context(), menutest.Generator(t, 1, 20), nil); err == nil || !strings.Contains(err.Error(), "there are 3 nodes and 2 replicas") {
		t.Errorf("two replicas: got %v", err)
	}
	place := tablesPlace(address+"menus?replication=3", dir, ring[0].Home)
	killedFilling(t, place)
	ring[1].Kill()
	ring[2].Kill()
	one, err := openPlace(t.Context(), "cassandra:"+hosts[0]+"/menus?replication=3&consistency=one")
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	all, err := one.list(t.Context())
	for range 20 { // it asks the others until it has noticed that they are gone
		if err == nil {
			break
		}
		all, err = one.list(t.Context())
	}
	if err != nil || len(all.ids) != threeMenus {
		t.Errorf("one node alone has %d menus, and %v", len(all.ids), err)
	}
}
