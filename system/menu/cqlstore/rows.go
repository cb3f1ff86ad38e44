package cqlstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"loadstone/block/dataset"
	"loadstone/system/menu"
)

// row is a menu's; version 0 if it was never there, and body nil if it is not now.
type row struct {
	version, tag int64
	body         []byte
}

func (s *Store) row(ctx context.Context, session *gocql.Session, id int64) (r row, err error) {
	err = session.Query("SELECT version, tag, body FROM menus WHERE id = ?", id).
		Consistency(s.read).Idempotent(true).ScanContext(ctx, &r.version, &r.tag, &r.body)
	if errors.Is(err, gocql.ErrNotFound) {
		return row{}, nil
	}
	return r, err
}

// Lookup implements menu.Store.
func (s *Store) Lookup(ctx context.Context, id int64) (menu.Page, error) {
	var r row
	err := s.do(ctx, func(ctx context.Context, session *gocql.Session) (err error) {
		r, err = s.row(ctx, session, id)
		return err
	})
	switch {
	case err != nil:
		return menu.Page{}, fmt.Errorf("look up menu %d in %s: %w", id, s.cfg.name(), s.classify(ctx, err))
	case r.body == nil:
		return menu.Page{Version: r.version}, menu.ErrNotFound
	}
	return menu.Page{Body: r.body, Tag: uint64(r.tag), Version: r.version}, nil
}

// turn has the writers of this process to one menu wait for each other, and for those of a
// sixty-fourth of the others: a transaction of several at once costs each of them many.
func (s *Store) turn(ctx context.Context, id int64) (end func(), err error) {
	turn := s.turns[uint64(id)%uint64(len(s.turns))]
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// change does a write where holds says so of the row that it finds; body nil deletes. It
// returns the row as it was, and the version that it set, 0 if that did not hold.
func (s *Store) change(ctx context.Context, id int64, body []byte, holds func(row) bool) (before row, version int64, err error) {
	if err := menu.CheckEditor(menu.Editor(ctx)); err != nil {
		return row{}, 0, err
	}
	err = s.session.Do(ctx, func(ctx context.Context, session *gocql.Session) error {
		end, err := s.turn(ctx, id)
		if err != nil {
			return err
		}
		defer end()
		if err := s.claim(ctx, session); err != nil {
			return err
		}
		return again(ctx, func() (done bool, err error) {
			found, err := s.revision(ctx, session, id)
			if before = found.row; err != nil || !holds(before) {
				return true, err
			}
			done, err = s.attempt(ctx, session, found, body)
			if done {
				version = before.version + 1
			}
			return done, err
		})
	})
	return before, version, s.classify(ctx, err)
}

// swap does a lightweight transaction. It is not tried again when nobody answered: it may
// have taken place.
func (s *Store) swap(ctx context.Context, session *gocql.Session, statement string, values ...any) (applied bool, err error) {
	return session.Query(statement, values...).Consistency(s.write).SerialConsistency(gocql.Serial).MapScanCASContext(ctx, map[string]any{})
}

// orNull is how a transaction says that there is no row yet.
func orNull(version int64) any {
	if version == 0 {
		return nil
	}
	return version
}

// maxPause bounds the pause after a lost race: some transactions' time.
const maxPause = 64 * time.Millisecond

// again calls do until it is done, with pauses that grow, or ctx ends.
func again(ctx context.Context, do func() (done bool, err error)) error {
	for pause := time.Millisecond; ; pause = min(2*pause, maxPause) {
		if done, err := do(); done || err != nil {
			return err
		}
		select {
		case <-time.After(rand.N(pause)):
		case <-ctx.Done():
			return fmt.Errorf("others write to the same row all the time: %w", ctx.Err())
		}
	}
}

// claim marks a store whose first menus are written one by one, so that nobody fills it.
func (s *Store) claim(ctx context.Context, session *gocql.Session) error {
	if f, err := s.holds(ctx, session); f != nil || err != nil {
		return err
	}
	_, err := s.swap(ctx, session, "INSERT INTO data_set (one, origin, fingerprint, menus, largest_id, complete) VALUES (1, ?, '', 0, 0, true) IF NOT EXISTS",
		"menus that were written one by one")
	if err != nil {
		return err
	}
	if f, err := s.holds(ctx, session); f != nil || err != nil {
		return err
	}
	return fmt.Errorf("%w: a replica does not know yet what it holds", menu.ErrUnavailable)
}

func (s *Store) put(ctx context.Context, m *menu.Menu, holds func(row) bool) (menu.Page, row, error) {
	body := m.AppendJSON(nil)
	before, version, err := s.change(ctx, m.ID, body, holds)
	return menu.Page{Body: body, Tag: menu.Tag(body), Version: version}, before, err
}

func meets(only menu.Condition) func(row) bool {
	return func(r row) bool { return only.Holds(uint64(r.tag), r.body != nil) }
}

// Create implements menu.Database.
func (s *Store) Create(ctx context.Context, m *menu.Menu) (menu.Page, error) {
	page, err := menu.CreateChoosing(ctx, m, s.choose, func(ctx context.Context, m *menu.Menu, fresh bool) (menu.Page, error) {
		page, _, err := s.put(ctx, m, func(r row) bool { return r.body == nil && (!fresh || r.version == 0) })
		return page, err
	})
	if err != nil {
		return menu.Page{}, fmt.Errorf("%s: %w", s.cfg.name(), err)
	}
	return page, nil
}

// Replace implements menu.Database.
func (s *Store) Replace(ctx context.Context, m *menu.Menu, only menu.Condition) (page menu.Page, created bool, err error) {
	page, before, err := s.put(ctx, m, meets(only))
	if err != nil {
		return menu.Page{}, false, fmt.Errorf("replace menu %d in %s: %w", m.ID, s.cfg.name(), err)
	}
	if page.Version == 0 {
		return menu.Page{}, false, menu.ErrChanged
	}
	return page, before.body == nil, nil
}

// Delete implements menu.Database.
func (s *Store) Delete(ctx context.Context, id int64, only menu.Condition) (version int64, err error) {
	before, version, err := s.change(ctx, id, nil, func(r row) bool { return r.body != nil && meets(only)(r) })
	switch {
	case err != nil:
		return 0, fmt.Errorf("delete menu %d in %s: %w", id, s.cfg.name(), err)
	case before.body == nil:
		return 0, menu.ErrNotFound
	case version == 0:
		return 0, menu.ErrChanged
	}
	return version, nil
}

// ids are some that this process alone chooses from, counted from 0. Turn is held by who
// takes one.
type ids struct {
	turn      chan struct{}
	next, end int64
}

// idBlock is how many ids a process takes at a time: a transaction for each thousand
// menus. What it has left when it ends is not used.
const idBlock = 1000

// choose takes an id beyond those that the store was filled with. The choices after the
// first, which found theirs taken, leave out more and more: twice as many each time, so that
// they reach beyond all ids.
func (s *Store) choose(ctx context.Context, choice int) (id int64, err error) {
	select {
	case s.ids.turn <- struct{}{}:
		defer func() { <-s.ids.turn }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	err = s.session.Do(ctx, func(ctx context.Context, session *gocql.Session) error {
		if err := s.claim(ctx, session); err != nil {
			return err
		}
		if choice > 0 || s.ids.next == s.ids.end {
			end, err := s.reserve(ctx, session, idBlock<<choice)
			if err != nil {
				return err
			}
			s.ids.next, s.ids.end = end-idBlock, end
		}
		id = (s.whole.Load().largest+s.ids.next)%dataset.MaxID + 1 // it is there since claim
		s.ids.next++
		return nil
	})
	return id, s.classify(ctx, err)
}

// reserve moves the counter by n, and returns where it is then.
func (s *Store) reserve(ctx context.Context, session *gocql.Session, n int64) (end int64, err error) {
	err = again(ctx, func() (done bool, err error) {
		var next int64
		err = session.Query("SELECT next FROM counters WHERE name = 'ids'").Consistency(s.read).Idempotent(true).ScanContext(ctx, &next)
		if err != nil && !errors.Is(err, gocql.ErrNotFound) {
			return false, err
		}
		end = (next + n) % dataset.MaxID
		return s.swap(ctx, session, "UPDATE counters SET next = ? WHERE name = 'ids' IF next = ?", end, orNull(next))
	})
	return end, err
}
