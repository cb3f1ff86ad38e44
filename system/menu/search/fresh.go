package search

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"loadstone/block/atomicfile"
	"loadstone/block/dataset"
	"loadstone/block/pause"
	"loadstone/block/sqlite"
	"loadstone/system/menu"
)

// ErrThere says that there is an index, or another file.
var ErrThere = errors.New("it is there already: servers keep it fresh; to build it again, stop them and remove it")

// Build makes the index of a database at path, whole or not at all; if there is a file, the
// error wraps ErrThere. If there are no menus, it wraps menu.ErrMissing. Progress may be nil.
func Build(ctx context.Context, path string, desk menu.Desk, progress dataset.Progress) (err error) {
	if _, err := os.Stat(path); err == nil {
		return fmt.Errorf("search index %s: %w", path, ErrThere)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("build the search index: %w", err)
		}
	}()
	// What changes from here on comes from the log, whether the source has it or not.
	cursor, err := menu.End(ctx, desk)
	if err != nil {
		return err
	}
	source, err := desk.Menus(ctx)
	if err == nil && source.Meta().Count == 0 {
		err = menu.ErrMissing
	}
	if err != nil {
		return err
	}
	pending, err := atomicfile.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pending.Discard()) }()
	if err := write(ctx, pending.Path(), source, cursor, progress); err != nil {
		return err
	}
	// An index that was removed may have left these, and SQLite would take them for this one's.
	for _, suffix := range []string{"-wal", "-shm", "-journal"} {
		if err := os.RemoveAll(path + suffix); err != nil {
			return err
		}
	}
	return pending.Commit()
}

// write fills an empty file.
func write(ctx context.Context, path string, source dataset.Source[menu.Menu], cursor menu.Cursor, progress dataset.Progress) (err error) {
	conn, closeAll, err := sqlite.OpenAlone(ctx, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeAll()) }()
	// The words of so many bytes are sorted in memory before they are written.
	for _, statement := range append(tables, "BEGIN", fmt.Sprintf("INSERT INTO dishes (dishes, rank) VALUES ('hashsize', %d)", 32<<20)) {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	insert, err := conn.PrepareContext(ctx, insertion)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, insert.Close()) }()
	if err := dataset.Each(ctx, source, progress, func(m *menu.Menu) error {
		if len(m.Dishes) == 0 {
			return nil
		}
		_, err := insert.ExecContext(ctx, m.ID, lines(m))
		return err
	}); err != nil {
		return err
	}
	if _, err := conn.ExecContext(ctx, "INSERT INTO place (cursor, at) VALUES (?, ?)", string(cursor), time.Now().Unix()); err != nil {
		return err
	}
	_, err = conn.ExecContext(ctx, "COMMIT")
	return err
}

const insertion = "INSERT INTO dishes (rowid, words) VALUES (?, ?)"

// lines are the words of a menu's dishes, a line a dish.
func lines(m *menu.Menu) string {
	all := make([]string, 0, len(m.Dishes))
	for i := range m.Dishes {
		all = append(all, strings.Join(words(m.Dishes[i].Name), " "))
	}
	return strings.Join(all, "\n")
}

const (
	// look is how often the log is asked for changes: as long as an editor who just wrote a
	// dish does not look for it.
	look = time.Second
	// batch is how many changes are taken at a time.
	batch = 500
	// patience bounds a batch: that many look-ups, and a transaction.
	patience = 30 * time.Second
	// told is how often an index without changes notes that it is fresh.
	told = time.Hour
)

// Run keeps the index fresh until ctx ends, and returns nil then. It tells failed why it could
// not, and tries again.
func (x *Index) Run(ctx context.Context, failed func(error)) error {
	for {
		more, err := x.Follow(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it is what was asked for
		}
		if err != nil {
			failed(err)
		}
		if !more && !pause.For(ctx, look) {
			return nil
		}
	}
}

// Follow takes the next changes of the log, and reports whether there may be more at once.
func (x *Index) Follow(ctx context.Context) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var cursor string
	var at int64
	if err := x.db.Read.QueryRowContext(ctx, "SELECT cursor, at FROM place").Scan(&cursor, &at); err != nil {
		return false, fmt.Errorf("search index: %w", err)
	}
	changes, err := x.desk.Changes(ctx, menu.Cursor(cursor), batch)
	if err != nil || len(changes) == 0 && time.Since(time.Unix(at, 0)) < told {
		return false, err
	}
	texts := make(map[int64]string, len(changes)) // empty: has no dishes
	for _, c := range changes {
		cursor = string(c.Cursor)
		if _, ok := texts[c.ID]; ok || c.Availability {
			continue
		}
		m, err := lookup(ctx, x.desk, c.ID) // as it is by now
		if err != nil {
			return false, fmt.Errorf("search index: menu %d: %w", c.ID, err)
		}
		texts[c.ID] = ""
		if m != nil {
			texts[c.ID] = lines(m)
		}
	}
	tx, err := x.db.Write.BeginTx(ctx, nil)
	if err != nil {
		return false, fmt.Errorf("search index: %w", err)
	}
	if err := put(ctx, tx, texts, cursor); err != nil {
		return false, fmt.Errorf("search index: %w", errors.Join(err, tx.Rollback()))
	}
	return len(changes) == batch, x.db.Commit(ctx, tx)
}

// put stores the texts of menus, and the place in the log.
func put(ctx context.Context, tx *sql.Tx, texts map[int64]string, cursor string) error {
	for id, text := range texts {
		if _, err := tx.ExecContext(ctx, "DELETE FROM dishes WHERE rowid = ?", id); err != nil {
			return err
		}
		if text == "" {
			continue
		}
		if _, err := tx.ExecContext(ctx, insertion, id, text); err != nil {
			return err
		}
	}
	_, err := tx.ExecContext(ctx, "UPDATE place SET cursor = ?, at = ?", cursor, time.Now().Unix())
	return err
}

// lookup is a menu as it is; nil if there is none.
func lookup(ctx context.Context, desk menu.Desk, id int64) (*menu.Menu, error) {
	page, err := desk.Lookup(ctx, id)
	if errors.Is(err, menu.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(page.Owner)
	m, err := menu.ParseStored(id, page.Body)
	return &m, err
}
