// Package sqlitestore keeps a feed in a SQLite database: the embedded store.
//
// Each reading is a query or two over connections of its own, and waits for no writer. A
// batch of posts is one query: its ids go to the database as one array in JSON. Writes are
// transactions in write-ahead mode, on disk when they return.
//
// The store owns the database file and the two files beside it.
package sqlitestore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"loadstone/block/dataset"
	"loadstone/block/sqlite"
	"loadstone/system/feed"
)

// schema: what belongs to a post lies in trees of its own, in the order in which it is shown.
var schema = sqlite.Schema{
	ApplicationID: 0x4c534644, // "LSFD"
	Version:       2,
	Statements:    slices.Concat(first, second),
	Upgrades:      map[int][]string{1: second},
}

// first and second are what makes the tables of those versions.
var (
	first = []string{
		`CREATE TABLE data_set (origin TEXT, fingerprint TEXT, posts INTEGER, cursor_key BLOB NOT NULL) STRICT`,
		`INSERT INTO data_set (cursor_key) VALUES (randomblob(32))`,
		`CREATE TABLE authors (
			id INTEGER PRIMARY KEY, name TEXT NOT NULL, role TEXT NOT NULL, team TEXT NOT NULL,
			about TEXT NOT NULL, photo TEXT NOT NULL
		) STRICT`,
		`CREATE TABLE posts (
			id INTEGER PRIMARY KEY, published INTEGER NOT NULL, author INTEGER NOT NULL, pinned INTEGER NOT NULL,
			media INTEGER NOT NULL, comments INTEGER NOT NULL, reactions INTEGER NOT NULL,
			title TEXT NOT NULL, text TEXT NOT NULL
		) STRICT`,
		`CREATE INDEX posts_in_order ON posts (published, id)`,
		`CREATE INDEX posts_pinned ON posts (published, id) WHERE pinned`,
		`CREATE TABLE media (
			post INTEGER, place INTEGER, kind TEXT NOT NULL, url TEXT NOT NULL, alt TEXT NOT NULL,
			width INTEGER NOT NULL, height INTEGER NOT NULL, PRIMARY KEY (post, place)
		) STRICT, WITHOUT ROWID`,
		`CREATE TABLE reactions (
			post INTEGER, place INTEGER, kind TEXT NOT NULL, count INTEGER NOT NULL, PRIMARY KEY (post, place)
		) STRICT, WITHOUT ROWID`,
		`CREATE TABLE comments (
			post INTEGER, place INTEGER, author TEXT NOT NULL, published INTEGER NOT NULL, text TEXT NOT NULL,
			PRIMARY KEY (post, place)
		) STRICT, WITHOUT ROWID`,
	}
	second = []string{
		`ALTER TABLE posts ADD COLUMN version INTEGER NOT NULL DEFAULT 0`,
		// A number is never used twice, also if the log forgets it.
		`CREATE TABLE changes (
			number INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, editor TEXT NOT NULL,
			action TEXT NOT NULL, post INTEGER NOT NULL, title TEXT NOT NULL
		) STRICT`,
		`CREATE INDEX changes_of_posts ON changes (post, number)`,
		`CREATE TABLE kept (
			id INTEGER PRIMARY KEY, version INTEGER NOT NULL, published INTEGER NOT NULL, title TEXT NOT NULL,
			editor TEXT NOT NULL, at INTEGER NOT NULL, line TEXT NOT NULL
		) STRICT`,
		`CREATE INDEX kept_by_version ON kept (version)`,
	}
)

// queries are prepared. A list of posts is an array in JSON. What is compared with a column of
// an index is ?+0: a bare ? has SQLite plan the statement anew for each value (unless QPSG is
// set, which the driver cannot), and that is a fifth of what a journey costs.
var queries = map[string]string{
	"page": `SELECT id, published, author, pinned, media, comments, reactions, title, text FROM posts
		WHERE (published, id) < (?+0, ?+0) ORDER BY published DESC, id DESC LIMIT ?+0`,
	"media": `SELECT post, kind, url, alt, width, height FROM json_each(?) JOIN media ON post = value ORDER BY post, place`,
	"authors": `SELECT p.id, a.id, a.name, a.role, a.team, a.about, a.photo
		FROM json_each(?) JOIN posts p ON p.id = value JOIN authors a ON a.id = p.author`,
	"reactions": `SELECT post, kind, count FROM json_each(?) JOIN reactions ON post = value ORDER BY post, place`,
	"comments":  `SELECT post, author, published, text FROM json_each(?) JOIN comments ON post = value AND place < ?+0 ORDER BY post, place`,
	"pinned":    `SELECT id, published, title FROM posts WHERE pinned AND published > ?+0 ORDER BY published DESC, id DESC LIMIT ?+0`,
	"unread":    `SELECT count(*) FROM (SELECT 1 FROM posts WHERE published > ?+0 LIMIT ?+0)`,
}

// deskQueries are not prepared.
var deskQueries = func() map[string]string {
	all := feed.DeskQueries()
	for name, text := range all {
		all[name] = strings.NewReplacer("$", "?", "feed.", "", "::bigint", "").Replace(text)
	}
	return all
}()

// inserts are prepared in each transaction.
var inserts = map[string]string{
	"author": `INSERT INTO authors (id, name, role, team, about, photo) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE
		SET name = excluded.name, role = excluded.role, team = excluded.team, about = excluded.about, photo = excluded.photo`,
	"post": `INSERT INTO posts (id, published, author, pinned, media, comments, reactions, title, text)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
	"medium":   `INSERT INTO media (post, place, kind, url, alt, width, height) VALUES (?, ?, ?, ?, ?, ?, ?)`,
	"reaction": `INSERT INTO reactions (post, place, kind, count) VALUES (?, ?, ?, ?)`,
	"comment":  `INSERT INTO comments (post, place, author, published, text) VALUES (?, ?, ?, ?, ?)`,
}

// Store is a feed.Desk over one database file.
type Store struct {
	feed.Looks

	db     *sqlite.DB
	path   string
	read   map[string]*sql.Stmt
	closed atomic.Bool
}

// Open opens the database at path, or makes it.
func Open(ctx context.Context, path string) (_ *Store, err error) {
	s := &Store{path: path, read: map[string]*sql.Stmt{}}
	s.Looks = s.look
	defer func() {
		if err != nil {
			err = fmt.Errorf("open the feed in %s: %w", path, s.classify(ctx, err))
		}
	}()
	if s.db, err = sqlite.Open(ctx, path); err != nil {
		return nil, err
	}
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(err, s.db.Close())
	}
	return s, nil
}

func (s *Store) prepare(ctx context.Context) error {
	if err := s.db.Make(ctx, schema); err != nil {
		return err
	}
	for name, text := range queries {
		statement, err := s.db.Read.PrepareContext(ctx, text) //nolint:sqlclosecheck // ends with the database
		if err != nil {
			return fmt.Errorf("prepare %s: %w", name, err)
		}
		s.read[name] = statement
	}
	return nil
}

// classify gives an error the identity that feed.Store promises.
func (s *Store) classify(ctx context.Context, err error) error {
	gone := s.closed.Load()
	switch sqlite.KindOf(err) {
	case sqlite.Full, sqlite.Unavailable:
		gone = true
	default:
	}
	return feed.Classify(ctx, err, false, gone)
}

// each runs a query and has scan read each row.
func (s *Store) each(ctx context.Context, query string, scan func(row feed.Scan) error, args ...any) error {
	rows, err := s.read[query].QueryContext(ctx, args...)
	if err := scanned(rows, err, scan); err != nil {
		return fmt.Errorf("read %s: %w", query, s.classify(ctx, err))
	}
	return nil
}

// scanned has scan read each of the rows that a query returned.
func scanned(rows *sql.Rows, err error, scan func(row feed.Scan) error) error {
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // Err has said what there is to say
	for rows.Next() {
		if err := scan(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Page implements feed.Store.
func (s *Store) Page(ctx context.Context, behind feed.Position, limit int) ([]feed.Post, error) {
	return feed.Rows(s.each).Page(ctx, behind, limit)
}

// Details implements feed.Store.
func (s *Store) Details(ctx context.Context, part feed.Part, posts []int64) (feed.Details, error) {
	return feed.Rows(s.each).Details(ctx, part, list(posts...))
}

// list is ids as queries take them.
func list(ids ...int64) any {
	text, err := json.Marshal(ids)
	if err != nil {
		panic(err) // numbers are JSON
	}
	return string(text)
}

// Notices implements feed.Store.
func (s *Store) Notices(ctx context.Context, seen int64) (feed.Notices, error) {
	return feed.Rows(s.each).Notices(ctx, seen)
}

// Key implements feed.Store.
func (s *Store) Key(ctx context.Context) (key []byte, err error) {
	err = s.db.Read.QueryRowContext(ctx, `SELECT cursor_key FROM data_set`).Scan(&key)
	return key, s.classify(ctx, err)
}

// Meta implements feed.Store.
func (s *Store) Meta(ctx context.Context) (dataset.Meta, error) {
	meta, err := readMeta(ctx, s.db.Read)
	return meta, s.classify(ctx, err)
}

func readMeta(ctx context.Context, db interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
},
) (m dataset.Meta, err error) {
	err = db.QueryRowContext(ctx, `SELECT origin, fingerprint, posts FROM data_set WHERE origin IS NOT NULL`).Scan(&m.Origin, &m.Fingerprint, &m.Count)
	if errors.Is(err, sql.ErrNoRows) {
		return m, feed.ErrMissing
	}
	return m, err
}

// Version implements versioned.Original.
func (s *Store) Version(ctx context.Context) (int64, error) {
	version, err := s.db.Version(ctx)
	return version, s.classify(ctx, err)
}

// Close implements feed.Store.
func (s *Store) Close() error {
	s.closed.Store(true)
	return s.db.Close()
}
