package snapshot

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"time"

	"loadstone/block/dataset"
	"loadstone/system/results"
)

// The file, all numbers little-endian:
//
//	header   headerSize bytes
//	           0  8  magic
//	           8  4  version
//	          12  4  size of the header
//	          16  8  size of the file
//	          24  8  number of students
//	          32  8  end of the records
//	          40  8  number of slots in the index, a power of two
//	          48  4  CRC-32C of everything behind the header
//	          52  2  length of the origin
//	          54  2  length of the fingerprint
//	          64     origin, at most 512 bytes
//	         576     fingerprint, at most 128 bytes
//	         704  8  instant of publication, in microseconds since 1970; 0 for none
//	         712  4  the zone in which it was announced, in seconds east of UTC
//	        4092  4  CRC-32C of the header up to here
//	records  one per student, in the order of the source, back to back:
//	           0  8  id
//	           8  8  tag: XXH64 of the body
//	          16  4  length of the body
//	          20  2  length of the code
//	          22  2  zero
//	          24     code, then body
//	zeros    up to the next multiple of 8
//	index    8 bytes per slot: 0 if empty, else
//	           bits  0-39  offset of the record in the file
//	           bits 40-63  the upper 24 bits of the id's hash
//
// The index is a hash table with linear probing, at most three quarters full.
// The look-up starts at the slot that the lower bits of the id's hash name. The
// 24 bits spare it nearly all records of other ids: with 8 bytes a slot, a probe
// sequence lies in one or two cache lines, and only one record is touched.
//
// Every byte belongs to one of the two checksums. A CRC-32 notices every change
// within 32 neighbouring bits, and any other with a chance of 1 - 2^-32.

// Version is the version of the format and of the bodies in it: raise it when
// either changes. A file of version 1 has no instant of publication, and is read as if
// none was given.
const (
	Version       = 2
	oldestVersion = 1
)

const (
	headerSize      = 4096
	headerSumOffset = headerSize - 4
	originOffset    = 64
	printOffset     = originOffset + dataset.MaxOriginBytes
	publishOffset   = printOffset + dataset.MaxFingerprintBytes
	recordHeader    = 24
	slotSize        = 8
	offsetBits      = 40
	maxFileSize     = 1 << offsetBits // 1 TiB
)

// magic starts with a byte that no text has and holds both kinds of line end, so
// that a file that went through a text conversion is noticed at once.
var magic = []byte("\x89LSR\r\n\x1a\n")

// castagnoli is the polynomial that processors compute in hardware.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

type header struct {
	meta       dataset.Meta
	publishAt  time.Time // zero: none
	fileSize   int64
	recordsEnd int64
	slots      int64
	contentSum uint32
}

// indexStart is where the index begins: the records, filled up to whole slots.
func (h *header) indexStart() int64 { return (h.recordsEnd + slotSize - 1) / slotSize * slotSize }

// slotsFor returns the size of the index for count students.
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
	le.PutUint32(buf[48:], h.contentSum)
	le.PutUint16(buf[52:], uint16(len(h.meta.Origin)))
	le.PutUint16(buf[54:], uint16(len(h.meta.Fingerprint)))
	copy(buf[originOffset:printOffset], h.meta.Origin)
	copy(buf[printOffset:], h.meta.Fingerprint)
	if !h.publishAt.IsZero() {
		_, zone := h.publishAt.Zone()
		le.PutUint64(buf[publishOffset:], uint64(h.publishAt.UnixMicro()))
		le.PutUint32(buf[publishOffset+8:], uint32(zone))
	}
	le.PutUint32(buf[headerSumOffset:], crc32.Checksum(buf[:headerSumOffset], castagnoli))
	return buf
}

// decodeHeader reads the header of a file of the size. It proves that the parts
// of the file lie where they must, so that later steps can slice.
func decodeHeader(buf []byte, fileSize int64) (header, error) {
	if len(buf) < headerSize {
		return header{}, fmt.Errorf("%w: it has only %d bytes", results.ErrCorrupt, len(buf))
	}
	buf = buf[:headerSize]
	le := binary.LittleEndian
	if !bytes.Equal(buf[:len(magic)], magic) {
		return header{}, fmt.Errorf("%w: it is not a snapshot, or was never finished", results.ErrVersion)
	}
	if version := le.Uint32(buf[8:]); version < oldestVersion || version > Version {
		return header{}, fmt.Errorf("%w: it is a snapshot of version %d, this program reads versions %d to %d",
			results.ErrVersion, version, oldestVersion, Version)
	}
	if got, want := crc32.Checksum(buf[:headerSumOffset], castagnoli), le.Uint32(buf[headerSumOffset:]); got != want {
		return header{}, fmt.Errorf("%w: the header has the checksum %08x instead of %08x", results.ErrCorrupt, got, want)
	}
	originLength, printLength := int(le.Uint16(buf[52:])), int(le.Uint16(buf[54:]))
	h := header{
		meta:       dataset.Meta{Count: int64(le.Uint64(buf[24:]))},
		fileSize:   int64(le.Uint64(buf[16:])),
		recordsEnd: int64(le.Uint64(buf[32:])),
		slots:      int64(le.Uint64(buf[40:])),
		contentSum: le.Uint32(buf[48:]),
	}
	if originLength > dataset.MaxOriginBytes || printLength > dataset.MaxFingerprintBytes || le.Uint32(buf[12:]) != headerSize {
		return header{}, fmt.Errorf("%w: the header contradicts itself", results.ErrCorrupt)
	}
	h.meta.Origin = string(buf[originOffset:][:originLength])
	h.meta.Fingerprint = string(buf[printOffset:][:printLength])
	if at := int64(le.Uint64(buf[publishOffset:])); at != 0 {
		zone := int(int32(le.Uint32(buf[publishOffset+8:])))
		h.publishAt = time.UnixMicro(at).In(time.FixedZone("", zone))
	}
	return h, h.check(fileSize)
}

func (h *header) check(fileSize int64) error {
	if h.fileSize != fileSize {
		return fmt.Errorf("%w: it has %d bytes instead of %d", results.ErrCorrupt, fileSize, h.fileSize)
	}
	// The bounds come first: they keep the arithmetic from overflowing.
	sane := h.fileSize <= maxFileSize &&
		h.meta.Count >= 1 && h.meta.Count <= h.fileSize/recordHeader &&
		h.recordsEnd >= headerSize && h.recordsEnd <= h.fileSize &&
		h.slots == slotsFor(h.meta.Count) &&
		h.indexStart()+h.slots*slotSize == h.fileSize
	if !sane {
		return fmt.Errorf("%w: the header contradicts itself", results.ErrCorrupt)
	}
	return nil
}

// hash spreads ids over the index (the finaliser of MurmurHash3). It is part of
// the format.
func hash(id uint64) uint64 {
	id = (id ^ id>>33) * 0xff51afd7ed558ccd
	id = (id ^ id>>33) * 0xc4ceb9fe1a85ec53
	return id ^ id>>33
}

// slotValue is what the index holds for a record.
func slotValue(hash uint64, offset int64) uint64 {
	return hash>>offsetBits<<offsetBits | uint64(offset)
}
