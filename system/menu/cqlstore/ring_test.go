package cqlstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"loadstone/block/servertest"
	"loadstone/system/menu"
	"loadstone/system/menu/menutest"
)

// Menus that are filled in and only read, and those that are written, by one writer each.
const (
	ringMenus   = 300
	ringWriters = 4
)

// service is what a ring does for writers and readers, who go on until they are told to end.
type service struct {
	written, read atomic.Int64 // acknowledged and answered

	end context.CancelFunc
	all sync.WaitGroup

	mu sync.Mutex
	// editors are those of the versions that were acknowledged, by menu and version.
	editors map[int64]map[int64]string
	refused int     // writes that nobody confirmed
	failed  []error // reads
}

func serve(t *testing.T, source *menu.Generator, quorum, one *Store) *service {
	t.Helper()
	ctx, end := context.WithCancel(context.Background())
	s := &service{end: end, editors: map[int64]map[int64]string{}}
	for w := range int64(ringWriters) {
		id := ringMenus + 1 + w
		s.editors[id] = map[int64]string{}
		s.all.Go(func() {
			for step := int64(0); ctx.Err() == nil; step++ {
				s.write(ctx, quorum, id, step)
			}
		})
	}
	for _, store := range []*Store{quorum, one} {
		s.all.Go(func() {
			for ctx.Err() == nil {
				s.lookup(ctx, store, source.Menu(1+rand.Int64N(ringMenus)))
			}
		})
	}
	t.Cleanup(s.finish)
	return s
}

func (s *service) finish() {
	s.end()
	s.all.Wait()
}

// write writes a menu once. If nobody confirms it, it may have been written or not.
func (s *service) write(ctx context.Context, store *Store, id, step int64) {
	editor, m := fmt.Sprintf("step %d", step), menutest.Example(id, step)
	page, _, err := store.Replace(menu.WithEditor(ctx, editor), &m, menu.Condition{})
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.refused++
		return
	}
	s.editors[id][page.Version] = editor
	s.written.Add(1)
}

func (s *service) lookup(ctx context.Context, store *Store, want menu.Menu) {
	page, err := store.Lookup(ctx, want.ID)
	if ctx.Err() != nil {
		return
	}
	if err == nil && string(page.Body) != string(want.AppendJSON(nil)) {
		err = fmt.Errorf("menu %d is %s", want.ID, page.Body)
	}
	s.read.Add(1)
	if err != nil {
		s.mu.Lock()
		s.failed = append(s.failed, err)
		s.mu.Unlock()
	}
}

// more waits until so many more were written, and read.
func (s *service) more(t *testing.T, n int64) {
	t.Helper()
	written, read := s.written.Load(), s.read.Load()
	for deadline := time.Now().Add(3 * time.Minute); s.written.Load() < written+n || s.read.Load() < read+n; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d were written and %d read, want %d", s.written.Load()-written, s.read.Load()-read, n)
		}
	}
}

// lost looks for every version that was acknowledged, in the menus' log and at last among
// the menus.
func (s *service) lost(t *testing.T, store *Store) (lost []string) {
	t.Helper()
	ahead(store)
	for id, editors := range s.editors {
		changes := wantWhole(t, store, id)
		for version, editor := range editors {
			if version > int64(len(changes)) || changes[version-1].Editor != editor {
				lost = append(lost, fmt.Sprintf("version %d of menu %d, %s", version, id, editor))
			}
		}
		page := answered(t, func() (menu.Page, error) { return store.Lookup(t.Context(), id) })
		if page.Version != int64(len(changes)) {
			t.Errorf("menu %d: got version %d, the log has %d", id, page.Version, len(changes))
		}
	}
	return lost
}

// Three nodes have each menu. Whichever of them is gone, menus are read and written with
// QUORUM, and read with ONE; when it is back, it and one other have all that was accepted.
func TestRingOfThree(t *testing.T) {
	servertest.Large(t)
	ring := servertest.CassandraRing(t, 3, servertest.CassandraConfig{
		CommitLog: "commitlog_sync: batch",
		Settings:  "read_request_timeout: 8s\nwrite_request_timeout: 8s\ncas_contention_timeout: 8s", // the machine may be busy
	})
	address := fmt.Sprintf("cassandra:%s,%s,%s/menus?replication=3", ring[0].Host, ring[1].Host, ring[2].Host)
	quorum, one := open(t, address), open(t, address+"&consistency=one")
	source := menutest.Generator(t, 1, ringMenus)
	if _, err := one.Fill(t.Context(), source, nil); err != nil { // on all nodes
		t.Fatal(err)
	}

	s := serve(t, source, quorum, one)
	s.more(t, 100)
	ring[2].Kill()
	s.more(t, 200)
	m := menutest.Example(1, 1)
	if _, _, err := one.Replace(t.Context(), &m, menu.Condition{}); !errors.Is(err, menu.ErrUnavailable) {
		t.Errorf("a write that one of three cannot take, read with ONE: got %v, want ErrUnavailable", err)
	}
	ring[2].Start()
	s.more(t, 100)
	s.finish()
	t.Logf("%d written and %d read; nobody confirmed %d writes", s.written.Load(), s.read.Load(), s.refused)
	if len(s.failed) > 0 {
		t.Errorf("%d of %d reads failed, such as: %v", len(s.failed), s.read.Load(), s.failed[0])
	}

	ring[1].Kill() // each row is read from the one that was gone
	if lost := s.lost(t, quorum); len(lost) > 0 {
		t.Errorf("%d versions were accepted and are lost, such as %s", len(lost), lost[0])
	}
	s.editors[ringMenus+1][1<<40] = "never accepted"
	if lost := s.lost(t, quorum); len(lost) != 1 {
		t.Errorf("lost are %v, want what was never accepted: nobody would notice a loss", lost)
	}
	ring[2].Kill()
	if _, err := quorum.Lookup(t.Context(), 2); !errors.Is(err, menu.ErrUnavailable) {
		t.Errorf("QUORUM of one: got %v, want ErrUnavailable", err)
	}
	for id := range int64(20) {
		m := source.Menu(2 + id)
		menutest.Want(t, one, &m, 1)
	}
}
