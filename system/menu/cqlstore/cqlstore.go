// Package cqlstore keeps menus in Cassandra, which several servers share.
//
// A look-up is one prepared read. A write is a lightweight transaction on the menu's row:
// it takes place if the row still has the version that the writer has read, else it is
// tried again, so that writes to one menu take turns in all processes together. What a
// filling writes is older than any of them, whenever it comes.
//
// With Quorum, look-ups and writes ask a majority of a row's replicas, and any minority may
// be gone. With One, a look-up asks one replica; so that it finds what was written, a
// write then waits for all of them, and fails while one is gone. (If the cluster has fewer
// nodes than there should be replicas, it can be filled and read with One, and not
// written to.) What a node does before it acknowledges is its own setting
// (commitlog_sync), see Store.Durability.
//
// What a menu.Desk has beside the menus comes without transactions: revisions.go and
// changes.go say how, and that the clocks of all servers have to agree to 4 seconds.
//
// Cassandra knows no moments: Menus gives each menu as it was at some time during the
// reading. Open makes the keyspace and its tables if they are not there.
package cqlstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"loadstone/block/cql"
	"loadstone/block/dataset"
	"loadstone/system/menu"
)

// AddressForm is how the address of a store is written.
const AddressForm = cql.AddressForm + ", and &consistency=one or &row_cache=on behind ?replication=N"

// Consistency is how many replicas of a menu are asked, see the package.
type Consistency string

// All consistencies.
const (
	One    Consistency = "one"
	Quorum Consistency = "quorum"
)

// Config says which keyspace, and how to ask for it. Start from DefaultConfig or Parse.
type Config struct {
	cql.Config

	// Consistency of look-ups and writes.
	Consistency Consistency
	// RowCache is "on" or "off" to have nodes keep whole rows in memory (within their
	// row_cache_size, which is 0 unless set), or "" to leave it as it is: off at first.
	RowCache string
	// SortedTables is how to fill the store; with its zero value in batches.
	SortedTables SortedTables
}

// DefaultConfig returns a configuration whose Cluster is for the caller to set: Quorum, and
// the bounds of cql.DefaultConfig.
func DefaultConfig() Config {
	return Config{Config: cql.DefaultConfig(), Consistency: Quorum}
}

// Parse reads AddressForm. Its error shows no secret.
func Parse(address string) (Config, error) {
	cfg := DefaultConfig()
	cluster, query, _ := strings.Cut(address, "?")
	var rest []string
	for setting := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(setting, "=")
		switch name {
		case "consistency":
			cfg.Consistency = Consistency(value)
		case "row_cache":
			cfg.RowCache = value
		case "":
		default:
			rest = append(rest, setting)
		}
	}
	if rest != nil {
		cluster += "?" + strings.Join(rest, "&")
	}
	var err error
	cfg.Cluster, err = cql.ParseAddress(cluster)
	if err == nil {
		err = cfg.Validate()
	}
	return cfg, err
}

// Validate returns all problems of the configuration, joined, or nil.
func (c Config) Validate() error {
	errs := []error{c.Config.Validate()}
	if c.Consistency != One && c.Consistency != Quorum {
		errs = append(errs, fmt.Errorf("consistency is %.20q: write %s or %s", c.Consistency, One, Quorum))
	}
	if c.RowCache != "" && c.RowCache != "on" && c.RowCache != "off" {
		errs = append(errs, fmt.Errorf("row_cache is %.20q: write on or off", c.RowCache))
	}
	return errors.Join(errs...)
}

// name is the cluster for people. An address has no secrets.
func (c Config) name() string {
	return fmt.Sprintf("%s%s/%s", cql.Scheme, strings.Join(c.Cluster.Hosts, ","), c.Cluster.Keyspace)
}

const createMenus = `CREATE TABLE IF NOT EXISTS %s.menus (id bigint PRIMARY KEY, version bigint, tag bigint, body text)
		WITH compression = {'class': 'LZ4Compressor', 'chunk_length_in_kb': 4}`

// Rows are small and read one by one, so compression works on small chunks: a read
// decompresses one. A deleted menu stays as a row without tag and body. What a Desk needs
// beside them is for writers alone, and was added later.
var tables = []string{
	createMenus,
	`ALTER TABLE %s.menus ADD IF NOT EXISTS (editor text, mark blob, fence blob)`,
	`CREATE TABLE IF NOT EXISTS %s.revisions (id bigint, version bigint, editor text, mark blob, body text, PRIMARY KEY (id, version))
		WITH CLUSTERING ORDER BY (version DESC)`,
	changesTable,
	`CREATE TABLE IF NOT EXISTS %s.documents (kind text, part int, id bigint, tag bigint, editor text, at timestamp, body text, PRIMARY KEY ((kind, part), id))`,
	`ALTER TABLE %s.documents ADD IF NOT EXISTS (mark blob, fence blob)`,
	`ALTER TABLE %s.changes ADD IF NOT EXISTS (availability boolean)`,
	`CREATE TABLE IF NOT EXISTS %s.data_set (
		one int PRIMARY KEY, origin text, fingerprint text, menus bigint, chunk_menus int, largest_id bigint, complete boolean)`,
	`CREATE TABLE IF NOT EXISTS %s.chunks (number bigint PRIMARY KEY, menus int, first_id bigint, last_id bigint)`,
	`CREATE TABLE IF NOT EXISTS %s.counters (name text PRIMARY KEY, next bigint)`,
}

var caching = map[string]string{
	"on":  `ALTER TABLE %s.menus WITH caching = {'keys': 'ALL', 'rows_per_partition': 'ALL'}`,
	"off": `ALTER TABLE %s.menus WITH caching = {'keys': 'ALL', 'rows_per_partition': 'NONE'}`,
}

// Store is a menu.Database and a menu.Filler over one keyspace of a cluster.
type Store struct {
	cfg     Config
	session *cql.Session
	// Of look-ups, writes, and fillings.
	read, write, fill gocql.Consistency
	// whole is what the store holds, once it holds something whole: that stays so.
	whole atomic.Pointer[filled]
	chunk int               // menus in a chunk of a filling that begins
	turns [64]chan struct{} // see turn
	ids   ids
	now   func() time.Time // time.Now but in tests
}

// Open opens the session, see cql.Open. The error wraps menu.ErrUnavailable if the cluster
// does not answer, or fewer of its nodes than Quorum needs.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.Tables = tables
	if alter, ok := caching[cfg.RowCache]; ok {
		cfg.Tables = append(slices.Clip(cfg.Tables), alter)
	}
	s := &Store{cfg: cfg, read: gocql.Quorum, write: gocql.Quorum, fill: gocql.Quorum, ids: ids{turn: make(chan struct{}, 1)}, now: time.Now}
	if s.chunk = chunkMenus; cfg.SortedTables.Dir != "" {
		s.chunk = tableMenus
	}
	for i := range s.turns {
		s.turns[i] = make(chan struct{}, 1)
	}
	var err error
	if s.session, err = cql.Open(ctx, cfg.Config); err != nil {
		return nil, fmt.Errorf("open %s: %w", cfg.name(), s.classify(ctx, err))
	}
	if err := s.session.Do(ctx, s.ask); err != nil {
		s.session.Close()
		return nil, fmt.Errorf("open %s: %w", cfg.name(), s.classify(ctx, err))
	}
	return s, nil
}

// ask finds out whether the cluster can do what Consistency says.
func (s *Store) ask(ctx context.Context, session *gocql.Session) error {
	if s.cfg.Consistency == One {
		s.read, s.write, s.fill = gocql.One, gocql.All, gocql.All
		if len(session.GetHosts()) < s.cfg.Cluster.Replication {
			s.fill = gocql.One
		}
	}
	_, err := s.readFilled(ctx, session)
	if few, ok := errors.AsType[*gocql.RequestErrUnavailable](err); ok && s.read == gocql.Quorum {
		return fmt.Errorf("%w: consistency %s needs %d of %d replicas, and %d is there: start more nodes, or read with consistency %s",
			menu.ErrUnavailable, Quorum, few.Required, s.cfg.Cluster.Replication, few.Alive, One)
	}
	return err
}

// filled is the row of data_set.
type filled struct {
	meta     dataset.Meta
	chunk    int
	largest  int64
	complete bool
}

// readFilled returns nil if nothing was filled in or written.
func (s *Store) readFilled(ctx context.Context, session *gocql.Session) (*filled, error) {
	var f filled
	err := session.Query("SELECT origin, fingerprint, menus, chunk_menus, largest_id, complete FROM data_set WHERE one = 1").
		Consistency(s.read).Idempotent(true).ScanContext(ctx, &f.meta.Origin, &f.meta.Fingerprint, &f.meta.Count, &f.chunk, &f.largest, &f.complete)
	if errors.Is(err, gocql.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &f, nil
}

var errFilling = fmt.Errorf("%w: the filling has not ended; if it was interrupted, fill it with the same again", menu.ErrMissing)

// holds returns what the store holds, nil for nothing; its error is menu.ErrMissing before
// a filling is complete. It asks until there is something.
func (s *Store) holds(ctx context.Context, session *gocql.Session) (*filled, error) {
	if f := s.whole.Load(); f != nil {
		return f, nil
	}
	f, err := s.readFilled(ctx, session)
	if err != nil || f == nil {
		return nil, err
	}
	if !f.complete {
		return nil, errFilling
	}
	s.whole.Store(f)
	return f, nil
}

// do is session.Do for who wants to read what a filling must have completed.
func (s *Store) do(ctx context.Context, run func(ctx context.Context, session *gocql.Session) error) error {
	return s.session.Do(ctx, func(ctx context.Context, session *gocql.Session) error {
		if _, err := s.holds(ctx, session); err != nil {
			return err
		}
		return run(ctx, session)
	})
}

// classify gives an error the identity that menu.Database promises.
func (s *Store) classify(ctx context.Context, err error) error {
	kind := cql.KindOf(err)
	return menu.Classify(ctx, err, kind == cql.Busy, kind == cql.Closed || kind == cql.Unavailable)
}

// Durability is what the nodes do before they acknowledge a write.
func (s *Store) Durability() cql.Durability { return s.session.Durability() }

// Ping reads the row that says what the store holds.
func (s *Store) Ping(ctx context.Context) error {
	return s.classify(ctx, s.session.Do(ctx, func(ctx context.Context, session *gocql.Session) error {
		_, err := s.readFilled(ctx, session)
		return err
	}))
}

// Close ends the session. It always returns nil, and may be called again.
func (s *Store) Close() error {
	s.session.Close()
	return nil
}
