package snapshot

import (
	"encoding/binary"
	"math"
	"runtime"
)

// dense is an index of ids that lie close together, as those of students do,
// who are numbered: the offset of every record at the place of its id.
//
// A look-up in the file's own index waits for memory twice, for the slot and
// for the record: on a small share of a CPU, whose caches others have used
// meanwhile, that was a sixth of the whole request. This table is 4 bytes an id,
// a third of the file's index, and is not hashed: neighbours share its cache
// lines and pages. It is made when the file is opened and costs one look at
// every record.
type dense struct {
	first int64    // the lowest id
	at    []uint32 // offsets of records; 0, where the header is, for none
}

// sparsest is how many places there may be for each record: up to there the
// table is smaller than the file's index, or not much larger.
const sparsest = 4

// newDense makes the table; nil where ids lie too far apart, or where the file
// is too large for offsets of 32 bits. The contents must be verified.
func newDense(c *contents) *dense {
	if c.header.recordsEnd > math.MaxUint32 {
		return nil
	}
	defer runtime.KeepAlive(c)
	first, last := int64(math.MaxInt64), int64(0)
	c.eachRecord(func(id, _ int64) { first, last = min(first, id), max(last, id) })
	if last < first || last-first >= sparsest*c.header.meta.Count {
		return nil
	}
	d := &dense{first: first, at: make([]uint32, last-first+1)}
	c.eachRecord(func(id, offset int64) { d.at[id-first] = uint32(offset) })
	return d
}

// offset is where the record of an id begins; 0 if there is none.
func (d *dense) offset(id int64) uint32 {
	if i := uint64(id - d.first); i < uint64(len(d.at)) {
		return d.at[i]
	}
	return 0
}

// eachRecord calls each with the id and the offset of every record, in order.
// The contents must be verified.
func (c *contents) eachRecord(each func(id, offset int64)) {
	for offset := int64(headerSize); offset < c.header.recordsEnd; {
		record := c.data[offset:]
		each(int64(binary.LittleEndian.Uint64(record)), offset)
		offset += recordHeader + int64(binary.LittleEndian.Uint16(record[20:])) + int64(binary.LittleEndian.Uint32(record[16:]))
	}
}
