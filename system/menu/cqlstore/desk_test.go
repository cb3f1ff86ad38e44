package cqlstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"golang.org/x/sync/errgroup"

	"loadstone/block/cql"
	"loadstone/system/menu"
	"loadstone/system/menu/menutest"
)

// deskParts are the checks of what is special to this store: each has menus of its own, a
// store that writes, and one whose readers of the log are ahead.
func deskParts(t *testing.T, n *node) {
	t.Helper()
	address := n.address("")
	s, r := openForLong(t, address), openForLong(t, address)
	ahead(r)
	for name, check := range map[string]func(t *testing.T, s, r *Store){
		"a writer that stops leaves nothing": stopped,
		"who loses a race is not in the log": loser,
		"of availabilities as well":          stoppedOverlay,
		"the log bears clocks that differ":   clocks,
		"old revisions go":                   pruned,
		"several processes race":             races,
	} {
		t.Run(name, func(t *testing.T) { check(t, s, r) })
	}
}

// openForLong opens a store for what reads the whole log within one request.
func openForLong(t *testing.T, address string) *Store {
	t.Helper()
	return openWith(t, address, func(cfg *Config) { cfg.RequestTimeout = 5 * time.Minute })
}

// ahead has a store read what its clock would hold back still.
func ahead(s *Store) { s.now = func() time.Time { return time.Now().Add(held + time.Second) } }

// answered asks until the store answers: the nodes of a ring take a while to find out which
// of them is gone.
func answered[T any](t *testing.T, ask func() (T, error)) T {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		got, err := ask()
		if err == nil {
			return got
		}
		if !errors.Is(err, menu.ErrUnavailable) || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// log reads the whole log of a store from either end, so many changes at a time.
func log(t *testing.T, s *Store, step int) []menu.Change {
	t.Helper()
	var all []menu.Change
	for after := menu.Cursor(""); ; after = all[len(all)-1].Cursor {
		next := answered(t, func() ([]menu.Change, error) { return s.Changes(t.Context(), after, step) })
		if all = append(all, next...); len(next) < step {
			break
		}
	}
	before, left := menu.Cursor(""), len(all)
	for left > 0 {
		last := answered(t, func() ([]menu.Change, error) { return s.LastChanges(t.Context(), before, step) })
		if len(last) == 0 {
			t.Fatalf("got none with %d changes left", left)
		}
		for _, c := range last {
			if left--; left < 0 || c != all[left] {
				t.Fatalf("backwards: got %+v, want the %d. of %+v", c, left, all)
			}
			before = c.Cursor
		}
	}
	return all
}

// wantLog compares what versions the log has of a menu, in its order.
func wantLog(t *testing.T, s *Store, id int64, want ...int64) {
	t.Helper()
	var got []int64
	for _, c := range log(t, s, 3) {
		if c.ID == id {
			got = append(got, c.Version)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("menu %d: the log has the versions %v, want %v", id, got, want)
	}
}

func put(t *testing.T, s *Store, id, step int64) int64 {
	t.Helper()
	m := menutest.Example(id, step)
	page, _, err := s.Replace(t.Context(), &m, menu.Condition{})
	if err != nil {
		t.Fatal(err)
	}
	return page.Version
}

// inSession does what a write does in parts.
func inSession(t *testing.T, s *Store, do func(ctx context.Context, session *gocql.Session) error) {
	t.Helper()
	if err := s.session.Do(t.Context(), do); err != nil {
		t.Fatal(err)
	}
}

// A writer that stops, for good or for a while, between its announcement and the swap.
func stopped(t *testing.T, s, r *Store) {
	t.Helper()
	for _, id := range []int64{1, 2} { // without a menu, and with one
		if id == 2 {
			put(t, s, id, 1)
		}
		var have []int64
		for range 2 { // the second finds a row with a fence
			inSession(t, s, func(ctx context.Context, session *gocql.Session) error {
				found, err := s.revision(ctx, session, id)
				if err != nil {
					return err
				}
				e, err := s.announce(ctx, session, found, []byte("{}"))
				if err != nil {
					return err
				}
				if id == 2 && have == nil {
					have = []int64{1}
				}
				wantLog(t, r, id, have...)
				wantLog(t, r, id, have...)
				if took, err := s.take(ctx, session, found, e, []byte("{}")); took || err != nil {
					t.Errorf("menu %d: a write that readers of the log have passed by took place: %v, %v", id, took, err)
				}
				return nil
			})
			have = append(have, put(t, s, id, 2))
			wantLog(t, r, id, have...)
		}
	}
	if got := entries(t, s, 1, 2); got != 5 {
		t.Errorf("the log has %d entries, want those of 5 writes", got)
	}
}

// A writer of an availability that stops between its announcement and the swap, where there is
// none, and where there is one.
func stoppedOverlay(t *testing.T, s, r *Store) {
	t.Helper()
	const id = 31
	var said []string
	want := func() {
		t.Helper()
		var got []string
		for _, c := range log(t, r, 3) {
			if c.ID == id && c.Availability {
				got = append(got, c.Editor)
			}
		}
		if !slices.Equal(got, said) {
			t.Errorf("the log has changes by %q, want %q", got, said)
		}
	}
	for _, editor := range []string{"ada", "bob", "eve"} {
		inSession(t, s, func(ctx context.Context, session *gocql.Session) error {
			before, err := s.document(ctx, session, menu.Availability, id)
			if err != nil {
				return err
			}
			next := menu.Document{Kind: menu.Availability, ID: id, Editor: "late", Body: []byte("late")}
			e := entry{mark: newMark(s.now(), before.mark), id: id, editor: next.Editor, overlay: true}
			group, within := errgroup.WithContext(ctx)
			s.enter(within, group, session, e, before.mark)
			if err := group.Wait(); err != nil {
				return err
			}
			want()
			if took, err := s.takeOverlay(ctx, session, before, &next, e); took || err != nil {
				t.Errorf("a change that readers of the log have passed by took place: %v, %v", took, err)
			}
			return nil
		})
		d := menu.Document{Kind: menu.Availability, ID: id, Editor: editor, Body: []byte(editor)}
		if editor == "bob" {
			d.Body = nil
		}
		if err := s.SetDocument(t.Context(), &d, menu.Condition{}); err != nil {
			t.Fatal(err)
		}
		said = append(said, editor)
	}
	want()
	if got := entries(t, s, id); got != len(said) {
		t.Errorf("the log has %d entries, want %d", got, len(said))
	}
}

// entries counts all, also those of writes that did not take place.
func entries(t *testing.T, s *Store, ids ...int64) (n int) {
	t.Helper()
	inSession(t, s, func(ctx context.Context, session *gocql.Session) error {
		return session.Query("SELECT count(*) FROM changes WHERE id IN ? ALLOW FILTERING", ids).ScanContext(ctx, &n)
	})
	return n
}

// Two writers announce the same version; the one who loses is killed then.
func loser(t *testing.T, s, r *Store) {
	t.Helper()
	put(t, s, 3, 0)
	lose := func() {
		inSession(t, s, func(ctx context.Context, session *gocql.Session) error {
			found, err := s.revision(ctx, session, 3)
			if err != nil {
				return err
			}
			e, err := s.announce(menu.WithEditor(ctx, "loser"), session, found, nil)
			put(t, s, 3, 1)
			if took, err := s.take(ctx, session, found, e, nil); took || err != nil {
				t.Errorf("got %v and %v, want it refused", took, err)
			}
			return err
		})
	}
	lose()
	wantLog(t, r, 3, 1, 2) // the entry says version 2, as the row does
	lose()
	put(t, s, 3, 2)
	put(t, s, 3, 3)
	wantLog(t, r, 3, 1, 2, 3, 4, 5) // the row is two versions further
	for _, c := range log(t, r, 3) {
		if c.ID == 3 && c.Editor != menu.EditorAPI {
			t.Errorf("%+v did not take place", c)
		}
	}
	if got := entries(t, s, 3); got != 5 {
		t.Errorf("the log has %d entries, want 5", got)
	}
}

// Clocks that differ, stand still, jump, and have gone on for months.
func clocks(t *testing.T, s, r *Store) {
	t.Helper()
	defer func() { s.now = time.Now }()
	at := func(age time.Duration) { s.now = func() time.Time { return time.Now().Add(-age) } }
	const day = 24 * time.Hour
	for _, age := range []time.Duration{menu.KeptChanges + day, menu.KeptChanges - day, 3 * day, 2 * day, 0, time.Hour, maxSkew} {
		at(age)
		put(t, s, 4, 0)
	}
	wantLog(t, r, 4, 2, 3, 4, 5, 6, 7)
	slow := 3
	s.now = func() time.Time { // each announcement takes this long, three times
		if slow--; slow >= 0 {
			return time.Now().Add(-time.Duration(slow) * maxAnnouncing)
		}
		return time.Now()
	}
	put(t, s, 5, 0)
	wantLog(t, r, 5, 1)
	if got := entries(t, s, 4, 5); slow >= 0 || got != 8 {
		t.Errorf("the log has %d entries, want those of 8 writes", got)
	}
	revisions, err := s.Revisions(t.Context(), 4, 0, 1)
	if err != nil || len(revisions) != 1 || time.Since(revisions[0].At).Abs() > 30*time.Minute {
		t.Errorf("got %+v and %v", revisions, err)
	}
	at(time.Hour)
	wantLog(t, s, 4, 2, 3, 4) // what is not older than held may get something before it
}

// What is not kept goes.
func pruned(t *testing.T, s, _ *Store) {
	t.Helper()
	const writes = menu.KeptRevisions + 3*prunedEvery
	for step := range int64(writes) {
		put(t, s, 6, step)
	}
	var copies int
	inSession(t, s, func(ctx context.Context, session *gocql.Session) error {
		return session.Query("SELECT count(*) FROM revisions WHERE id = 6").ScanContext(ctx, &copies)
	})
	if copies >= menu.KeptRevisions+prunedEvery {
		t.Errorf("there are %d copies, want fewer than %d", copies, menu.KeptRevisions+prunedEvery)
	}
	revisions, err := s.Revisions(t.Context(), 6, 0, menu.MaxListed)
	if err != nil || len(revisions) != menu.KeptRevisions || revisions[menu.KeptRevisions-1].Version != writes-menu.KeptRevisions+1 {
		t.Errorf("got %d revisions and %v", len(revisions), err)
	}
}

// older is a keyspace as it was made before there were editors.
func older(t *testing.T, n *node) {
	t.Helper()
	address := n.address("")
	cfg, err := config(address)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Tables = []string{tables[0], strings.Replace(tables[slices.IndexFunc(tables, func(s string) bool { return strings.Contains(s, "data_set") })], "IF NOT EXISTS ", "", 1)}
	session, err := cql.Open(t.Context(), cfg.Config)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	m := menutest.Example(1, 1)
	body := m.AppendJSON(nil)
	if err := session.Do(t.Context(), func(ctx context.Context, session *gocql.Session) error {
		return errors.Join(
			session.Query("INSERT INTO menus (id, version, tag, body) VALUES (1, 4, ?, ?)", int64(menu.Tag(body)), body).ExecContext(ctx),
			session.Query("INSERT INTO data_set (one, origin, fingerprint, menus, largest_id, complete) VALUES (1, '', '', 0, 0, true)").ExecContext(ctx))
	}); err != nil {
		t.Fatal(err)
	}
	s := open(t, address)
	menutest.Want(t, s, &m, 4)
	put(t, s, 1, 2)
	revisions, err := s.Revisions(t.Context(), 1, 0, 9)
	if err != nil || len(revisions) != 2 || revisions[0].Editor != menu.EditorAPI || revisions[1].Version != 4 || string(revisions[1].Body) != string(body) || !revisions[1].At.IsZero() {
		t.Errorf("got %+v and %v", revisions, err)
	}
	ahead(s)
	wantLog(t, s, 1, 5)
}

// wantWhole looks whether the log and the revisions have each version of a menu, once and in order.
func wantWhole(t *testing.T, s *Store, id int64) []menu.Change {
	t.Helper()
	all := slices.DeleteFunc(log(t, s, menu.MaxListed), func(c menu.Change) bool { return c.ID != id })
	for i, c := range all {
		if c.Version != int64(i)+1 {
			t.Fatalf("menu %d: %+v is the %d. change", id, c, i+1)
		}
	}
	revisions := answered(t, func() ([]menu.Revision, error) { return s.Revisions(t.Context(), id, 0, menu.MaxListed) })
	if len(revisions) != min(len(all), menu.KeptRevisions) {
		t.Fatalf("menu %d: got %d revisions, the log has %d", id, len(revisions), len(all))
	}
	for i, got := range revisions {
		want := all[len(all)-1-i]
		if got.Cursor, want.Cursor = "", ""; got.Change != want {
			t.Errorf("got the revision %+v, and in the log %+v", got.Change, want)
		}
	}
	return all
}

// races has two more sessions, as two more processes would, write the same menus.
func races(t *testing.T, s, r *Store) {
	t.Helper()
	address := fmt.Sprintf("cassandra:%s/%s", s.cfg.Cluster.Hosts[0], s.cfg.Cluster.Keyspace)
	sessions := []*Store{s, openForLong(t, address), openForLong(t, address)}
	const each = 20
	var mu sync.Mutex
	editors := map[int64][]string{7: make([]string, each*len(sessions)), 8: make([]string, each*len(sessions))}
	var all sync.WaitGroup
	for i, s := range sessions {
		for id, by := range editors {
			all.Go(func() {
				editor := fmt.Sprintf("editor %d", i)
				for step := range int64(each) {
					m := menutest.Example(id, step)
					page, _, err := s.Replace(menu.WithEditor(t.Context(), editor), &m, menu.Condition{})
					if err != nil {
						t.Errorf("write: %v", err)
						return
					}
					mu.Lock()
					by[page.Version-1] = editor
					mu.Unlock()
				}
			})
		}
	}
	all.Wait()
	for id, by := range editors {
		changes := wantWhole(t, r, id)
		if len(changes) != each*len(sessions) {
			t.Errorf("menu %d: %d changes, want %d", id, len(changes), each*len(sessions))
		}
		for i, c := range changes {
			if c.Editor != by[i] {
				t.Errorf("%+v was written by %s", c, by[i])
			}
		}
	}
}
