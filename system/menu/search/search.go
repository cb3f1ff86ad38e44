// Package search finds menus by their dishes. An Index is a file of its own, beside any
// database of menus: built once with Build, opened with Open, and kept fresh by Run, which
// follows the database's log of changes.
//
// The index says which menus may have a dish, and the database what they are: what is found is
// so at that moment, however old the index is. A file that is there is whole: Build writes
// another one and renames it, and changes come with the place in the log, or not at all.
//
// It is SQLite's full-text index (FTS5) of the words of dishes, a row for a menu. Words have
// been folded before: the tokenizer only splits them at spaces.
package search

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"loadstone/block/sqlite"
	"loadstone/system/menu"
)

const (
	applicationID = 0x6d656e75 // "menu"
	version       = 1
)

// tables are those of an index. Rows of dishes have the words of a menu, a line a dish. The
// beginnings of words have indexes of their own: without, all rows of all words with a
// beginning would be merged before the first is found.
var tables = []string{
	`CREATE TABLE place (cursor TEXT NOT NULL, at INTEGER NOT NULL)`,
	`CREATE VIRTUAL TABLE dishes USING fts5(words, detail=none, columnsize=0, tokenize='ascii', prefix='1 2 3 4 5 6')`,
	fmt.Sprintf("PRAGMA application_id = %d", applicationID),
	fmt.Sprintf("PRAGMA user_version = %d", version),
}

// indexed is how long the longest beginning is that has an index, in characters.
const indexed = 6

const (
	// considered is of how many menus, in ascending order of id, the best are found.
	considered = 1000
	// examined bounds the menus that have all words of a query, though not in one dish.
	examined = 10 * considered
)

// Index is an index that is open. It is safe for concurrent use.
type Index struct {
	db   *sqlite.DB
	desk menu.Desk
}

// Open opens the index of a database at path. The error wraps menu.ErrMissing if there is none,
// menu.ErrVersion if it is none, or one that the log of changes no longer reaches. The
// caller must Close it, before the database.
func Open(ctx context.Context, path string, desk menu.Desk) (*Index, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("search index %s: %w: `loadstone menu index` makes one", path, menu.ErrMissing)
	}
	db, err := sqlite.Open(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("open the search index %s: %w", path, err)
	}
	if err := check(ctx, db.Read); err != nil {
		return nil, fmt.Errorf("search index %s: %w", path, errors.Join(err, db.Close()))
	}
	return &Index{db, desk}, nil
}

// check reports whether a database is an index that can be followed.
func check(ctx context.Context, db *sql.DB) error {
	var id, of int
	err := db.QueryRowContext(ctx, "SELECT application_id, user_version FROM pragma_application_id, pragma_user_version").Scan(&id, &of)
	if err != nil || id != applicationID || of != version {
		return errors.Join(fmt.Errorf("%w: build it again under another name", menu.ErrVersion), err)
	}
	var at int64
	if err := db.QueryRowContext(ctx, "SELECT at FROM place").Scan(&at); err != nil {
		return err
	}
	if age := time.Since(time.Unix(at, 0)); age > menu.KeptChanges {
		return fmt.Errorf("%w: it is %d days old, and changes are known of %d: remove it and build it again", menu.ErrVersion, int(age.Hours()/24), int(menu.KeptChanges.Hours()/24))
	}
	return nil
}

// Search implements menu.Searcher: a dish suits if it has all words, the last one perhaps as a
// beginning, and the better the fewer others it has. Large and small letters are the same,
// and so are those with marks and without.
func (x *Index) Search(ctx context.Context, text string, limit int) ([]menu.Found, error) {
	q := parse(text)
	if len(q) == 0 || limit < 1 {
		return nil, nil
	}
	short, isShort := q.short()
	ids, whole, err := x.candidates(ctx, q, short)
	if err == nil && !whole && isShort && len(ids) < limit {
		// Few words with the short beginning have the long one: merging those takes no time.
		ids, _, err = x.candidates(ctx, q, q)
	}
	if err != nil {
		return nil, fmt.Errorf("search: %w", err)
	}
	var found []menu.Found
	for _, id := range ids {
		dishes, err := x.dishes(ctx, id, q)
		if err != nil {
			return nil, fmt.Errorf("search: menu %d: %w", id, err)
		}
		if found = append(found, dishes...); len(found) >= limit {
			return found[:limit], nil
		}
	}
	return found, nil
}

// candidates are the menus that may have what is looked for, the best first, of those that have
// some words; whole says that all of those were examined.
func (x *Index) candidates(ctx context.Context, q, some query) (ids []int64, whole bool, err error) {
	rows, err := x.db.Read.QueryContext(ctx, "SELECT rowid, words FROM dishes WHERE dishes MATCH ? LIMIT ?", some.match(), examined)
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = rows.Close() }()
	type candidate struct {
		id   int64
		rest int // words of its dish besides
	}
	var all []candidate
	seen := 0
	for ; len(all) < considered && rows.Next(); seen++ {
		var c candidate
		var text string
		if err := rows.Scan(&c.id, &text); err != nil {
			return nil, false, err
		}
		c.rest = -1
		for line := range strings.SplitSeq(text, "\n") {
			if dish := strings.Fields(line); q.suits(dish) && (c.rest < 0 || len(dish) < c.rest) {
				c.rest = len(dish)
			}
		}
		if c.rest >= 0 {
			all = append(all, c)
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(a.rest, b.rest) })
	for _, c := range all {
		ids = append(ids, c.id)
	}
	return ids, seen < examined && len(all) < considered, rows.Err()
}

// dishes are those of a menu, as it is now, that suit the query.
func (x *Index) dishes(ctx context.Context, id int64, q query) (found []menu.Found, err error) {
	m, err := lookup(ctx, x.desk, id)
	if err != nil || m == nil {
		return nil, err
	}
	for _, d := range m.Dishes {
		if q.suits(words(d.Name)) {
			found = append(found, menu.Found{ID: id, Dish: d, Currency: m.Currency})
		}
	}
	slices.SortStableFunc(found, func(a, b menu.Found) int { return cmp.Compare(len(words(a.Dish.Name)), len(words(b.Dish.Name))) })
	return found, nil
}

// Close closes the index. Run must have returned.
func (x *Index) Close() error { return x.db.Close() }
