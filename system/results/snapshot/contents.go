package snapshot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"loadstone/system/results"
)

// contents is a mapped and proven file. The mapping lives exactly as long as this
// object is reachable, see the package comment; whoever reads data needs a
// runtime.KeepAlive on the contents behind the reading.
type contents struct {
	header header
	data   []byte // the whole file
	index  []byte // its last part
	mask   uint64 // slots - 1
}

// load opens, maps and checks the file at path, and says which file that was.
func load(path string) (*contents, identity, error) {
	file, header, err := openFile(path)
	if err != nil {
		return nil, identity{}, err
	}
	id, idErr := identify(file)
	mapped, err := mapFile(file, header)
	// The mapping needs no open file.
	if err := errors.Join(idErr, err, file.Close()); err != nil {
		return nil, identity{}, fmt.Errorf("open snapshot %s: %w", path, err)
	}
	if err := mapped.verify(); err != nil {
		return nil, identity{}, refusal(path, err)
	}
	return mapped, id, nil
}

func mapFile(file *os.File, h header) (*contents, error) {
	data, err := unix.Mmap(int(file.Fd()), 0, int(h.fileSize), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map it: %w", err)
	}
	c := newContents(data, h)
	// Unmap fails only for an address that was not mapped, and nobody is left to
	// be told.
	runtime.AddCleanup(c, func(data []byte) { _ = unix.Munmap(data) }, data)
	return c, nil
}

func newContents(data []byte, h header) *contents {
	return &contents{header: h, data: data, index: data[h.indexStart():], mask: uint64(h.slots - 1)}
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
