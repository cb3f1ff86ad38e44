package cqlstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"golang.org/x/sync/errgroup"

	"loadstone/system/menu"
)

// The log of changes has no transaction with the menus, so every write announces itself:
// before it swaps version n of a row for n+1, it inserts an entry with a mark of its own,
// which the row then gets as well. Who reads the log gives the entries whose mark a row has:
//
//   - the row has the entry's version: it took place if the row has its mark
//   - the row is newer: it took place if it is confirmed; who makes a version confirms the
//     one before it first
//   - the row is older: the write was refused, or killed, or goes on. The reader sets the
//     row's fence, which each writer compares as it compares the version: now it cannot take
//     place any more, however late it comes, and its entry is removed
//
// An availability has no version: there the order of the marks, of which each is above the one
// that it takes the place of, says which of two is newer. Its row stays when it is removed.
//
// The order of marks is that of the writers' clocks, and in one menu that of the versions.
// What is younger than held is not given yet: somebody may insert an older one. For that the
// clocks of all who write must agree with the reader's to maxSkew. One that is further ahead
// has its changes appear later; of one that is further behind, a reader may miss some.
const (
	// maxAnnouncing is how old an entry may be when its insertion is acknowledged, above
	// the time that a write has; else it is withdrawn, and the write begins anew.
	maxAnnouncing = 4 * time.Second
	maxSkew       = 4 * time.Second
	held          = maxAnnouncing + maxSkew
)

// A day has a partition. Rows of one age lie in files of their own, which end with them.
var changesTable = fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %%s.changes (
		day int, mark blob, id bigint, version bigint, editor text, deleted boolean, confirmed boolean, PRIMARY KEY (day, mark))
	WITH default_time_to_live = %d AND compaction = {
		'class': 'TimeWindowCompactionStrategy', 'compaction_window_unit': 'DAYS', 'compaction_window_size': 3}`,
	int(menu.KeptChanges/time.Second))

// A mark identifies an attempt to write: nanoseconds since 1970, then as many bytes at
// random. Nil is that of what a filling brought.
const markBytes = 16

// firstMark is before all of the moment.
func firstMark(at time.Time) []byte {
	return binary.BigEndian.AppendUint64(make([]byte, 0, markBytes), uint64(at.UnixNano()))[:markBytes]
}

// newMark returns one of a time, or of the moment after another.
func newMark(at time.Time, after []byte) []byte {
	if after != nil && !at.After(markTime(after)) {
		at = markTime(after).Add(1)
	}
	mark := firstMark(at)
	binary.BigEndian.PutUint64(mark[markBytes/2:], rand.Uint64())
	return mark
}

func markTime(mark []byte) time.Time { return time.Unix(0, int64(binary.BigEndian.Uint64(mark))) }

func cursor(mark []byte) menu.Cursor { return menu.Cursor(hex.EncodeToString(mark)) }

// changedAt is the time that people are told.
func changedAt(mark []byte) time.Time {
	if mark == nil {
		return time.Time{}
	}
	return markTime(mark).UTC().Truncate(time.Millisecond)
}

const dayNanos = uint64(24 * time.Hour)

func markDay(mark []byte) int { return int(binary.BigEndian.Uint64(mark) / dayNanos) }

// entry is one of the log.
type entry struct {
	mark        []byte
	id, version int64
	editor      string
	deleted     bool
	overlay     bool // it is of the availability of the menu
	confirmed   bool
}

// attempt swaps the row that was found for its next version, unless somebody else has.
func (s *Store) attempt(ctx context.Context, session *gocql.Session, found revision, body []byte) (done bool, err error) {
	began := s.now()
	e, err := s.announce(ctx, session, found, body)
	if err != nil {
		return false, err
	}
	return s.within(ctx, session, began, e, func() (bool, error) { return s.take(ctx, session, found, e, body) })
}

// within takes what was announced, unless that has taken too long; else it withdraws it.
func (s *Store) within(ctx context.Context, session *gocql.Session, began time.Time, e entry, take func() (bool, error)) (done bool, err error) {
	if s.now().Sub(began) < maxAnnouncing {
		if done, err = take(); done || err != nil {
			return done, err
		}
	}
	return false, s.withdraw(ctx, session, e.mark)
}

// announce writes what has to be there before a row is swapped: an entry, a copy of the
// row, and that it is confirmed. None of it says anything of a swap that does not come.
func (s *Store) announce(ctx context.Context, session *gocql.Session, found revision, body []byte) (entry, error) {
	e := entry{mark: newMark(s.now(), found.mark), id: found.id, version: found.version + 1, editor: menu.Editor(ctx), deleted: body == nil}
	group, ctx := errgroup.WithContext(ctx)
	if found.version > 0 {
		group.Go(func() error { return s.keep(ctx, session, found) })
	}
	s.enter(ctx, group, session, e, found.mark)
	return e, group.Wait()
}

// enter writes an entry, and that the one before it took place, if it has a mark.
func (s *Store) enter(ctx context.Context, group *errgroup.Group, session *gocql.Session, e entry, before []byte) {
	group.Go(func() error {
		return s.exec(ctx, session, "INSERT INTO changes (day, mark, id, version, editor, deleted, availability) VALUES (?, ?, ?, ?, ?, ?, ?)",
			markDay(e.mark), e.mark, e.id, e.version, e.editor, e.deleted, e.overlay)
	})
	if before != nil && s.now().Sub(markTime(before)) < menu.KeptChanges {
		group.Go(func() error {
			return s.exec(ctx, session, "UPDATE changes SET confirmed = true WHERE day = ? AND mark = ?", markDay(before), before)
		})
	}
}

// take swaps the row, if it is as it was found.
func (s *Store) take(ctx context.Context, session *gocql.Session, found revision, e entry, body []byte) (done bool, err error) {
	var tag, text any // null, to delete
	if body != nil {
		tag, text = int64(menu.Tag(body)), body
	}
	return s.swap(ctx, session, "UPDATE menus SET version = ?, tag = ?, body = ?, editor = ?, mark = ? WHERE id = ? IF version = ? AND fence = ?",
		e.version, tag, text, e.editor, e.mark, e.id, orNull(found.version), found.fence)
}

func (s *Store) withdraw(ctx context.Context, session *gocql.Session, mark []byte) error {
	return s.exec(ctx, session, "DELETE FROM changes WHERE day = ? AND mark = ?", markDay(mark), mark)
}

// exec does a statement that may be repeated.
func (s *Store) exec(ctx context.Context, session *gocql.Session, statement string, values ...any) error {
	return session.Query(statement, values...).Consistency(s.write).Idempotent(true).ExecContext(ctx)
}

// settle reports whether the write of an entry took place, and sees to it that this stays so.
func (s *Store) settle(ctx context.Context, e entry) (took bool, err error) {
	if e.confirmed {
		return true, nil
	}
	err = s.session.Do(ctx, func(ctx context.Context, session *gocql.Session) error {
		err := again(ctx, func() (settled bool, err error) {
			if e.overlay {
				took, settled, err = s.settleOverlay(ctx, session, e)
			} else {
				took, settled, err = s.settleMenu(ctx, session, e)
			}
			return settled, err
		})
		if err != nil || took {
			return err
		}
		return s.withdraw(ctx, session, e.mark)
	})
	return took, err
}

func (s *Store) settleMenu(ctx context.Context, session *gocql.Session, e entry) (took, settled bool, err error) {
	found, err := s.revision(ctx, session, e.id)
	switch {
	case err != nil:
		return false, false, err
	case found.version == e.version:
		return bytes.Equal(found.mark, e.mark), true, nil
	case found.version > e.version:
		took, err = s.confirmed(ctx, session, e.mark)
		return took, err == nil, err
	}
	settled, err = s.swap(ctx, session, "UPDATE menus SET fence = ? WHERE id = ? IF version = ? AND fence = ?",
		e.mark, e.id, orNull(found.version), found.fence)
	return false, settled, err
}

func (s *Store) settleOverlay(ctx context.Context, session *gocql.Session, e entry) (took, settled bool, err error) {
	found, err := s.document(ctx, session, menu.Availability, e.id)
	switch order := bytes.Compare(found.mark, e.mark); {
	case err != nil:
		return false, false, err
	case order == 0:
		return true, true, nil
	case order > 0:
		took, err = s.confirmed(ctx, session, e.mark)
		return took, err == nil, err
	}
	settled, err = s.swap(ctx, session, "UPDATE documents SET fence = ? WHERE kind = ? AND part = ? AND id = ? IF mark = ? AND fence = ?",
		e.mark, string(menu.Availability), part(e.id), e.id, found.mark, found.fence)
	return false, settled, err
}

func (s *Store) confirmed(ctx context.Context, session *gocql.Session, mark []byte) (yes bool, err error) {
	err = session.Query("SELECT confirmed FROM changes WHERE day = ? AND mark = ?", markDay(mark), mark).
		Consistency(s.read).Idempotent(true).ScanContext(ctx, &yes)
	if errors.Is(err, gocql.ErrNotFound) {
		return false, nil
	}
	return yes, err
}

// span is the marks between two, oldest first or newest first.
type span struct {
	after, before []byte
	newest        bool
}

// Changes implements menu.Desk.
func (s *Store) Changes(ctx context.Context, after menu.Cursor, limit int) ([]menu.Change, error) {
	return s.changes(ctx, span{newest: false}, after, limit)
}

// LastChanges implements menu.Desk.
func (s *Store) LastChanges(ctx context.Context, before menu.Cursor, limit int) ([]menu.Change, error) {
	return s.changes(ctx, span{newest: true}, before, limit)
}

// changes reads at most limit changes from a cursor on, day by day.
func (s *Store) changes(ctx context.Context, in span, from menu.Cursor, limit int) ([]menu.Change, error) {
	if err := menu.CheckListed(limit); err != nil {
		return nil, err
	}
	in.after, in.before = firstMark(s.now().Add(-menu.KeptChanges)), firstMark(s.now().Add(-held))
	if from != "" {
		mark, err := hex.DecodeString(string(from))
		if err != nil || len(mark) != markBytes || cursor(mark) != from {
			return nil, from.Unreadable()
		}
		switch {
		case in.newest && bytes.Compare(mark, in.before) < 0:
			in.before = mark
		case !in.newest && bytes.Compare(mark, in.after) > 0:
			in.after = mark
		}
	}
	changes, err := s.readSpan(ctx, in, limit)
	if err != nil {
		return nil, fmt.Errorf("read the log of changes of %s: %w", s.cfg.name(), s.classify(ctx, err))
	}
	return changes, nil
}

func (s *Store) readSpan(ctx context.Context, in span, limit int) (changes []menu.Change, err error) {
	days, err := s.days(ctx, markDay(in.after), markDay(in.before))
	if in.newest {
		slices.Reverse(days)
	}
	for _, day := range days {
		if err == nil && len(changes) < limit {
			changes, err = s.readDay(ctx, day, in, changes, limit)
		}
	}
	return changes, err
}

// days returns those with entries, and perhaps one or two without.
func (s *Store) days(ctx context.Context, first, last int) (days []int, err error) {
	if last-first <= 1 { // who follows the log asks for these
		return slices.Compact([]int{first, last}), nil
	}
	err = s.do(ctx, func(ctx context.Context, session *gocql.Session) error {
		rows := session.Query("SELECT DISTINCT day FROM changes").Consistency(s.read).Idempotent(true).IterContext(ctx)
		for day := 0; rows.Scan(&day); {
			if day >= first && day <= last {
				days = append(days, day)
			}
		}
		return rows.Close()
	})
	slices.Sort(days)
	return days, err
}

// readDay appends changes of a day until there are limit.
func (s *Store) readDay(ctx context.Context, day int, in span, changes []menu.Change, limit int) ([]menu.Change, error) {
	for len(changes) < limit {
		entries, err := s.entries(ctx, day, in, limit-len(changes))
		if err != nil || len(entries) == 0 {
			return changes, err
		}
		if end := entries[len(entries)-1].mark; in.newest {
			in.before = end
		} else {
			in.after = end
		}
		took := make([]bool, len(entries))
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(readers)
		for i, e := range entries {
			group.Go(func() (err error) { took[i], err = s.settle(ctx, e); return err })
		}
		if err := group.Wait(); err != nil {
			return nil, err
		}
		for i, e := range entries {
			if took[i] {
				changes = append(changes, menu.Change{
					Cursor: cursor(e.mark), ID: e.id, Version: e.version,
					At: changedAt(e.mark), Editor: e.editor, Deleted: e.deleted, Availability: e.overlay,
				})
			}
		}
	}
	return changes, nil
}

// entries reads entries of a day, whose writes have taken place or not.
func (s *Store) entries(ctx context.Context, day int, in span, limit int) (entries []entry, err error) {
	statement := "SELECT mark, id, version, editor, deleted, availability, confirmed FROM changes WHERE day = ? AND mark > ? AND mark < ? LIMIT ?"
	if in.newest {
		statement = strings.Replace(statement, "LIMIT", "ORDER BY mark DESC LIMIT", 1)
	}
	err = s.do(ctx, func(ctx context.Context, session *gocql.Session) error {
		rows := session.Query(statement, day, in.after, in.before, limit).Consistency(s.read).Idempotent(true).IterContext(ctx)
		for e := (entry{}); rows.Scan(&e.mark, &e.id, &e.version, &e.editor, &e.deleted, &e.overlay, &e.confirmed); e = (entry{}) {
			entries = append(entries, e)
		}
		return rows.Close()
	})
	return entries, err
}
