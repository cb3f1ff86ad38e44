package snapshot

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"time"

	"loadstone/block/atomicfile"
	"loadstone/block/dataset"
	"loadstone/system/results"
)

// flushSize is how much is written, and added to the checksum, at once.
const flushSize = 1 << 20

// Build writes the whole source into a new snapshot and puts it at path. On any
// error, the end of the context included, path is as it was and nothing else is
// left behind. Progress may be nil.
//
// The bodies go straight to the file; memory holds 32 bytes per student for the
// index.
func Build(ctx context.Context, path string, source dataset.Source[results.Student], progress dataset.Progress) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("build snapshot %s: %w", path, err)
		}
	}()
	meta := results.Filled(source, results.NewSet())
	if err := meta.Check(); err != nil {
		return err
	}
	pending, err := atomicfile.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pending.Discard()) }()
	w := newWriter(pending.File(), meta.Count)
	// The header comes last. Until then the file starts with a hole, which reads
	// as zeros, and no reader accepts that.
	if _, err := w.file.Seek(headerSize, io.SeekStart); err != nil {
		return err
	}
	if err := results.Each(ctx, source, progress, w.put); err != nil {
		return err
	}
	if err := w.finish(meta, results.PublishAt(source)); err != nil {
		return err
	}
	return pending.Commit()
}

// entry is what the index needs to know of a record.
type entry struct {
	id     int64
	offset int64
}

type writer struct {
	file    *os.File
	buf     []byte // not yet written
	offset  int64  // of the next record
	sum     uint32 // of what was flushed behind the header
	entries []entry
}

func newWriter(file *os.File, count int64) *writer {
	const largestGuess = 1 << 20 // a promise is no reason to take more memory yet
	return &writer{
		file:    file,
		buf:     make([]byte, 0, flushSize+flushSize/8),
		offset:  headerSize,
		entries: make([]entry, 0, min(count, largestGuess)),
	}
}

// put appends a student's record.
func (w *writer) put(s *results.Student) error {
	start := len(w.buf)
	w.buf = append(w.buf, make([]byte, recordHeader)...)
	w.buf = append(w.buf, s.Code...)
	body := len(w.buf)
	w.buf = s.AppendJSON(w.buf)

	// A valid student has a body of a few kilobytes and a code of 64 bytes at
	// most: the lengths fit.
	le, record := binary.LittleEndian, w.buf[start:]
	le.PutUint64(record, uint64(s.ID))
	le.PutUint64(record[8:], results.Tag(w.buf[body:]))
	le.PutUint32(record[16:], uint32(len(w.buf)-body))
	le.PutUint16(record[20:], uint16(len(s.Code)))

	w.entries = append(w.entries, entry{s.ID, w.offset})
	w.offset += int64(len(record))
	if len(w.buf) < flushSize {
		return nil
	}
	return w.flush()
}

func (w *writer) flush() error {
	w.sum = crc32.Update(w.sum, castagnoli, w.buf)
	_, err := w.file.Write(w.buf)
	w.buf = w.buf[:0]
	return err
}

// finish writes the index and then the header.
func (w *writer) finish(meta dataset.Meta, publishAt time.Time) error {
	h := header{meta: meta, publishAt: publishAt, recordsEnd: w.offset, slots: slotsFor(meta.Count)}
	h.fileSize = h.indexStart() + h.slots*slotSize
	if h.fileSize > maxFileSize {
		return fmt.Errorf("it would have %d bytes, more than %d", h.fileSize, int64(maxFileSize))
	}
	w.buf = append(w.buf, make([]byte, h.indexStart()-h.recordsEnd)...)
	positions, err := w.hashTable(h.slots)
	if err != nil {
		return err
	}
	for _, position := range positions {
		value := uint64(0)
		if position > 0 {
			entry := w.entries[position-1]
			value = slotValue(hash(uint64(entry.id)), entry.offset)
		}
		w.buf = binary.LittleEndian.AppendUint64(w.buf, value)
		if len(w.buf) >= flushSize {
			if err := w.flush(); err != nil {
				return err
			}
		}
	}
	if err := w.flush(); err != nil {
		return err
	}
	h.contentSum = w.sum
	_, err = w.file.WriteAt(h.encode(), 0)
	return err
}

// hashTable places the entries: slot i holds entry number positions[i]-1, or
// none if that is negative. It finds two students with one id.
func (w *writer) hashTable(slots int64) (positions []int, err error) {
	positions = make([]int, slots)
	mask := uint64(slots - 1)
	for i, entry := range w.entries {
		slot := hash(uint64(entry.id)) & mask
		for ; positions[slot] > 0; slot = (slot + 1) & mask {
			if w.entries[positions[slot]-1].id == entry.id {
				return nil, fmt.Errorf("two students have the id %d: each id must be given once", entry.id)
			}
		}
		positions[slot] = i + 1
	}
	return positions, nil
}
