// Package follow keeps what was loaded from a file current: when another file is at the path,
// it is loaded, and takes the old one's place if that succeeds.
//
// It knows neither what is in a file, but that it may be a data set, nor how it is served.
package follow

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Config says how a Follower looks for new files.
type Config[T any] struct {
	// Interval is the time between two looks at the path. A look is one stat.
	Interval time.Duration
	// Load loads the file at the path, completely checked, and says which file that was.
	// What it returns should keep the file open, so that its inode is not given to
	// another one, which would be taken for it.
	Load func(path string) (*T, fs.FileInfo, error)
	// Switched: from now on Current is to. It may be nil, and runs on the goroutine of
	// Run, which waits for it, as Refused does.
	Switched func(from, to *T)
	// Refused: the file at the path cannot be loaded, or is gone; Current is as before.
	// It is told once per file, not once per look. It may be nil.
	Refused func(err error)
}

// Validate returns every problem, joined.
func (c Config[T]) Validate() error {
	var problems []error
	if c.Interval <= 0 {
		problems = append(problems, fmt.Errorf("interval is %v: write a duration above 0", c.Interval))
	}
	if c.Load == nil {
		problems = append(problems, errors.New("load is nil: write what loads a file"))
	}
	return errors.Join(problems...)
}

// Follower has what was loaded from the file at a path. It is one atomic pointer: whoever
// takes it once has all from one file, the old or the new one, and there is no moment
// without a file. A new one is loaded beside the use of the old one.
//
// A file is told from another by device, inode, size and time of change.
type Follower[T any] struct {
	path    string
	config  Config[T]
	current atomic.Pointer[T] // nil once closed

	mu     sync.Mutex // held to change current; guards closed
	closed bool

	served  fs.FileInfo // of current; only Run uses it
	refused fs.FileInfo // of the last file that was looked at; nil for no file; only Run uses it
}

// Open loads the file that is at path now; its errors are those of Load. Newer files are
// noticed while Run runs.
func Open[T any](path string, config Config[T]) (*Follower[T], error) {
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("follow %s: %w", path, err)
	}
	loaded, info, err := config.Load(path)
	if err != nil {
		return nil, err
	}
	f := &Follower[T]{path: path, config: config, served: info, refused: info}
	f.current.Store(loaded)
	return f, nil
}

// Current is what was loaded last; nil once the follower is closed.
func (f *Follower[T]) Current() *T { return f.current.Load() }

// Close lets go of what was loaded. It does not end Run, whose context does. It always
// returns nil, and may be called again.
func (f *Follower[T]) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.current.Store(nil)
	return nil
}

// Run looks for new files until the context ends, and then returns nil. It is called once.
func (f *Follower[T]) Run(ctx context.Context) error {
	ticker := time.NewTicker(f.config.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			f.Look()
		}
	}
}

// Look loads the file at the path if it is another one than before. A file that was refused
// is not tried again before it changes. Run calls it; nobody else may while that runs.
func (f *Follower[T]) Look() {
	if f.Current() == nil {
		return // closed
	}
	seen, err := os.Stat(f.path)
	if err != nil {
		seen = nil // no file: that, too, is told once
	}
	if seen != nil && same(seen, f.served) {
		f.refused = seen
		return
	}
	if same(seen, f.refused) {
		return
	}
	f.refused = seen
	loaded, info, err := f.config.Load(f.path)
	if err != nil {
		if f.config.Refused != nil {
			f.config.Refused(err)
		}
		return
	}
	if from, ok := f.swap(loaded); ok {
		f.served, f.refused = info, info
		if f.config.Switched != nil {
			f.config.Switched(from, loaded)
		}
	}
}

func same(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

func (f *Follower[T]) swap(to *T) (from *T, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, false
	}
	return f.current.Swap(to), true
}
