package follow

import (
	"io/fs"
	"time"

	"loadstone/block/dataset"
)

// Settings say how files that hold a data set each are followed.
type Settings struct {
	// Interval is the time between two looks at the path. A look is one stat.
	Interval time.Duration
	Events   Events
}

// Events are told what happens; any may be nil. They run on the goroutine of Follower.Run,
// which waits for them.
type Events struct {
	// Switched: the new file's data set is the current one from now on.
	Switched func(from, to dataset.Meta)
	// Refused: the file at the path cannot be served, or is gone; the old one still is
	// served. It is told once per file, not once per look.
	Refused func(err error)
}

// DefaultSettings look every second, which no reader notices and no machine feels.
func DefaultSettings() Settings { return Settings{Interval: time.Second} }

// DataSet is Open for files that hold a data set each, of which meta says what it is.
func DataSet[T any](path string, s Settings, load func(path string) (*T, fs.FileInfo, error), meta func(*T) dataset.Meta) (*Follower[T], error) {
	return Open(path, Config[T]{
		Interval: s.Interval, Load: load, Refused: s.Events.Refused,
		Switched: func(from, to *T) {
			if s.Events.Switched != nil {
				s.Events.Switched(meta(from), meta(to))
			}
		},
	})
}
