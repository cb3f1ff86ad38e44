package recordfile

import (
	"context"
	"io/fs"

	"loadstone/block/dataset"
	"loadstone/block/dictionary"
	"loadstone/block/follow"
	"loadstone/system/menu"
)

// Config says how a Follower looks for new files, and what of them it keeps.
type Config struct {
	follow.Settings

	// CacheBytes bounds the memory for menus that were looked up, decompressed: such a look-up reads
	// nothing of the file. 0 is for none.
	CacheBytes int64
}

// DefaultConfig looks every second, and has 32 MiB for some 25,000 menus.
func DefaultConfig() Config {
	return Config{Settings: follow.DefaultSettings(), CacheBytes: 32 << 20}
}

// Follower is a Store over whatever record file is at a path. An answer comes from one file,
// the old or the new one, and there is no moment without a file.
type Follower struct{ files *follow.Follower[contents] }

// Follow opens the file that is at path now. The error wraps menu.ErrMissing, ErrVersion or
// ErrCorrupt. Newer files are noticed while Run runs.
func Follow(path string, config Config) (*Follower, error) {
	files, err := follow.DataSet(path, config.Settings, func(path string) (*contents, fs.FileInfo, error) {
		c, err := open(path, config.CacheBytes)
		if err != nil {
			return nil, nil, err
		}
		info, err := c.file.Stat()
		return c, info, err
	}, func(c *contents) dataset.Meta { return c.header.meta })
	if err != nil {
		return nil, err
	}
	return &Follower{files}, nil
}

// Run looks for new files until the context ends, and then returns nil. It is called once.
func (f *Follower) Run(ctx context.Context) error { return f.files.Run(ctx) }

// Verify reads the whole current file and proves that it is what Build wrote: each record has its
// checksum, each body its tag and the JSON of a menu with the record's id, each menu is found by its id,
// and the index leads to nothing else. It decompresses and parses every menu, on one core. Progress may
// be nil. The error wraps menu.ErrCorrupt, or is the context's.
func (f *Follower) Verify(ctx context.Context, progress dataset.Progress) error {
	return f.files.Current().verify(ctx, progress)
}

// Lookup finds a menu in the current file. The error wraps menu.ErrNotFound if there is none with
// the id, and menu.ErrCorrupt if its record is damaged. The page's body is on the heap.
func (f *Follower) Lookup(_ context.Context, id int64) (menu.Page, error) {
	return f.files.Current().page(nil, id)
}

// Append implements menu.Appending; its errors are Lookup's.
func (f *Follower) Append(dst []byte, id int64) (menu.Page, error) {
	return f.files.Current().page(dst, id)
}

// Compressed finds a menu's frame in the current file, without decompressing it. The errors are
// Lookup's. The dictionary of the next frame may be another one.
func (f *Follower) Compressed(id int64) (menu.Frame, error) { return f.files.Current().compressed(id) }

// Dictionary is that of the current file; nil once the follower is closed.
func (f *Follower) Dictionary() *dictionary.Dictionary { return f.files.Current().with() }

// Meta describes the current data set; it is empty once the follower is closed.
func (f *Follower) Meta() dataset.Meta {
	if c := f.files.Current(); c != nil {
		return c.header.meta
	}
	return dataset.Meta{}
}

// Size is that of the current file, in bytes.
func (f *Follower) Size() int64 { return f.files.Current().header.fileSize }

// Close ends the serving: look-ups return menu.ErrUnavailable. It does not end Run, whose
// context does. It always returns nil, and may be called again.
func (f *Follower) Close() error { return f.files.Close() }
