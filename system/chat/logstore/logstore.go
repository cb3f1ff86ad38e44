// Package logstore keeps the messages of all rooms in a pebble database: the embedded log.
//
// One goroutine writes (package commit). It takes all drafts that wait, gives each the next
// offset of its room, and commits them as one batch, synced before anybody is told. So an
// offset is a message's from the moment it is durable, and never another's: what pebble shows
// before it is synced is above the offsets that readers look at.
//
// A draft whose sender has said the same id in the room before is that message sent again, now
// or years ago: the offset of each is kept under the sender's id, in the same batch.
//
// It fails closed. While the disk is full nothing is stored, and what is there can be read;
// who reads what the disk has damaged gets an error, and all else can be read;
// what else pebble cannot survive ends the log until the process starts anew, see package lsm.
// The log owns its directory and locks it.
package logstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"loadstone/block/commit"
	"loadstone/block/lsm"
	"loadstone/system/chat"
)

var (
	errCorrupt = errors.New("the log is damaged")
	errForeign = errors.New("it is a database of something else: name another directory")
	errNoLog   = errors.New("there is no log: name the directory of one")
)

// Config says where the log is.
type Config struct {
	// Dir is the log's directory. It is made if there is none.
	Dir string
	// CacheBytes is for blocks of the tree, decompressed.
	CacheBytes int64
	// Registerer receives the metrics, see Open. Nil for nobody.
	Registerer prometheus.Registerer
	// Now is the wall's time, and Elapsed the monotonic one since any moment: that of shows, see Time.
	Now     func() time.Time
	Elapsed func() time.Duration
}

// DefaultConfig has a cache of 32 MiB: rooms have the newest messages themselves. Dir is
// for the caller to set.
func DefaultConfig() Config {
	began := time.Now()
	return Config{CacheBytes: 32 << 20, Now: time.Now, Elapsed: func() time.Duration { return time.Since(began) }}
}

// Log is the log of all rooms. It is safe for concurrent use.
type Log struct {
	cfg     Config
	db      *lsm.DB
	meta    meta
	writer  *commit.Writer[*chat.Draft]
	stored  prometheus.Counter
	repeats prometheus.Counter

	// open is held by whoever uses the database: pebble panics when it is read after its end.
	// Only Close locks it for writing.
	open   sync.RWMutex
	closed bool

	changing sync.Mutex // held by who changes streams, over the write

	mu      sync.RWMutex // never held over a call of the database
	streams map[int64]*stream
	list    []chat.Stream // of them, in the order of Streams; nil until somebody asks
}

// meta is what the log says of itself.
type meta struct {
	Format int        `json:"format"`
	Epoch  chat.Epoch `json:"epoch"`
	// Key signs the tokens of the log's server.
	Key []byte `json:"key"`
}

const format, keyBytes = 1, 32

// Open opens the log in the directory, or makes it. The error wraps lsm.ErrInUse if another
// process has it open. The metrics, without labels, beside those of package commit:
//
//	chat_messages_stored_total    messages that became durable
//	chat_messages_repeated_total  messages that were sent again
//	chat_log_damage_total         reads of files whose contents are not what was written
//
// Nobody else on the machine can read the directory: the key is in it.
func Open(ctx context.Context, cfg Config) (*Log, error) {
	if err := protect(cfg.Dir); err != nil {
		return nil, fmt.Errorf("open the log in %s: %w", cfg.Dir, err)
	}
	return openOn(ctx, vfs.Default, cfg)
}

// OpenExisting opens the log in the directory as Open does, and makes none.
func OpenExisting(ctx context.Context, cfg Config) (*Log, error) {
	// Pebble's marker of its manifest is there from its first start on.
	found, err := filepath.Glob(filepath.Join(cfg.Dir, "marker.manifest.*"))
	if err == nil && len(found) == 0 {
		err = errNoLog
	}
	if err != nil {
		return nil, fmt.Errorf("open the log in %s: %w", cfg.Dir, err)
	}
	return Open(ctx, cfg)
}

// protect makes a directory for its owner alone, or one that is empty or a database so.
func protect(dir string) error {
	const owner, others = 0o700, 0o077
	if err := os.MkdirAll(dir, owner); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm()&others == 0 {
		return err
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if len(files) > 0 && !slices.ContainsFunc(files, func(f os.DirEntry) bool { return f.Name() == "LOCK" }) {
		return errors.New("it has other files, and others can read it: name another directory")
	}
	return os.Chmod(dir, owner)
}

func openOn(ctx context.Context, files vfs.FS, cfg Config) (*Log, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	const filterBits = 10 // one in a hundred messages reads a block in vain, to see whether it was sent before
	options := &pebble.Options{FS: files, Cache: pebble.NewCache(cfg.CacheBytes), FormatMajorVersion: pebble.FormatNewest}
	defer options.Cache.Unref() // the database has its own reference
	for i := range options.Levels {
		options.Levels[i].FilterPolicy = bloom.FilterPolicy(filterBits)
	}
	db, err := lsm.Open(cfg.Dir, options)
	if err != nil {
		return nil, fmt.Errorf("open the log in %s: %w", cfg.Dir, err)
	}
	l := &Log{cfg: cfg, db: db, streams: map[int64]*stream{}}
	if err := db.Guard(l.load); err != nil {
		return nil, errors.Join(fmt.Errorf("open the log in %s: %w", cfg.Dir, err), db.Close())
	}
	auto := promauto.With(cfg.Registerer)
	l.stored = auto.NewCounter(prometheus.CounterOpts{Name: "chat_messages_stored_total", Help: "Messages that became durable."})
	l.repeats = auto.NewCounter(prometheus.CounterOpts{Name: "chat_messages_repeated_total", Help: "Messages that were sent again."})
	auto.NewCounterFunc(prometheus.CounterOpts{Name: "chat_log_damage_total", Help: "Reads of files whose contents are not what was written."},
		func() float64 { return float64(db.Damage()) })
	writer := commit.DefaultConfig[*chat.Draft]()
	writer.Commit, writer.Registerer = l.commit, cfg.Registerer
	l.writer = commit.New(writer)
	return l, nil
}

// load reads what the log says of itself, or makes that of a new one, and the streams with
// the lengths of their logs.
func (l *Log) load() error {
	value, closer, err := l.db.Get(metaKey)
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		if err := l.begin(); err != nil {
			return err
		}
	case err != nil:
		return err
	default:
		err := json.Unmarshal(value, &l.meta)
		if err = errors.Join(err, closer.Close()); err != nil {
			return err
		}
	}
	if l.meta.Format != format {
		return fmt.Errorf("it has format %d, and this program reads %d", l.meta.Format, format)
	}
	if err := l.each(appendKey(nil, streamKind), appendKey(nil, streamKind+1), func(_, value []byte) error {
		s := &stream{}
		if err := json.Unmarshal(value, &s.Stream); err != nil {
			return err
		}
		l.streams[s.ID] = s
		l.anchor(s, s.Started)
		return nil
	}); err != nil {
		return err
	}
	return l.lengths()
}

// begin makes a new log, in a database with nothing in it.
func (l *Log) begin() error {
	if err := l.each(nil, nil, func(_, _ []byte) error { return errForeign }); err != nil {
		return err
	}
	var random [numberBytes + keyBytes]byte
	_, _ = rand.Read(random[:]) // it never fails
	l.meta = meta{Format: format, Epoch: chat.Epoch(binary.BigEndian.Uint64(random[:])), Key: random[numberBytes:]}
	value, err := json.Marshal(l.meta)
	if err != nil {
		return err
	}
	return l.db.Set(metaKey, value, pebble.Sync)
}

// lengths finds the length of each room's log.
func (l *Log) lengths() (err error) {
	all, err := l.db.NewIter(nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, all.Close()) }()
	for id, s := range l.streams {
		prefix := appendKey(nil, messageKind, uint64(id))
		if !all.SeekLT(appendKey(nil, messageKind, uint64(id)+1)) {
			// The next seek forgets why, and a room that could not be read is not an empty one.
			if err := all.Error(); err != nil {
				return err
			}
			continue
		}
		if !bytes.HasPrefix(all.Key(), prefix) {
			continue
		}
		last, err := lastNumber(all.Key())
		if err != nil {
			return err
		}
		s.next = last + 1
		if value, err := all.ValueAndErr(); err == nil && s.Live() { // who reads what is damaged hears of it
			if m, err := chat.ParseMessage(value); err == nil {
				l.anchor(s, time.UnixMilli(m.At))
			}
		}
	}
	return all.Error()
}

// each calls take with what is under the keys from one to before another.
func (l *Log) each(from, to []byte, take func(key, value []byte) error) (err error) {
	all, err := l.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, all.Close()) }()
	for ok := all.First(); ok; ok = all.Next() {
		value, err := all.ValueAndErr()
		if err == nil {
			err = take(all.Key(), value)
		}
		if err != nil {
			return err
		}
	}
	return all.Error()
}

// Epoch is the log's name, the same after each start.
func (l *Log) Epoch() chat.Epoch { return l.meta.Epoch }

// NewEpoch gives the log another name, for who has restored a backup: what viewers have seen
// after it was made is not in it, and the offsets are given again. Nobody may use the log meanwhile.
func (l *Log) NewEpoch() error {
	var random [numberBytes]byte
	_, _ = rand.Read(random[:]) // it never fails
	m := l.meta
	m.Epoch = chat.Epoch(binary.BigEndian.Uint64(random[:]))
	value, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if err := l.db.Guard(func() error { return l.db.Set(metaKey, value, pebble.Sync) }); err != nil {
		return err
	}
	l.meta = m
	return nil
}

// Key is a secret of the log's, the same after each start.
func (l *Log) Key() []byte { return l.meta.Key }

// Ready reports whether messages can be stored.
func (l *Log) Ready() bool { return l.db.Down() == nil && !l.db.Full() }

// Run waits until ctx ends, or the log cannot go on, and returns why.
func (l *Log) Run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-l.db.Stopped():
		return l.db.Down()
	}
}

// Close writes what was accepted and closes the database.
func (l *Log) Close() error {
	l.db.GiveUp()
	l.writer.Close()
	l.open.Lock()
	defer l.open.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	return l.db.Close()
}

// usable is why nothing can be read, or nil. It is called with l.open held.
func (l *Log) usable() error {
	if l.closed {
		return fmt.Errorf("%w: it is closed", chat.ErrUnavailable)
	}
	if err := l.db.Down(); err != nil {
		return fmt.Errorf("%w: %w", chat.ErrUnavailable, err)
	}
	return nil
}
