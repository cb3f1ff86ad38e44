package snapshot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"loadstone/system/results"
)

// contents is a proven copy of a file, in a mapping of its own. The mapping lives exactly as
// long as this object is reachable, see the package comment; whoever reads data needs a
// runtime.KeepAlive on the contents behind the reading.
type contents struct {
	header header
	set    results.Set
	data   []byte // the whole file, read-only
	index  []byte // its last part
	mask   uint64 // slots - 1
	// file stays open, so that its inode is not given to another one, which a Follower
	// might take for it. It is closed with the mapping, by its own cleanup.
	file *os.File
}

// load copies and checks the file at path, and says which file that was.
func load(path string) (*contents, fs.FileInfo, error) {
	file, header, err := openFile(path)
	if err != nil {
		return nil, nil, err
	}
	info, statErr := file.Stat()
	copied, err := copyFile(file, header)
	if err == nil {
		err = copied.verify()
	}
	if err := errors.Join(statErr, err); err != nil {
		return nil, nil, errors.Join(refusal(path, err), file.Close())
	}
	return copied, info, nil
}

// copyFile reads the file into memory that the garbage collector does not count: it would
// let the heap grow to twice its size.
func copyFile(file *os.File, h header) (*contents, error) {
	data, err := unix.Mmap(-1, 0, int(h.fileSize), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("take %d bytes of memory: %w", h.fileSize, err)
	}
	c := newContents(data, h)
	c.file = file
	// Unmap fails only for an address that was not mapped, and nobody is left to
	// be told.
	runtime.AddCleanup(c, func(data []byte) { _ = unix.Munmap(data) }, data)
	defer runtime.KeepAlive(c)
	if _, err := file.ReadAt(data, 0); errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: it became shorter while it was read", results.ErrCorrupt)
	} else if err != nil {
		return nil, fmt.Errorf("read it: %w", err)
	}
	if err := unix.Mprotect(data, unix.PROT_READ); err != nil {
		return nil, fmt.Errorf("protect its copy: %w", err)
	}
	return c, nil
}

func newContents(data []byte, h header) *contents {
	return &contents{header: h, set: setOf(h.meta), data: data, index: data[h.indexStart():], mask: uint64(h.slots - 1)}
}

// lookup finds a record. It is safe on nil contents, those of a closed store.
func (c *contents) lookup(id int64) (results.Page, error) {
	if c == nil {
		return results.Page{}, results.ErrUnavailable
	}
	hashed := hash(uint64(id))
	// Verified contents have an empty slot, so the loop ends.
	for slot := hashed & c.mask; ; slot = (slot + 1) & c.mask {
		value := binary.LittleEndian.Uint64(c.index[slot*slotSize:])
		if value == 0 {
			runtime.KeepAlive(c)
			return results.Page{}, results.ErrNotFound
		}
		if (value^hashed)>>offsetBits != 0 {
			continue
		}
		record := c.data[value&(maxFileSize-1):]
		if binary.LittleEndian.Uint64(record) == uint64(id) {
			return c.page(record), nil
		}
	}
}

// page slices a record. The page keeps the contents alive.
func (c *contents) page(record []byte) results.Page {
	code := recordHeader + int(binary.LittleEndian.Uint16(record[20:]))
	body := code + int(binary.LittleEndian.Uint32(record[16:]))
	return results.Page{
		Body:  record[code:body:body],
		Code:  record[recordHeader:code:code],
		Tag:   binary.LittleEndian.Uint64(record[8:]),
		Owner: c,
	}
}

// verify proves what look-ups rely on:
//
//  1. the content has its checksum
//  2. the records fill their part of the file exactly, are as many as the header
//     says, and each body has its tag
//  3. each record is found from the slot of its id on without an empty slot
//     before it
//  4. the index has as many occupied slots as there are records; with 3, every
//     occupied slot therefore leads to the start of a record, and as the index is
//     larger than the number of records, there is an empty slot
//
// 2 to 4 follow from 1 for a file that Build wrote. They are checked because
// they cost as little as 1, and make a mistake in a builder an error instead of a
// crash.
func (c *contents) verify() error {
	defer runtime.KeepAlive(c)
	if got, want := crc32.Checksum(c.data[headerSize:], castagnoli), c.header.contentSum; got != want {
		return fmt.Errorf("%w: the content has the checksum %08x instead of %08x", results.ErrCorrupt, got, want)
	}
	occupied := int64(0)
	for slot := range c.header.slots {
		if binary.LittleEndian.Uint64(c.index[slot*slotSize:]) != 0 {
			occupied++
		}
	}
	if occupied != c.header.meta.Count {
		return fmt.Errorf("%w: the index has %d entries for %d students", results.ErrCorrupt, occupied, c.header.meta.Count)
	}
	return c.verifyRecords()
}

func (c *contents) verifyRecords() error {
	count, offset := int64(0), int64(headerSize)
	for offset < c.header.recordsEnd {
		length, err := c.verifyRecord(offset)
		if err != nil {
			return fmt.Errorf("%w: record %d at offset %d %w", results.ErrCorrupt, count+1, offset, err)
		}
		offset += length
		count++
	}
	if count != c.header.meta.Count {
		return fmt.Errorf("%w: it holds %d students instead of %d", results.ErrCorrupt, count, c.header.meta.Count)
	}
	return nil
}

// verifyRecord returns the length of the record at the offset.
func (c *contents) verifyRecord(offset int64) (int64, error) {
	record := c.data[offset:c.header.recordsEnd]
	if len(record) < recordHeader {
		return 0, errors.New("is cut off")
	}
	codeLength := int64(binary.LittleEndian.Uint16(record[20:]))
	length := recordHeader + codeLength + int64(binary.LittleEndian.Uint32(record[16:]))
	if length > int64(len(record)) {
		return 0, fmt.Errorf("has %d bytes, more than are left", length)
	}
	body := record[recordHeader+codeLength : length]
	if results.Tag(body) != binary.LittleEndian.Uint64(record[8:]) {
		return 0, errors.New("has a body that does not match its tag")
	}
	hashed := hash(binary.LittleEndian.Uint64(record))
	want := slotValue(hashed, offset)
	for slot := hashed & c.mask; ; slot = (slot + 1) & c.mask {
		switch binary.LittleEndian.Uint64(c.index[slot*slotSize:]) {
		case want:
			return length, nil
		case 0:
			return 0, errors.New("is not in the index")
		}
	}
}
