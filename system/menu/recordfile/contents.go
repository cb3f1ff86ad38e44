package recordfile

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"loadstone/block/dictionary"
	"loadstone/system/menu"
)

// newIndex takes memory for an index that the garbage collector does not count: it would let
// the heap grow to twice its size.
func newIndex(slots int64) (index, error) {
	memory, err := unix.Mmap(-1, 0, int(slots*slotSize), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("take %d bytes of memory: %w", slots*slotSize, err)
	}
	return memory, nil
}

func (x index) free() error { return unix.Munmap(x) }

// contents is an open file: the proven parts, and the mapping of the records. It is unmapped
// and closed when it is no longer reachable, so whoever reads index or mapped needs a
// runtime.KeepAlive behind the reading.
type contents struct {
	header     header
	dictionary *dictionary.Dictionary
	index      index
	mapped     []byte // of the file up to the end of the records
	file       *os.File
	readers    sync.Pool // of *record
	kept       *kept
}

// load checks and maps an open file, which it owns from then on, also in case of an error.
func load(file *os.File, h header) (_ *contents, err error) {
	c, raw := &contents{header: h, file: file}, make([]byte, h.dictionarySize)
	defer func() {
		if err != nil {
			err = errors.Join(err, release(c.file, c.index, c.mapped))
		}
	}()
	if c.index, err = newIndex(h.slots); err != nil {
		return nil, err
	}
	err = errors.Join(
		checked(file, raw, headerSize, "dictionary", h.dictionarySum),
		checked(file, c.index, h.recordsEnd, "index", h.indexSum))
	if err != nil {
		return nil, err
	}
	if c.dictionary, err = dictionary.New(raw, menu.MaxBodyBytes); err != nil {
		return nil, fmt.Errorf("%w: %w", menu.ErrCorrupt, err)
	}
	if c.mapped, err = unix.Mmap(int(file.Fd()), 0, int(h.recordsEnd), unix.PROT_READ, unix.MAP_SHARED); err != nil {
		return nil, fmt.Errorf("map it: %w", err)
	}
	// Records are small and read in any order: to read ahead would be to read for nothing.
	if err := errors.Join(unix.Madvise(c.mapped, unix.MADV_RANDOM), unix.Mprotect(c.index, unix.PROT_READ)); err != nil {
		return nil, fmt.Errorf("map it: %w", err)
	}
	type held struct {
		file          *os.File
		index, mapped []byte
	}
	// Nobody is left to be told of an error.
	runtime.AddCleanup(c, func(h held) { _ = release(h.file, h.index, h.mapped) }, held{c.file, c.index, c.mapped})
	return c, nil
}

func release(file *os.File, mappings ...[]byte) error {
	err := file.Close()
	for _, mapping := range mappings {
		if mapping != nil {
			err = errors.Join(err, unix.Munmap(mapping))
		}
	}
	return err
}

// checked reads a part of the file into buf.
func checked(file *os.File, buf []byte, offset int64, what string, sum uint32) error {
	if _, err := file.ReadAt(buf, offset); errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: it became shorter while it was read", menu.ErrCorrupt)
	} else if err != nil {
		return fmt.Errorf("read the %s: %w", what, err)
	}
	if got := crc32.Checksum(buf, castagnoli); got != sum {
		return fmt.Errorf("%w: the %s has the checksum %08x instead of %08x", menu.ErrCorrupt, what, got, sum)
	}
	return nil
}

// reader takes what one look-up reads its record into.
func (c *contents) reader() *record {
	if r, ok := c.readers.Get().(*record); ok {
		return r
	}
	return new(record)
}

// with is the dictionary; nil of nil contents.
func (c *contents) with() *dictionary.Dictionary {
	if c == nil {
		return nil
	}
	return c.dictionary
}

// lookup finds the menu with the id and hands its record to read.
// It is safe on nil contents, those of a closed store.
func (c *contents) lookup(id int64, read func(r record) error) error {
	if c == nil {
		return menu.ErrUnavailable
	}
	defer runtime.KeepAlive(c)
	r := c.reader()
	defer c.readers.Put(r)
	var err error
	found := false
	c.index.candidates(id, func(offset int64) bool {
		if err = c.fetch(r, offset); err == nil {
			found = r.id() == id
		}
		return err == nil && !found
	})
	switch {
	case err != nil:
		return fmt.Errorf("menu %d: %w", id, err)
	case !found:
		return menu.ErrNotFound
	}
	return read(*r)
}

// fetch copies the record at the offset out of the mapping, and checks it.
func (c *contents) fetch(r *record, offset int64) error {
	if err := c.copy(r, offset); err != nil {
		return err
	}
	if !r.sealed(c.header.dictionarySum) {
		return fmt.Errorf("%w: the record at offset %d does not match its checksum", menu.ErrCorrupt, offset)
	}
	return nil
}

// copy is fetch without the check. A page of the file that is gone, or that the disk cannot
// read, is a fault in the middle of it, which the runtime turns into a panic.
func (c *contents) copy(r *record, offset int64) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if problem := recover(); problem != nil {
			if _, fault := problem.(interface{ Addr() uintptr }); !fault {
				panic(problem)
			}
			err = fmt.Errorf("%w: the record at offset %d cannot be read", menu.ErrCorrupt, offset)
		}
	}()
	if offset < c.header.records() || offset+recordHeader > c.header.recordsEnd {
		return fmt.Errorf("%w: the index leads to offset %d", menu.ErrCorrupt, offset)
	}
	*r = append((*r)[:0], c.mapped[offset:offset+recordHeader]...)
	length := r.length()
	if length > recordHeader+maxFrame || offset+length > c.header.recordsEnd {
		return fmt.Errorf("%w: the record at offset %d would have %d bytes", menu.ErrCorrupt, offset, length)
	}
	*r = append(*r, c.mapped[offset+recordHeader:offset+length]...)
	return nil
}

// body decompresses the record behind dst, and proves that it is the body that the tag was made of.
func (c *contents) body(dst []byte, r record) ([]byte, error) {
	body, err := c.dictionary.Decompress(dst, r.frame())
	if err != nil {
		return dst, fmt.Errorf("%w: menu %d: decompress: %w", menu.ErrCorrupt, r.id(), err)
	}
	if menu.Tag(body[len(dst):]) != r.tag() {
		return dst, fmt.Errorf("%w: the body of menu %d does not match its tag", menu.ErrCorrupt, r.id())
	}
	return body, nil
}

// next reads the record that follows into r.
func next(in io.Reader, r *record) error {
	*r = slices.Grow((*r)[:0], recordHeader)[:recordHeader]
	if _, err := io.ReadFull(in, *r); err != nil {
		return err
	}
	length := r.length()
	if length > recordHeader+maxFrame {
		return fmt.Errorf("it would have %d bytes", length)
	}
	*r = slices.Grow(*r, int(length)-recordHeader)[:length]
	_, err := io.ReadFull(in, (*r)[recordHeader:])
	return err
}

// each reads every record, in their order, with its body, from the file: the mapping is for
// reading here and there. Both are good until do returns.
func (c *contents) each(ctx context.Context, do func(offset int64, r record, body []byte) error) error {
	if c == nil {
		return menu.ErrUnavailable
	}
	defer runtime.KeepAlive(c)
	r := c.reader()
	defer c.readers.Put(r)
	const ahead = 1 << 20
	in, body := bufio.NewReaderSize(io.NewSectionReader(c.file, c.header.records(), c.header.recordsEnd-c.header.records()), ahead), []byte(nil)
	count := int64(0)
	for offset := c.header.records(); offset < c.header.recordsEnd; count++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := next(in, r); err != nil {
			return fmt.Errorf("%w: record %d at offset %d: %w", menu.ErrCorrupt, count+1, offset, err)
		}
		if !r.sealed(c.header.dictionarySum) {
			return fmt.Errorf("%w: record %d at offset %d does not match its checksum", menu.ErrCorrupt, count+1, offset)
		}
		var err error
		if body, err = c.body(body[:0], *r); err != nil {
			return err
		}
		if err := do(offset, *r, body); err != nil {
			return err
		}
		offset += r.length()
	}
	if count != c.header.meta.Count {
		return fmt.Errorf("%w: it holds %d menus instead of %d", menu.ErrCorrupt, count, c.header.meta.Count)
	}
	return nil
}
