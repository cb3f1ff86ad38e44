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
	"maps"
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

// stream is a stream with its log's length.
type stream struct {
	chat.Stream
	next uint64    // the offset of the next message; those before are durable
	zero time.Time // the show's time when none had elapsed
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

// AddStreams stores streams that there are not yet. One whose id there is stays as it is.
func (l *Log) AddStreams(all []chat.Stream) error {
	l.changing.Lock()
	defer l.changing.Unlock()
	return l.storeStreams(slices.DeleteFunc(slices.Clone(all), func(s chat.Stream) bool {
		_, err := l.Stream(s.ID)
		return err == nil
	})...)
}

// AddStream stores a stream under its id. The error wraps chat.ErrThere if there is one already.
func (l *Log) AddStream(s chat.Stream) error {
	l.changing.Lock()
	defer l.changing.Unlock()
	if _, err := l.Stream(s.ID); err == nil {
		return fmt.Errorf("stream %d: %w", s.ID, chat.ErrThere)
	}
	return l.storeStreams(s)
}

// StartStream stores a stream under the next id, which it returns with it, unless its host has
// one that is live: then the error is chat.ErrLive.
func (l *Log) StartStream(s chat.Stream) (chat.Stream, error) {
	l.changing.Lock()
	defer l.changing.Unlock()
	s.ID = 1
	l.mu.RLock()
	for id, have := range l.streams {
		if have.Live() && have.HostID == s.HostID {
			s.ID = 0
			break
		}
		s.ID = max(s.ID, id+1)
	}
	l.mu.RUnlock()
	if s.ID == 0 {
		return s, chat.ErrLive
	}
	return s, l.storeStreams(s)
}

// EndStream ends a stream: nothing that is said in its room after it has returned is accepted. What was said
// before may be stored a little later than that.
func (l *Log) EndStream(id int64, at time.Time) error {
	l.changing.Lock()
	defer l.changing.Unlock()
	s, err := l.Stream(id)
	if err != nil || !s.Live() {
		return err
	}
	s.Ended = at
	return l.storeStreams(s)
}

// storeStreams is called with l.changing held.
func (l *Log) storeStreams(all ...chat.Stream) error {
	l.open.RLock()
	defer l.open.RUnlock()
	if err := l.usable(); err != nil {
		return err
	}
	// While the disk is full it does not return. Nobody but other changes waits for it.
	if err := l.db.Guard(func() error { return l.writeStreams(all) }); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = nil
	for _, s := range all {
		if have := l.streams[s.ID]; have != nil {
			have.Stream = s
		} else {
			have = &stream{Stream: s}
			l.anchor(have, s.Started)
			l.streams[s.ID] = have
		}
	}
	return nil
}

func (l *Log) writeStreams(all []chat.Stream) (err error) {
	batch := l.db.NewBatch()
	defer func() { err = errors.Join(err, batch.Close()) }()
	for _, s := range all {
		if s.ID < 1 || s.ID > chat.MaxStream {
			return fmt.Errorf("stream %d: an id is from 1 to %d", s.ID, int64(chat.MaxStream))
		}
		value, err := json.Marshal(s)
		if err == nil {
			err = batch.Set(appendKey(nil, streamKind, uint64(s.ID)), value, nil)
		}
		if err != nil {
			return err
		}
	}
	return batch.Commit(pebble.Sync)
}

// anchor sets a show's time to the wall's, or to what it has been already.
func (l *Log) anchor(s *stream, been time.Time) {
	now := l.cfg.Now()
	if now.Before(been) {
		now = been
	}
	s.zero = now.Round(0).Add(-l.cfg.Elapsed()) // without the monotonic time that it may have
}

// Time is the time in a show: of what is said in it, and of its end. It was the wall's when the
// show was added, or the log opened, and runs on by the monotonic clock, so that it goes neither
// back nor ahead where somebody sets the wall's. A log that is opened while the wall's is behind the
// last message goes on from that message's. So one show's times may be off the wall's by what that
// was set meanwhile, and those of the next are not.
func (l *Log) Time(id int64) time.Time {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if s := l.streams[id]; s != nil {
		return s.zero.Add(l.cfg.Elapsed())
	}
	return l.cfg.Now()
}

// Stream returns a stream, or an error that wraps chat.ErrNoStream.
func (l *Log) Stream(id int64) (chat.Stream, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if s := l.streams[id]; s != nil {
		return s.Stream, nil
	}
	return chat.Stream{}, chat.ErrNoStream
}

// Streams returns all streams, those that are live first, and of them the newest first. Nobody may change it. It is
// sorted when the first asks after a change: anybody may ask, as often as one likes.
func (l *Log) Streams() []chat.Stream {
	l.mu.RLock()
	list := l.list
	l.mu.RUnlock()
	if list != nil {
		return list
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.list == nil {
		l.list = l.sorted()
	}
	return l.list
}

// sorted is called with l.mu held.
func (l *Log) sorted() []chat.Stream {
	all := make([]chat.Stream, 0, len(l.streams))
	for s := range maps.Values(l.streams) {
		all = append(all, s.Stream)
	}
	slices.SortFunc(all, chat.CompareStreams)
	return all
}

// Before returns the last messages before an offset, the oldest first, and the offset of the
// next message of the room.
func (l *Log) Before(id int64, offset uint64, limit chat.Limit) (found []chat.Encoded, next uint64, err error) {
	if _, err := l.Stream(id); err != nil {
		return nil, 0, err
	}
	next = l.Length(id) // what is from there on in the database may not be synced
	size := 0
	err = l.walk(within(messageKind, id, 0, min(offset, next)), true, func(number uint64, value []byte) bool {
		if size += len(value); len(found) == limit.Messages || size > limit.Bytes && len(found) > 0 {
			return false
		}
		found = append(found, chat.Encoded{Offset: number, Bytes: slices.Clone(value)})
		return true
	})
	slices.Reverse(found)
	return found, next, err
}
