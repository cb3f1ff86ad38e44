package snapshot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"loadstone/block/dataset"
	"loadstone/system/results"
)

// Config says how a Follower looks for new files.
type Config struct {
	// Interval is the time between two looks at the path. A look is one stat.
	Interval time.Duration
	Events   Events
}

// Events are told what happens; any may be nil. They run on the goroutine of
// Follower.Run, which waits for them.
type Events struct {
	// Switched: look-ups are now answered from the new file.
	Switched func(from, to dataset.Meta)
	// Refused: the file at the path cannot be served, or is gone; the old one
	// still is served. It is told once per file, not once per look.
	Refused func(err error)
}

// DefaultConfig looks every second, which no reader of results notices and no
// machine feels.
func DefaultConfig() Config { return Config{Interval: time.Second} }

// Validate returns every problem, joined.
func (c Config) Validate() error {
	if c.Interval <= 0 {
		return fmt.Errorf("interval is %v: write a duration above 0", c.Interval)
	}
	return nil
}

// Follower is a Store over whatever snapshot is at a path.
//
// The current file is one atomic pointer. A look-up loads it once, so its whole
// answer comes from one file, the old or the new one; there is no moment without
// a file. A new file is checked completely before the pointer moves, beside the
// look-ups, at the cost of Open in processor time. The old mapping goes as the
// package comment explains, when the last page of it is gone.
//
// A file is told from another by device, inode, size and time of change. The
// inode of the current file cannot come back for another one, because the
// mapping holds it.
type Follower struct {
	path    string
	config  Config
	current atomic.Pointer[contents] // nil once closed

	mu     sync.Mutex // held to change current; guards closed
	closed bool

	served  identity // of the current file; only Run uses it
	refused identity // of the last file that was refused; only Run uses it
}

// identity tells files apart. The zero identity is the absence of a file.
type identity struct {
	device, inode uint64
	size          int64
	changed       unix.Timespec // mtime
}

func identify(file *os.File) (identity, error) {
	var stat unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &stat); err != nil {
		return identity{}, fmt.Errorf("stat: %w", err)
	}
	return identityOf(&stat), nil
}

func identityOf(stat *unix.Stat_t) identity {
	return identity{device: stat.Dev, inode: stat.Ino, size: stat.Size, changed: stat.Mtim}
}

// Follow opens the snapshot that is at path now; its errors are those of Open.
// Newer files are noticed while Run runs.
func Follow(path string, config Config) (*Follower, error) {
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("follow snapshot %s: %w", path, err)
	}
	contents, id, err := load(path)
	if err != nil {
		return nil, err
	}
	follower := &Follower{path: path, config: config, served: id, refused: id}
	follower.current.Store(contents)
	return follower, nil
}

// Lookup finds a student's page in the current file. It allocates nothing.
func (f *Follower) Lookup(_ context.Context, id int64) (results.Page, error) {
	return f.current.Load().lookup(id)
}

// Meta describes the current data set; it is empty once the follower is closed.
func (f *Follower) Meta() dataset.Meta {
	if contents := f.current.Load(); contents != nil {
		return contents.header.meta
	}
	return dataset.Meta{}
}

// Close ends the serving: look-ups return results.ErrUnavailable. Pages handed
// out before stay valid. It does not end Run, whose context does. It always
// returns nil, and may be called again.
func (f *Follower) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.current.Store(nil)
	return nil
}

// Run looks for new files until the context ends, and then returns nil. It is
// called once.
func (f *Follower) Run(ctx context.Context) error {
	ticker := time.NewTicker(f.config.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			f.look()
		}
	}
}

// look serves the file at the path if it is another one than before.
func (f *Follower) look() {
	if f.current.Load() == nil {
		return // closed
	}
	seen, err := f.stat()
	if err == nil && seen == f.served {
		f.refused = seen
		return
	}
	if seen == f.refused {
		return
	}
	// From here on the file is served or refused; a file that was refused is not
	// tried again before it changes.
	f.refused = seen
	if err != nil {
		f.tellRefused(err)
		return
	}
	contents, id, err := load(f.path)
	if err != nil {
		f.tellRefused(err)
		return
	}
	if from, ok := f.swap(contents); ok {
		f.served, f.refused = id, id
		if f.config.Events.Switched != nil {
			f.config.Events.Switched(from, contents.header.meta)
		}
	}
}

// stat identifies the file at the path. An error comes with the identity of no
// file, so that it, too, is told once.
func (f *Follower) stat() (identity, error) {
	var stat unix.Stat_t
	err := unix.Stat(f.path, &stat)
	if errors.Is(err, unix.ENOENT) {
		return identity{}, fmt.Errorf("stat snapshot %s: %w", f.path, results.ErrMissing)
	}
	if err != nil {
		return identity{}, fmt.Errorf("stat snapshot %s: %w", f.path, err)
	}
	return identityOf(&stat), nil
}

func (f *Follower) swap(to *contents) (from dataset.Meta, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return dataset.Meta{}, false
	}
	from = f.current.Load().header.meta
	f.current.Store(to)
	return from, true
}

func (f *Follower) tellRefused(err error) {
	if f.config.Events.Refused != nil {
		f.config.Events.Refused(err)
	}
}
