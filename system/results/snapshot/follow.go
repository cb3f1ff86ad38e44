package snapshot

import (
	"context"
	"time"

	"loadstone/block/dataset"
	"loadstone/block/follow"
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

// Follower is a Store over whatever snapshot is at a path.
//
// A look-up takes the current file once, so its whole answer comes from one file, the old or
// the new one; there is no moment without a file. A new file is checked completely before
// it is, beside the look-ups, at the cost of Follow in processor time. The old copy goes as
// the package comment explains, when the last page of it is gone.
type Follower struct{ files *follow.Follower[contents] }

// Follow reads the file that is at path now and checks all of it, about a third of a second
// for 674,823 students. The error wraps results.ErrMissing, ErrVersion or ErrCorrupt. Newer
// files are noticed while Run runs.
func Follow(path string, config Config) (*Follower, error) {
	files, err := follow.Open(path, follow.Config[contents]{
		Interval: config.Interval, Load: load, Refused: config.Events.Refused,
		Switched: func(from, to *contents) {
			if config.Events.Switched != nil {
				config.Events.Switched(from.header.meta, to.header.meta)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	return &Follower{files}, nil
}

// Lookup finds a student's page in the current file. It allocates nothing.
func (f *Follower) Lookup(_ context.Context, id int64) (results.Page, error) {
	return f.files.Current().lookup(id)
}

// Meta describes the current data set; it is empty once the follower is closed.
func (f *Follower) Meta() dataset.Meta {
	if contents := f.files.Current(); contents != nil {
		return contents.header.meta
	}
	return dataset.Meta{}
}

// Close ends the serving: look-ups return results.ErrUnavailable. Pages handed
// out before stay valid. It does not end Run, whose context does. It always
// returns nil, and may be called again.
func (f *Follower) Close() error { return f.files.Close() }

// Run looks for new files until the context ends, and then returns nil. It is
// called once.
func (f *Follower) Run(ctx context.Context) error { return f.files.Run(ctx) }
