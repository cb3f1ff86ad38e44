package recordfile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"loadstone/block/dataset"
	"loadstone/block/dictionary"
	"loadstone/system/menu"
)

// The file, all numbers little-endian:
//
//	header      headerSize bytes
//	              0  8  magic
//	              8  4  version
//	             12  4  size of the header
//	             16  8  size of the file
//	             24  8  number of menus
//	             32  8  end of the records
//	             40  8  number of slots in the index, a power of two
//	             48  4  CRC-32C of the index
//	             52  4  size of the dictionary
//	             56  4  CRC-32C of the dictionary
//	             60  2  length of the origin
//	             62  2  length of the fingerprint
//	             64     origin, at most 512 bytes
//	            576     fingerprint, at most 128 bytes
//	           4092  4  CRC-32C of the header up to here
//	dictionary  raw content for Zstandard
//	records     one per menu, in the order of the source, back to back:
//	              0  4  CRC-32C of the dictionary and the rest of the record
//	              4  4  length of the frame
//	              8  8  id
//	             16  8  tag: XXH64 of the body
//	             24     frame
//	index       8 bytes per slot: 0 if empty, else
//	              bits  0-39  offset of the record in the file
//	              bits 40-63  the upper 24 bits of the id's hash
//
// The index is a hash table with linear probing, at most three quarters full: that of
// system/results/snapshot.
//
// Every byte belongs to one of the checksums. A CRC-32 notices every change within 32
// neighbouring bits, and any other with a chance of 1 - 2^-32.

// Version is the version of the format and of the bodies in it: raise it when either
// changes.
const Version = 1

const (
	headerSize      = 4096
	headerSumOffset = headerSize - 4
	originOffset    = 64
	printOffset     = originOffset + dataset.MaxOriginBytes
	recordHeader    = 24
	slotSize        = 8
	offsetBits      = 40
	maxFileSize     = 1 << offsetBits // 1 TiB
	// maxFrame bounds a frame: a body that does not compress, and what Zstandard adds.
	maxFrame = menu.MaxBodyBytes + 64
)

// magic starts with a byte that no text has and holds both kinds of line end, so that a file
// that went through a text conversion is noticed at once.
var magic = []byte("\x89LMR\r\n\x1a\n")

// castagnoli is the polynomial that processors compute in hardware.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

type header struct {
	meta                    dataset.Meta
	fileSize                int64
	recordsEnd              int64 // the index begins there
	slots                   int64
	indexSum, dictionarySum uint32
	dictionarySize          int64
}

// records is where they begin.
func (h *header) records() int64 { return headerSize + h.dictionarySize }

// slotsFor returns the size of the index for count menus.
func slotsFor(count int64) int64 {
	slots := int64(4)
	for slots*3 < count*4 {
		slots *= 2
	}
	return slots
}

func (h *header) encode() []byte {
	buf := make([]byte, headerSize)
	copy(buf, magic)
	le := binary.LittleEndian
	le.PutUint32(buf[8:], Version)
	le.PutUint32(buf[12:], headerSize)
	le.PutUint64(buf[16:], uint64(h.fileSize))
	le.PutUint64(buf[24:], uint64(h.meta.Count))
	le.PutUint64(buf[32:], uint64(h.recordsEnd))
	le.PutUint64(buf[40:], uint64(h.slots))
	le.PutUint32(buf[48:], h.indexSum)
	le.PutUint32(buf[52:], uint32(h.dictionarySize))
	le.PutUint32(buf[56:], h.dictionarySum)
	le.PutUint16(buf[60:], uint16(len(h.meta.Origin)))
	le.PutUint16(buf[62:], uint16(len(h.meta.Fingerprint)))
	copy(buf[originOffset:printOffset], h.meta.Origin)
	copy(buf[printOffset:], h.meta.Fingerprint)
	le.PutUint32(buf[headerSumOffset:], crc32.Checksum(buf[:headerSumOffset], castagnoli))
	return buf
}

// decodeHeader reads the header of a file of the size. It proves that the parts of the file
// lie where they must.
func decodeHeader(buf []byte, fileSize int64) (header, error) {
	if len(buf) < headerSize {
		return header{}, fmt.Errorf("%w: it has only %d bytes", menu.ErrCorrupt, len(buf))
	}
	le := binary.LittleEndian
	if !bytes.Equal(buf[:len(magic)], magic) {
		return header{}, fmt.Errorf("%w: it is not a record file, or was never finished", menu.ErrVersion)
	}
	if version := le.Uint32(buf[8:]); version != Version {
		return header{}, fmt.Errorf("%w: it is a record file of version %d, this program reads version %d", menu.ErrVersion, version, Version)
	}
	if got, want := crc32.Checksum(buf[:headerSumOffset], castagnoli), le.Uint32(buf[headerSumOffset:]); got != want {
		return header{}, fmt.Errorf("%w: the header has the checksum %08x instead of %08x", menu.ErrCorrupt, got, want)
	}
	originLength, printLength := int(le.Uint16(buf[60:])), int(le.Uint16(buf[62:]))
	h := header{
		meta:           dataset.Meta{Count: int64(le.Uint64(buf[24:]))},
		fileSize:       int64(le.Uint64(buf[16:])),
		recordsEnd:     int64(le.Uint64(buf[32:])),
		slots:          int64(le.Uint64(buf[40:])),
		indexSum:       le.Uint32(buf[48:]),
		dictionarySize: int64(le.Uint32(buf[52:])),
		dictionarySum:  le.Uint32(buf[56:]),
	}
	if originLength > dataset.MaxOriginBytes || printLength > dataset.MaxFingerprintBytes || le.Uint32(buf[12:]) != headerSize {
		return header{}, fmt.Errorf("%w: the header contradicts itself", menu.ErrCorrupt)
	}
	h.meta.Origin = string(buf[originOffset:][:originLength])
	h.meta.Fingerprint = string(buf[printOffset:][:printLength])
	return h, h.check(fileSize)
}

func (h *header) check(fileSize int64) error {
	if h.fileSize != fileSize {
		return fmt.Errorf("%w: it has %d bytes instead of %d", menu.ErrCorrupt, fileSize, h.fileSize)
	}
	// The bounds come first: they keep the arithmetic from overflowing.
	sane := h.fileSize <= maxFileSize && h.dictionarySize <= dictionary.MaxSize &&
		h.meta.Count >= 1 && h.meta.Count <= h.fileSize/recordHeader &&
		h.recordsEnd >= h.records() && h.recordsEnd <= h.fileSize &&
		h.slots == slotsFor(h.meta.Count) && h.recordsEnd+h.slots*slotSize == h.fileSize
	if !sane {
		return fmt.Errorf("%w: the header contradicts itself", menu.ErrCorrupt)
	}
	return nil
}

// seal completes a record that has its frame: the checksum and what it is over. The
// dictionary's sum is part of it, so that a record of another file is none of this one.
func seal(record []byte, id int64, tag uint64, dictionarySum uint32) {
	le := binary.LittleEndian
	le.PutUint32(record[4:], uint32(len(record)-recordHeader))
	le.PutUint64(record[8:], uint64(id))
	le.PutUint64(record[16:], tag)
	le.PutUint32(record, crc32.Update(dictionarySum, castagnoli, record[4:]))
}

// record is one as it is in the file.
type record []byte

func (r record) length() int64 { return recordHeader + int64(binary.LittleEndian.Uint32(r[4:])) }
func (r record) id() int64     { return int64(binary.LittleEndian.Uint64(r[8:])) }
func (r record) tag() uint64   { return binary.LittleEndian.Uint64(r[16:]) }
func (r record) frame() []byte { return r[recordHeader:] }

// sealed reports whether the record is as seal left it.
func (r record) sealed(dictionarySum uint32) bool {
	return crc32.Update(dictionarySum, castagnoli, r[4:]) == binary.LittleEndian.Uint32(r)
}

// hash spreads ids over the index (the finaliser of MurmurHash3). It is part of the format.
func hash(id int64) uint64 {
	h := uint64(id)
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// index is a table of slots.
type index []byte

func (x index) at(slot uint64) uint64 { return binary.LittleEndian.Uint64(x[slot*slotSize:]) }

// candidates yields the slot and the offset of every record that may have the id, up to the
// free slot for it.
func (x index) candidates(id int64, yield func(offset int64) (more bool)) (free uint64, ok bool) {
	hashed, slots := hash(id), uint64(len(x)/slotSize)
	for i := range slots {
		slot := (hashed + i) & (slots - 1)
		value := x.at(slot)
		if value == 0 {
			return slot, true
		}
		if (value^hashed)>>offsetBits == 0 && !yield(int64(value&(maxFileSize-1))) {
			return 0, false
		}
	}
	return 0, false
}

// put fills a free slot.
func (x index) put(slot uint64, id, offset int64) {
	binary.LittleEndian.PutUint64(x[slot*slotSize:], hash(id)>>offsetBits<<offsetBits|uint64(offset))
}
