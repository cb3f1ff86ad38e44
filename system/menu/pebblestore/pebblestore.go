// Package pebblestore keeps menus in a pebble database, a log-structured merge tree: the
// embedded store for menus that are written.
//
// One goroutine writes. It takes all changes that wait, applies them one after the other,
// each seeing those before it, and commits them as one batch in the write-ahead log, synced
// before anybody is answered (package commit). So conditions need no locks, and the number
// of syncs does not grow with the number of writers. A whole data set goes past the log, as
// sorted tables, see Fill.
//
// A batch has with each write what the menu was, and an entry of the log. The number of an
// entry is the write's, which the state counts: so nobody reads beyond what is synced.
//
// It fails closed. While the disk is full nothing is stored, and what is there can be
// read; what else pebble cannot survive ends the store until the process starts anew, see
// package lsm. The store owns its directory and locks it.
package pebblestore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/commit"
	"loadstone/block/dataset"
	"loadstone/block/lsm"
	"loadstone/system/menu"
)

const (
	// memTableBytes is what is gathered in memory before it becomes a file. There are
	// two: one filling, one being written.
	memTableBytes = 16 << 20
	// blockBytes is what is compressed together, about 14 menus: see compression.
	blockBytes = 16 << 10
	// filterBits are a bloom filter's per menu: one in a hundred look-ups reads a block of
	// a table that does not have the menu.
	filterBits = 10
	// chunkMenus are the menus of a sorted table: some 18 MB of JSON. 10 million are 611
	// tables, fewer than pebble keeps open.
	chunkMenus = 16384
)

// compression is how blocks are stored. Of 100,000 menus, 111 MB of JSON, and a look-up that
// finds nothing in the cache:
//
//	            4 KiB          8 KiB          16 KiB         32 KiB         64 KiB
//	zstd 3      26.9 MB 21 µs  21.8 MB 15 µs  18.3 MB 20 µs  16.0 MB 38 µs  14.8 MB 68 µs
//	zstd 1                                    22.9 MB 20 µs  19.9 MB 25 µs
//	snappy                     27.8 MB 15 µs                 20.8 MB 28 µs
//
// They are written in 0.6 to 1.2 s of processor time, whatever the choice: less than it
// takes to make them up.
func compression() *sstable.CompressionProfile { return sstable.ZstdCompression }

// Config says where the store is.
type Config struct {
	// Dir is the store's directory. It is made if there is none.
	Dir string
	// CacheBytes is for blocks of the tree, decompressed. What else the operating system
	// keeps is compressed.
	CacheBytes int64
	// Registerer receives the metrics of package commit, and pebble's, see newMetrics.
	Registerer prometheus.Registerer
}

// DefaultConfig has a cache of 256 MiB, for some 230,000 menus, or of a quarter of the
// process's memory limit (GOMEMLIMIT) if that is less. Dir and Registerer are for the caller
// to set.
func DefaultConfig() Config {
	return Config{CacheBytes: max(1<<20, min(256<<20, debug.SetMemoryLimit(-1)/4))}
}

// Validate returns every problem, joined.
func (c Config) Validate() error {
	var problems []error
	if c.Dir == "" {
		problems = append(problems, errors.New("the directory of the menus has no name: write one"))
	}
	if c.CacheBytes < 1<<20 {
		problems = append(problems, fmt.Errorf("the cache of the menus has %d bytes: write at least 1 MiB", c.CacheBytes))
	}
	if c.Registerer == nil {
		problems = append(problems, errors.New("there is nothing to register metrics with: give a Registerer"))
	}
	return errors.Join(problems...)
}

// Store is a menu.Desk and a menu.Filler over one directory.
type Store struct {
	dir    string
	db     *lsm.DB
	tables sstable.WriterOptions // of what is ingested
	files  vfs.FS                // for these: without patience on a full disk
	chunk  int
	writer *commit.Writer[*change]

	life context.Context //nolint:containedctx // it ends with Close, for who is still at work
	end  context.CancelFunc
	fill sync.Mutex // held by Fill

	// mu is held by whoever reads: pebble panics when it is read after its end.
	mu       sync.RWMutex
	closed   bool
	closeErr error
	now      func() time.Time
	state    state // written by the goroutine that commits, under mu
	// pending is what there was before the group that is being committed. Pebble shows
	// what is not synced yet; it must not be seen, because it would be gone after a crash,
	// and another menu have its version.
	pending atomic.Pointer[map[string]entry]

	held    sync.Mutex                // guards sources
	sources map[*source](func() bool) // those in use, with what ends the wait for their contexts
}

// Open opens the store in the directory, or makes it. The error wraps lsm.ErrInUse if
// another process has it open, menu.ErrVersion if it is of another version of this program,
// and menu.ErrOccupied if it is something else.
func Open(ctx context.Context, cfg Config) (*Store, error) { return openOn(ctx, vfs.Default, cfg) }

func openOn(ctx context.Context, files vfs.FS, cfg Config) (*Store, error) {
	if err := errors.Join(cfg.Validate(), ctx.Err()); err != nil {
		return nil, err
	}
	s := &Store{dir: cfg.Dir, files: files, now: time.Now, chunk: chunkMenus, sources: map[*source](func() bool){}}
	options := &pebble.Options{
		FS: files, MemTableSize: memTableBytes,
		Cache:              pebble.NewCache(cfg.CacheBytes),
		FormatMajorVersion: pebble.FormatNewest, // no older program reads it
	}
	defer options.Cache.Unref() // the database has its own reference
	for i := range options.Levels {
		level := &options.Levels[i]
		level.BlockSize, level.IndexBlockSize, level.Compression = blockBytes, 8*blockBytes, compression
		// The lowest level has nearly all menus, and pebble asks no filter there.
		if level.FilterPolicy = bloom.FilterPolicy(filterBits); i == len(options.Levels)-1 {
			level.FilterPolicy = pebble.NoFilterPolicy
		}
	}
	options.EnsureDefaults() // for the tables that are ingested, too
	var err error
	if s.db, err = lsm.Open(cfg.Dir, options); err != nil {
		return nil, fmt.Errorf("open the menus in %s: %w", cfg.Dir, err)
	}
	s.tables = options.MakeWriterOptions(len(options.Levels)-1, options.FormatMajorVersion.MaxTableFormat())
	if err := s.db.Guard(s.load); err != nil {
		return nil, errors.Join(fmt.Errorf("open the menus in %s: %w", cfg.Dir, err), s.db.Close())
	}
	register(cfg.Registerer, s)
	s.life, s.end = context.WithCancel(context.WithoutCancel(ctx))
	writer := commit.DefaultConfig[*change]()
	writer.Commit, writer.Registerer = s.commit, cfg.Registerer
	s.writer = commit.New(writer)
	return s, nil
}

// load reads the state, or makes that of a new store.
func (s *Store) load() error {
	var err error
	if s.state, err = readState(s.db); !errors.Is(err, pebble.ErrNotFound) {
		return err
	}
	anything, err := s.db.NewIter(nil)
	if err != nil {
		return err
	}
	some := anything.First()
	if err := anything.Close(); err != nil {
		return err
	}
	if some {
		return fmt.Errorf("it is a database of something else: %w", menu.ErrOccupied)
	}
	s.state = state{Format: format, Oldest: 1, Next: 1, Store: rand.Text()}
	value, err := s.state.encode()
	if err != nil {
		return err
	}
	return s.db.Set(stateKey, value, pebble.Sync)
}

func readState(from pebble.Reader) (state, error) {
	value, closer, err := from.Get(stateKey)
	if err != nil {
		return state{}, err
	}
	now, err := decodeState(value)
	return now, errors.Join(err, closer.Close())
}

// begin is what everything begins with that reads: it returns with s.mu held to read, or
// an error.
func (s *Store) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.RLock()
	err := s.usable()
	if err == nil && s.state.Phase == filling {
		err = s.missing()
	}
	if err != nil {
		s.mu.RUnlock()
	}
	return err
}

// usable is why nothing can be done, or nil. It is called with s.mu held.
func (s *Store) usable() error {
	if s.closed {
		return fmt.Errorf("%w: it is closed", menu.ErrUnavailable)
	}
	if err := s.db.Down(); err != nil {
		return fmt.Errorf("%w: %w", menu.ErrUnavailable, err)
	}
	return nil
}

// missing is what is said of a store that was not wholly filled.
func (s *Store) missing() error {
	return fmt.Errorf("%w: %s was not wholly filled with %q: fill it again to go on", menu.ErrMissing, s.dir, s.state.Meta.Origin)
}

// Lookup implements menu.Store. It is processor work and perhaps one access to a local
// disk, so ctx is only looked at before it.
func (s *Store) Lookup(ctx context.Context, id int64) (menu.Page, error) {
	if err := s.begin(ctx); err != nil {
		return menu.Page{}, err
	}
	defer s.mu.RUnlock()
	if id < 1 || id > dataset.MaxID {
		return menu.Page{}, menu.ErrNotFound
	}
	var key [keyBytes]byte
	found, err := s.synced(appendKey(key[:0], menuKind, id))
	if err != nil {
		return menu.Page{}, err
	}
	if !found.exists {
		return menu.Page{Version: found.version}, menu.ErrNotFound
	}
	return found.page(), nil
}

func (e *entry) page() menu.Page { return menu.Page{Body: e.body, Tag: e.tag, Version: e.version} }

// synced is the entry of a key as it is on the disk.
func (s *Store) synced(key []byte) (entry, error) {
	found, err := get(s.db, key)
	if before, changing := s.unsynced(key); changing { // looked at last: what is read before it is not newer
		return before, nil
	}
	return found, err
}

// unsynced is what a key had before the change that is being committed, if there is one.
func (s *Store) unsynced(key []byte) (before entry, changing bool) {
	pending := s.pending.Load()
	if pending == nil {
		return entry{}, false
	}
	before, changing = (*pending)[string(key)]
	return before, changing
}

// get reads an entry; that of a key that nothing was ever stored under is zero.
func get(from pebble.Reader, key []byte) (entry, error) {
	value, closer, err := from.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return entry{}, nil
	}
	if err != nil {
		return entry{}, fmt.Errorf("read %x: %w", key, err)
	}
	found, err := decode(append([]byte(nil), value...))
	if err = errors.Join(err, closer.Close()); err != nil {
		return entry{}, fmt.Errorf("read %x: %w", key, err)
	}
	return found, nil
}

// The ways to go through keys.
type direction bool

const (
	forwards  direction = false
	backwards direction = true
)

// span is the keys from one to before another, and which way to go.
type span struct {
	from, to []byte
	way      direction
}

// each calls take with keys and values as long as it wants more. Both are good until it
// returns.
func each(ctx context.Context, db pebble.Reader, keys span, take func(key, value []byte) (more bool, err error)) (err error) {
	all, err := db.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: keys.from, UpperBound: keys.to})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, all.Close()) }()
	first, next := all.First, all.Next
	if keys.way == backwards {
		first, next = all.Last, all.Prev
	}
	more := true
	for ok := first(); ok && more && ctx.Err() == nil; ok = next() {
		value, err := all.ValueAndErr()
		if err == nil {
			more, err = take(all.Key(), value)
		}
		if err != nil {
			return fmt.Errorf("read %x: %w", all.Key(), err)
		}
	}
	return errors.Join(ctx.Err(), all.Error())
}

// Ping implements menu.Database: it reads what the store says of itself.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.mu.RUnlock()
	_, err := readState(s.db)
	return err
}

// Close ends a filling and the sources of Menus, and waits for the changes that are under
// way. It does not wait for room on a full disk: what was acknowledged is in the log.
func (s *Store) Close() error {
	s.end()
	s.db.GiveUp()
	s.writer.Close()
	s.fill.Lock()
	defer s.fill.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return s.closeErr
	}
	s.closed = true
	s.held.Lock()
	defer s.held.Unlock()
	for source, stop := range s.sources {
		stop()
		s.closeErr = errors.Join(s.closeErr, source.free())
	}
	clear(s.sources)
	s.closeErr = errors.Join(s.closeErr, s.db.Close())
	return s.closeErr
}
