package menutest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"loadstone/block/dataset"
	"loadstone/system/menu"
)

// choosesIDs creates with ids of the store's choice beside others that are given.
func choosesIDs(t *testing.T, open Open) {
	t.Helper()
	db := opened(t, open)
	for _, id := range []int64{1, 2, 3, 5, 8, dataset.MaxID} {
		put(t, db, Example(id, 0))
	}
	const writers, each = 6, 15
	var mu sync.Mutex
	made := map[int64]menu.Menu{}
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				m := Example(0, int64(w*each+i))
				if w == 0 { // in the way of the others
					m.ID = int64(10 + i)
				}
				given := m.ID
				page, err := db.Create(t.Context(), &m)
				if given != 0 && errors.Is(err, menu.ErrExists) {
					continue
				}
				if err != nil || m.ID < 1 || m.ID > dataset.MaxID || (given != 0 && m.ID != given) {
					t.Errorf("create %d: got id %d and %v", given, m.ID, err)
					return
				}
				wantPage(t, page, &m, 1)
				mu.Lock()
				if _, twice := made[m.ID]; twice {
					t.Errorf("id %d was chosen twice", m.ID)
				}
				made[m.ID] = m
				mu.Unlock()
			}
		})
	}
	all.Wait()
	for _, m := range made {
		Want(t, db, &m, 1)
	}
	for _, id := range []int64{1, 2, 3, 5, 8, dataset.MaxID} {
		m := Example(id, 0)
		Want(t, db, &m, 1)
	}
}

// together runs n functions at once and returns those without an error; each other has
// the error want.
func together(t *testing.T, n int, want error, do func(i int) error) (won []int) {
	t.Helper()
	results := make([]error, n)
	start := make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { <-start; results[i] = do(i) })
	}
	close(start)
	all.Wait()
	for i, err := range results {
		if err == nil {
			won = append(won, i)
		} else {
			wantError(t, "who did not win", err, want)
		}
	}
	return won
}

func oneWins(t *testing.T, open Open) {
	t.Helper()
	db := opened(t, open)
	page := put(t, db, Example(1, 0))
	const writers = 8
	for round := range int64(10) {
		only := menu.Condition{HasTag: true, Tag: page.Tag}
		won := together(t, writers, menu.ErrChanged, func(i int) error {
			m := Example(1, 1+round*writers+int64(i))
			_, _, err := db.Replace(t.Context(), &m, only)
			return err
		})
		if len(won) != 1 {
			t.Fatalf("%d writers with the same tag won, want 1", len(won))
		}
		m := Example(1, 1+round*writers+int64(won[0]))
		Want(t, db, &m, round+2)
		page.Tag = menu.Tag(m.AppendJSON(nil))
	}
	won := together(t, writers, menu.ErrNotFound, func(int) error {
		_, err := db.Delete(t.Context(), 1, menu.Condition{})
		return err
	})
	if len(won) != 1 {
		t.Errorf("%d deleted the same menu, want 1", len(won))
	}
	wantGone(t, db, 1, 12)
}

func oneCreates(t *testing.T, open Open) {
	t.Helper()
	db := opened(t, open)
	const writers = 8
	for round := range int64(5) {
		id := round + 1
		won := together(t, writers, menu.ErrExists, func(i int) error {
			m := Example(id, int64(i))
			_, err := db.Create(t.Context(), &m)
			return err
		})
		if len(won) != 1 {
			t.Fatalf("%d created the same menu, want 1", len(won))
		}
		m := Example(id, int64(won[0]))
		Want(t, db, &m, 1)
	}
}

// turns has writers replace and delete one menu without conditions: each version is given
// once, and each finds at least its own.
func turns(t *testing.T, open Open) {
	t.Helper()
	db := opened(t, open)
	const writers, each = 6, 20
	var writes atomic.Int64
	var versions sync.Map
	taken := func(version int64) {
		writes.Add(1)
		if _, twice := versions.LoadOrStore(version, true); twice {
			t.Errorf("version %d was given twice", version)
		}
		page, err := db.Lookup(t.Context(), 1)
		if (err != nil && !errors.Is(err, menu.ErrNotFound)) || page.Version < version {
			t.Errorf("after version %d was written: got version %d and %v", version, page.Version, err)
		}
	}
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				m := Example(1, int64(w*each+i))
				if w == 0 {
					version, err := db.Delete(t.Context(), 1, menu.Condition{})
					if err == nil {
						taken(version)
					} else {
						wantError(t, "delete", err, menu.ErrNotFound)
					}
					continue
				}
				page, _, err := db.Replace(t.Context(), &m, menu.Condition{})
				if err != nil {
					t.Errorf("replace: %v", err)
					return
				}
				taken(page.Version)
			}
		})
	}
	all.Wait()
	last := Example(1, 0)
	if page := put(t, db, last); page.Version != writes.Load()+1 {
		t.Errorf("after %d writes: got version %d", writes.Load(), page.Version)
	}
}

// oneMoment reads all menus while a writer goes on. It writes the first menu, the last
// and a new one between them in turn, so that no moment has another difference than 0 or 1.
func oneMoment(t *testing.T, open Open) {
	t.Helper()
	const first, between, last = 1, 1000, 1_000_000
	db := opened(t, open)
	step := func(id, n int64) { put(t, db, Example(id, n*5)) } // never a link
	step(first, 0)
	step(last, 0)
	for id := range int64(500) {
		step(first+1+id, 0)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	rounds := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		defer close(rounds)
		for n := int64(1); ctx.Err() == nil && !t.Failed(); n++ {
			m := Example(first, n*5)
			_, _, err := db.Replace(ctx, &m, menu.Condition{})
			if m = Example(between+n, n*5); err == nil {
				_, err = db.Create(ctx, &m)
			}
			if m = Example(last, n*5); err == nil {
				_, _, err = db.Replace(ctx, &m, menu.Condition{})
			}
			if err != nil && ctx.Err() == nil {
				t.Errorf("write: %v", err)
			}
			select {
			case rounds <- struct{}{}:
			case <-ctx.Done():
			}
		}
	})
	defer writer.Wait()
	defer cancel()
	for range 5 {
		moment(ctx, t, db, rounds)
	}
}

// moment checks one reading, during which the writer goes on.
func moment(ctx context.Context, t *testing.T, db menu.Database, rounds <-chan struct{}) {
	t.Helper()
	source, err := db.Menus(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var steps []int64 // of the first, the new ones, and the last
	seen := 0
	err = dataset.Each(ctx, source, nil, func(m *menu.Menu) error {
		if seen++; seen == 1 {
			for range 3 { // by now the writer is elsewhere
				<-rounds
			}
		}
		if m.ID == 1 || m.ID >= 1000 {
			steps = append(steps, stepOf(m)/5)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("menus: %v", err)
	}
	begin, end := steps[0], steps[len(steps)-1]
	if news := int64(len(steps) - 2); begin < news || news < end || begin > end+1 {
		t.Errorf("got the first menu of round %d, %d new ones, and the last menu of round %d: no moment had these", begin, news, end)
	}
}

// closesBusy closes a store under readers and writers: each gets an answer, and what was
// acknowledged stays.
func closesBusy(t *testing.T, open Open) {
	t.Helper()
	db, err := open()
	if err != nil {
		t.Fatal(err)
	}
	put(t, db, Example(1, 1))
	var acknowledged [4]int64
	var busy, begun sync.WaitGroup
	for w := range acknowledged {
		begun.Add(1)
		busy.Go(func() {
			started := sync.OnceFunc(begun.Done)
			defer started()
			for n := int64(1); ; n++ {
				m := Example(int64(10+w), n)
				_, _, err := db.Replace(t.Context(), &m, menu.Condition{})
				if err == nil {
					acknowledged[w] = n
					_, err = db.Lookup(t.Context(), m.ID)
				}
				if err != nil {
					wantError(t, "while it closes", err, menu.ErrUnavailable)
					return
				}
				started()
			}
		})
		busy.Go(func() {
			begun.Wait()
			source, err := db.Menus(t.Context())
			for err == nil {
				for _, next := range source.All(t.Context()) {
					err = next
				}
			}
			wantError(t, "menus while it closes", err, menu.ErrUnavailable)
		})
	}
	begun.Wait()
	if err := db.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	busy.Wait()
	again := opened(t, open)
	for w, n := range acknowledged {
		page, err := again.Lookup(t.Context(), int64(10+w))
		if err != nil || page.Version < n {
			t.Errorf("menu %d: got version %d and %v, want at least the acknowledged %d", 10+w, page.Version, err, n)
		}
	}
}
