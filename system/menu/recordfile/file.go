package recordfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"loadstone/block/dataset"
	"loadstone/block/follow"
	"loadstone/system/menu"
)

// verify proves that the whole file is what Build wrote.
func (c *contents) verify(ctx context.Context, progress dataset.Progress) error {
	done := int64(0)
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
// not the contents. Its errors are those of Follow.
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

// open checks the header, the dictionary and the index of the file, and maps the records. It
// reads some 13 bytes per menu; verify reads all. At most so many bytes of menus are kept in memory.
func open(path string, keep int64) (*contents, error) {
	file, h, err := openFile(path)
	if err != nil {
		return nil, err
	}
	c, err := load(file, h)
	if err != nil {
		return nil, refusal(path, err)
	}
	c.kept, err = newKept(keep)
	return c, err
}

// openFile opens the file and reads its header. The errors say what to do.
func openFile(path string) (*os.File, header, error) {
	o, err := follow.OpenHead(path, headerSize)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, header{}, fmt.Errorf("open record file %s: %w: publish one first", path, menu.ErrMissing)
	case errors.Is(err, follow.ErrNoFile):
		return nil, header{}, refusal(path, fmt.Errorf("%w: %w", menu.ErrVersion, err))
	case err != nil:
		return nil, header{}, fmt.Errorf("open record file: %w", err)
	}
	h, err := decodeHeader(o.Head, o.Size)
	if err != nil {
		return nil, h, errors.Join(refusal(path, err), o.File.Close())
	}
	return o.File, h, nil
}

// refusal says why the file at path cannot be served and, if the file is to blame, what to
// do.
func refusal(path string, err error) error {
	if errors.Is(err, menu.ErrCorrupt) || errors.Is(err, menu.ErrVersion) {
		return fmt.Errorf("record file %s is refused: %w; publish it again", path, err)
	}
	return fmt.Errorf("open record file %s: %w", path, err)
}

// page is the menu with the id, with dst before its body.
func (c *contents) page(dst []byte, id int64) (menu.Page, error) {
	if c == nil {
		return menu.Page{Body: dst}, menu.ErrUnavailable
	}
	if page, ok := c.kept.find(id); ok {
		page.Body = append(dst, page.Body...)
		return page, nil
	}
	page := menu.Page{Body: dst}
	err := c.lookup(id, func(r record) (err error) {
		page.Body, err = c.body(dst, r)
		page.Tag = r.tag()
		return err
	})
	if err != nil {
		return menu.Page{Body: dst}, err
	}
	c.kept.add(id, page.Body[len(dst):], page.Tag)
	return page, nil
}

func (c *contents) compressed(id int64) (frame menu.Frame, err error) {
	err = c.lookup(id, func(r record) error {
		frame = menu.Frame{Data: bytes.Clone(r.frame()), Dictionary: c.dictionary, Tag: r.tag()}
		return nil
	})
	return frame, err
}
