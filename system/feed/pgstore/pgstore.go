// Package pgstore keeps a feed in a PostgreSQL database, which several servers share.
//
// The tables lie in a schema of their own, feed, so that the database may hold other things
// and `DROP SCHEMA feed CASCADE` takes ours away. Open makes them if they are not there. Each
// reading is a statement and a round trip, or two for responses; a batch of posts is one
// statement, whose ids are an array (= ANY).
//
// A Store outlives its database: while that is away, calls fail soon with
// feed.ErrUnavailable, and when it is back they succeed again.
//
// Addresses are block/postgres's, and secrets.
package pgstore

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/dataset"
	"loadstone/block/postgres"
	"loadstone/block/redact"
	"loadstone/system/feed"
)

// Config says which database, and how long to wait for it. Start from DefaultConfig.
type Config struct {
	postgres.Config

	// Registerer receives the metrics, see Open; nil for none.
	Registerer prometheus.Registerer
}

// DefaultConfig returns a configuration whose URL is for the caller to set.
//
//   - Connections: four for each core. A reading is processor work on both sides.
//   - Waiting: 1024; one more is told to come back (feed.ErrOverloaded), and so is who
//     waited for AcquireTimeout, a second.
//   - StatementTimeout: one second, hundreds of times what a batch takes: then the database
//     is in trouble, and should stop working for somebody who has left.
//   - QueryTimeout: twice that. It is for a database or network that is gone without a
//     word, and costs the connection; the database's own limit comes first.
func DefaultConfig() Config {
	return Config{Config: postgres.Config{
		Name:        "loadstone feed",
		Connections: 4 * runtime.GOMAXPROCS(0), Waiting: 1024, AcquireTimeout: time.Second,
		StatementTimeout: time.Second, QueryTimeout: 2 * time.Second,
		Parameters: map[string]string{
			"synchronous_commit": "on",
			"plan_cache_mode":    "force_generic_plan",
		},
		Statements: queries,
	}}
}

// queries are prepared, under the names of what they read.
var queries = map[string]string{
	"page": `SELECT id, published, author, pinned, media, comments, reactions, title, text FROM feed.posts
		WHERE (published, id) < ($1, $2) ORDER BY published DESC, id DESC LIMIT $3`,
	"media":     `SELECT post, kind, url, alt, width, height FROM feed.media WHERE post = ANY($1::bigint[]) ORDER BY post, place`,
	"authors":   `SELECT p.id, a.* FROM feed.posts p JOIN feed.authors a ON a.id = p.author WHERE p.id = ANY($1::bigint[])`,
	"reactions": `SELECT post, kind, count FROM feed.reactions WHERE post = ANY($1::bigint[]) ORDER BY post, place`,
	"comments":  `SELECT post, author, published, text FROM feed.comments WHERE post = ANY($1::bigint[]) AND place < $2 ORDER BY post, place`,
	"pinned":    `SELECT id, published, title FROM feed.posts WHERE pinned AND published > $1 ORDER BY published DESC, id DESC LIMIT $2`,
	"unread":    `SELECT count(*) FROM (SELECT 1 FROM feed.posts WHERE published > $1 LIMIT $2) AS newer`,
}

// Store is a feed.Desk over one database.
type Store struct {
	feed.Looks

	cfg  Config
	name string // of the database, without secrets
	pool *postgres.Pool
}

// Open connects, brings the tables to this program's version, and registers the metrics of
// postgres.Pool.Register, whose names begin with feed. Its error wraps feed.ErrUnavailable if the database does not answer.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, name: redact.Address(cfg.URL)}
	s.Looks = s.look
	err := migrate(ctx, cfg.URL)
	if err == nil {
		s.pool, err = postgres.Open(ctx, cfg.Config)
	}
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", s.name, classify(ctx, err))
	}
	if cfg.Registerer != nil {
		s.pool.Register("feed", cfg.Registerer)
	}
	return s, nil
}

//go:embed migrations/*.sql
var migrationFiles embed.FS

// Keys of the advisory locks, "LSFD" and a number.
const (
	migrateLock = 0x4c534644_00000001
	fillLock    = 0x4c534644_00000002
)

func migrate(ctx context.Context, address string) error {
	steps, err := postgres.ReadMigrations(migrationFiles, "feed", migrateLock)
	if err != nil {
		return err
	}
	return steps.MigrateAt(ctx, address)
}

// classify gives an error the identity that feed.Store promises.
func classify(ctx context.Context, err error) error {
	kind := postgres.KindOf(err)
	return feed.Classify(ctx, err, kind == postgres.Busy, kind == postgres.Unavailable || kind == postgres.Closed)
}

// each runs a query and has scan read each row.
func (s *Store) each(ctx context.Context, query string, scan func(row feed.Scan) error, args ...any) error {
	err := s.pool.With(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		rows, err := conn.Query(ctx, query, args...)
		return scanned(rows, err, scan)
	})
	if err != nil {
		return fmt.Errorf("read %s: %w", query, classify(ctx, err))
	}
	return nil
}

// scanned has scan read each of the rows that a query returned.
func scanned(rows pgx.Rows, err error, scan func(row feed.Scan) error) error {
	if err != nil {
		return err
	}
	defer rows.Close()
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
	return feed.Rows(s.each).Details(ctx, part, posts)
}

// Notices implements feed.Store.
func (s *Store) Notices(ctx context.Context, seen int64) (feed.Notices, error) {
	return feed.Rows(s.each).Notices(ctx, seen)
}

// Key implements feed.Store.
func (s *Store) Key(ctx context.Context) (key []byte, err error) {
	err = s.each(ctx, "SELECT cursor_key FROM feed.data_set", func(row feed.Scan) error { return row(&key) })
	return key, err
}

// Meta implements feed.Store.
func (s *Store) Meta(ctx context.Context) (meta dataset.Meta, err error) {
	err = s.pool.With(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		meta, err = readMeta(ctx, conn)
		return err
	})
	return meta, classify(ctx, err)
}

func readMeta(ctx context.Context, db postgres.Querier) (m dataset.Meta, err error) {
	err = db.QueryRow(ctx, "SELECT origin, fingerprint, posts FROM feed.data_set WHERE origin IS NOT NULL").Scan(&m.Origin, &m.Fingerprint, &m.Count)
	if errors.Is(err, pgx.ErrNoRows) {
		return m, feed.ErrMissing
	}
	return m, err
}

// Close closes the connections after what is under way. It always returns nil, and may be
// called again.
func (s *Store) Close() error {
	s.pool.Close()
	return nil
}
