package menutest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"loadstone/block/dataset"
	"loadstone/system/menu"
)

// The suite passes on a store in memory: what it asks for can be done.

type row struct {
	menu    menu.Menu
	page    menu.Page
	deleted bool
}

// place outlives the stores that are opened at it.
type place struct {
	mu     sync.Mutex
	rows   map[int64]row
	meta   dataset.Meta
	state  string // "", "filling", "full"
	writes int64
}

type memory struct {
	*place
	closed bool
}

func (m *memory) begin(ctx context.Context) error {
	m.mu.Lock()
	if m.closed {
		return menu.ErrUnavailable
	}
	if m.state == "filling" {
		return menu.ErrMissing
	}
	return ctx.Err()
}

func (m *memory) Lookup(ctx context.Context, id int64) (menu.Page, error) {
	defer m.mu.Unlock()
	if err := m.begin(ctx); err != nil {
		return menu.Page{}, err
	}
	r, ok := m.rows[id]
	if !ok || r.deleted {
		return menu.Page{Version: r.page.Version}, menu.ErrNotFound
	}
	return r.page, nil
}

func (m *memory) set(next menu.Menu) menu.Page {
	m.writes++
	body := next.AppendJSON(nil)
	parsed, _ := menu.ParseJSON(body)
	page := menu.Page{Body: body, Tag: menu.Tag(body), Version: m.rows[next.ID].page.Version + 1}
	m.rows[next.ID] = row{menu: parsed, page: page}
	return page
}

func (m *memory) exists(id int64) bool {
	r, ok := m.rows[id]
	return ok && !r.deleted
}

func (m *memory) Create(ctx context.Context, next *menu.Menu) (menu.Page, error) {
	defer m.mu.Unlock()
	if err := m.begin(ctx); err != nil {
		return menu.Page{}, err
	}
	for next.ID == 0 || (next.ID < 0 && m.exists(-next.ID)) {
		next.ID--
	}
	if next.ID < 0 {
		next.ID = -next.ID
	}
	if m.exists(next.ID) {
		return menu.Page{}, menu.ErrExists
	}
	return m.set(*next), nil
}

func (m *memory) Replace(ctx context.Context, next *menu.Menu, only menu.Condition) (menu.Page, bool, error) {
	defer m.mu.Unlock()
	if err := m.begin(ctx); err != nil {
		return menu.Page{}, false, err
	}
	exists := m.exists(next.ID)
	if !only.Holds(m.rows[next.ID].page.Tag, exists) {
		return menu.Page{}, false, menu.ErrChanged
	}
	return m.set(*next), !exists, nil
}

func (m *memory) Delete(ctx context.Context, id int64, only menu.Condition) (int64, error) {
	defer m.mu.Unlock()
	if err := m.begin(ctx); err != nil {
		return 0, err
	}
	r := m.rows[id]
	if !m.exists(id) {
		return 0, menu.ErrNotFound
	}
	if !only.Holds(r.page.Tag, true) {
		return 0, menu.ErrChanged
	}
	m.writes++
	m.rows[id] = row{page: menu.Page{Version: r.page.Version + 1}, deleted: true}
	return r.page.Version + 1, nil
}

func (m *memory) Menus(ctx context.Context) (dataset.Source[menu.Menu], error) {
	defer m.mu.Unlock()
	if err := m.begin(ctx); err != nil {
		return nil, err
	}
	var menus []menu.Menu
	for _, r := range m.rows {
		if !r.deleted {
			menus = append(menus, r.menu)
		}
	}
	slices.SortFunc(menus, func(a, b menu.Menu) int { return cmp.Compare(a.ID, b.ID) })
	meta := m.meta.Revised(m.writes, fmt.Sprint(m.writes, " writes"))
	meta.Count = int64(len(menus))
	return moments{m, meta, menus}, nil
}

type moments struct {
	of    *memory
	meta  dataset.Meta
	menus []menu.Menu
}

func (s moments) Meta() dataset.Meta { return s.meta }

func (s moments) All(ctx context.Context) iter.Seq2[menu.Menu, error] {
	return func(yield func(menu.Menu, error) bool) {
		err := s.of.begin(ctx)
		s.of.mu.Unlock()
		if err != nil {
			yield(menu.Menu{}, err)
			return
		}
		for _, next := range s.menus {
			if !yield(next, nil) {
				return
			}
		}
	}
}

func (m *memory) Ping(ctx context.Context) error {
	defer m.mu.Unlock()
	return m.begin(ctx)
}

func (m *memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}

func (m *memory) Fill(ctx context.Context, source dataset.Source[menu.Menu], progress dataset.Progress) (menu.Filled, error) {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return menu.Filled{}, menu.ErrUnavailable
	}
	meta := source.Meta()
	if m.state != "" && !m.meta.Same(meta) {
		m.mu.Unlock()
		return menu.Filled{}, menu.ErrOccupied
	}
	if m.state == "full" {
		m.mu.Unlock()
		return menu.Filled{Kept: true}, nil
	}
	resumed := int64(len(m.rows))
	m.state, m.meta = "filling", meta
	m.mu.Unlock()
	done := int64(0)
	err := dataset.Each(ctx, source, nil, func(next *menu.Menu) error {
		m.mu.Lock()
		defer m.mu.Unlock()
		if done++; !m.exists(next.ID) {
			m.set(*next)
		}
		if progress != nil {
			progress(done, meta.Count)
		}
		return ctx.Err()
	})
	if err != nil {
		return menu.Filled{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state, m.writes = "full", 0
	return menu.Filled{Resumed: resumed}, nil
}

func memories(*testing.T) func() (*memory, error) {
	p := &place{rows: map[int64]row{}}
	return func() (*memory, error) { return &memory{place: p}, nil }
}

func TestAStoreInMemoryPasses(t *testing.T) {
	t.Parallel()
	Database(t, Databases{Place: func(t *testing.T) Open {
		t.Helper()
		open := memories(t)
		return func() (menu.Database, error) { return open() }
	}})
	Filler(t, Fillers{Menus: 400, Resumes: true, Place: func(t *testing.T) Filled {
		t.Helper()
		open := memories(t)
		return Of(func(context.Context) (*memory, error) { return open() })
	}})
}

// A filling that fails is not held up by its source, which would wait for progress.
func TestCutWaitsNoLongerThanItIsRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		source := cut(Generator(t, 1, 10), 5, make(chan struct{}), func() { t.Error("it stopped without progress") })
		read, last := 0, make(chan error)
		go func() {
			var err error
			for _, err = range source.All(ctx) {
				read++
			}
			last <- err
		}()
		synctest.Wait() // until it waits, too
		cancel()
		if err := <-last; read != 5 || !errors.Is(err, context.Canceled) {
			t.Errorf("got %d menus and %v, want an end by the context at the fifth", read, err)
		}
	})
}
