package recordfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"loadstone/block/dataset"
	"loadstone/block/dictionary"
	"loadstone/system/menu"
)

// File is a Store over one file. It never changes.
type File struct {
	contents atomic.Pointer[contents] // nil once closed
	meta     dataset.Meta
	size     int64
}

// Open checks the header, the dictionary and the index of the file, and maps the records. It
// reads some 13 bytes per menu; Verify reads all. The error wraps menu.ErrMissing,
// ErrVersion or ErrCorrupt.
func Open(path string) (*File, error) {
	c, err := open(path)
	if err != nil {
		return nil, err
	}
	f := &File{meta: c.header.meta, size: c.header.fileSize}
	f.contents.Store(c)
	return f, nil
}

// Lookup finds a menu. The error wraps menu.ErrNotFound if there is none with the id, and
// menu.ErrCorrupt if its record is damaged. The page's body is on the heap.
func (f *File) Lookup(_ context.Context, id int64) (menu.Page, error) {
	return f.contents.Load().page(id)
}

// Compressed finds a menu's frame, without decompressing it. The errors are Lookup's.
func (f *File) Compressed(id int64) (menu.Frame, error) { return f.contents.Load().compressed(id) }

// Dictionary is what all frames of the file were compressed with; nil once it is closed.
func (f *File) Dictionary() *dictionary.Dictionary { return f.contents.Load().with() }

// Meta describes the data set.
func (f *File) Meta() dataset.Meta { return f.meta }

// Size is that of the file, in bytes.
func (f *File) Size() int64 { return f.size }

// Close ends the serving: look-ups return menu.ErrUnavailable. It always returns nil, and may
// be called again.
func (f *File) Close() error {
	f.contents.Store(nil)
	return nil
}

// Menus are all that the file holds, in the order in which they were put in.
func (f *File) Menus() dataset.Source[menu.Menu] { return menus{f} }

type menus struct{ file *File }

func (m menus) Meta() dataset.Meta { return m.file.meta }

func (m menus) All(ctx context.Context) iter.Seq2[menu.Menu, error] {
	return func(yield func(menu.Menu, error) bool) {
		errEnough := errors.New("enough")
		err := m.file.contents.Load().each(ctx, func(_ int64, r record, body []byte) error {
			parsed, err := menu.ParseStored(r.id(), body)
			if err == nil && !yield(parsed, nil) {
				err = errEnough
			}
			return err
		})
		if err != nil && !errors.Is(err, errEnough) {
			yield(menu.Menu{}, err)
		}
	}
}

// Verify reads the whole file and proves that it is what Build wrote: each record has its
// checksum, each body its tag and the JSON of a menu with the record's id, each menu is found by its id,
// and the index leads to nothing else. It decompresses and parses every menu, on one core. Progress may
// be nil. The error wraps menu.ErrCorrupt, or is the context's.
func (f *File) Verify(ctx context.Context, progress dataset.Progress) error {
	c, done := f.contents.Load(), int64(0)
	err := c.each(ctx, func(offset int64, r record, body []byte) error {
		found := false
		c.index.candidates(r.id(), func(at int64) bool {
			found = at == offset
			return !found
		})
		if !found {
			return fmt.Errorf("%w: menu %d at offset %d is not in the index", menu.ErrCorrupt, r.id(), offset)
		}
		if _, err := menu.ParseStored(r.id(), body); err != nil {
			return err
		}
		if done++; progress != nil && done%progressStep == 0 {
			progress(done, c.header.meta.Count)
		}
		return nil
	})
	if err != nil {
		return err
	}
	entries := int64(0)
	for slot := range uint64(c.header.slots) {
		if c.index.at(slot) != 0 {
			entries++
		}
	}
	if entries != c.header.meta.Count {
		return fmt.Errorf("%w: the index has %d entries for %d menus", menu.ErrCorrupt, entries, c.header.meta.Count)
	}
	return nil
}

// progressStep is how many menus Verify reads between two reports: milliseconds.
const progressStep = 1024

// Describe reads what the file at path says it holds, and checks the header and the size, but
// not the contents. Its errors are those of Open.
func Describe(path string) (dataset.Meta, error) {
	h, err := describe(path)
	return h.meta, err
}

func describe(path string) (header, error) {
	file, h, err := openFile(path)
	if err != nil {
		return header{}, err
	}
	return h, file.Close()
}

func open(path string) (*contents, error) {
	file, h, err := openFile(path)
	if err != nil {
		return nil, err
	}
	c, err := load(file, h)
	if err != nil {
		return nil, refusal(path, err)
	}
	return c, nil
}

// openFile opens the file and reads its header. The errors say what to do.
func openFile(path string) (*os.File, header, error) {
	// Opening a pipe would otherwise wait for somebody who writes into it.
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, header{}, fmt.Errorf("open record file %s: %w: publish one first", path, menu.ErrMissing)
	}
	if err != nil {
		return nil, header{}, fmt.Errorf("open record file: %w", err)
	}
	h, err := readHeader(file)
	if err != nil {
		return nil, h, errors.Join(refusal(path, err), file.Close())
	}
	return file, h, nil
}

func readHeader(file *os.File) (header, error) {
	info, err := file.Stat()
	if err != nil {
		return header{}, err
	}
	if !info.Mode().IsRegular() {
		return header{}, fmt.Errorf("%w: it is not a file", menu.ErrVersion)
	}
	buf := make([]byte, min(headerSize, info.Size()))
	if _, err := file.ReadAt(buf, 0); err != nil {
		return header{}, err
	}
	return decodeHeader(buf, info.Size())
}

// refusal says why the file at path cannot be served and, if the file is to blame, what to
// do.
func refusal(path string, err error) error {
	if errors.Is(err, menu.ErrCorrupt) || errors.Is(err, menu.ErrVersion) {
		return fmt.Errorf("record file %s is refused: %w; publish it again", path, err)
	}
	return fmt.Errorf("open record file %s: %w", path, err)
}

func (c *contents) page(id int64) (page menu.Page, err error) {
	err = c.lookup(id, func(r record) error {
		page.Body, err = c.body(r)
		page.Tag = r.tag()
		return err
	})
	if err != nil {
		return menu.Page{}, err
	}
	return page, nil
}

func (c *contents) compressed(id int64) (frame menu.Frame, err error) {
	err = c.lookup(id, func(r record) error {
		frame = menu.Frame{Data: bytes.Clone(r.frame()), Dictionary: c.dictionary, Tag: r.tag()}
		return nil
	})
	return frame, err
}
