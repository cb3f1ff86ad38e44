package recordfile

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"runtime"

	"golang.org/x/sync/errgroup"

	"loadstone/block/atomicfile"
	"loadstone/block/dataset"
	"loadstone/block/dictionary"
	"loadstone/system/menu"
)

// chunkMenus is how many menus are compressed by one worker at a time: enough to make the
// hand-over cheap, and one write.
const chunkMenus = 512

// Build writes the whole source into a new file and puts it at path. On any error, the end of
// the context included, path is as it was and nothing else is left behind. The same source
// gives the same bytes.
//
// Without a dictionary the source is read twice: once for the sample that one is trained on, and
// once for the records. Progress, which may be nil, is told of the second time. Menus are
// compressed on all cores and go straight to the file; memory holds the index, 13 bytes per
// menu on average.
func Build(ctx context.Context, path string, source dataset.Source[menu.Menu], with *dictionary.Dictionary, progress dataset.Progress) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("build record file %s: %w", path, err)
		}
	}()
	meta := source.Meta()
	if err := meta.Check(); err != nil {
		return err
	}
	if meta.Count > maxFileSize/recordHeader {
		return fmt.Errorf("%d menus are too many for one file", meta.Count)
	}
	pending, err := atomicfile.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pending.Discard()) }()
	w, err := newWriter(ctx, pending.File(), source, with)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.index.free()) }()
	if err := w.writeAll(ctx, source, progress); err != nil {
		return err
	}
	if err := w.finish(); err != nil {
		return err
	}
	return pending.Commit()
}

// Fill is Build, unless the file at path holds the data set already, with the dictionary if one is
// given: it is kept then.
func Fill(ctx context.Context, path string, source dataset.Source[menu.Menu], with *dictionary.Dictionary, progress dataset.Progress) (menu.Filled, error) {
	if have, err := describe(path); err == nil && have.meta.Same(source.Meta()) &&
		(with == nil || have.dictionarySum == crc32.Checksum(with.Content(), castagnoli)) {
		return menu.Filled{Kept: true}, nil
	}
	return menu.Filled{}, Build(ctx, path, source, with, progress)
}

// writer writes the parts of a file in their order; the header comes last. Until then the
// file starts with a hole, which reads as zeros, and no reader accepts that.
type writer struct {
	file       *os.File
	header     header
	dictionary *dictionary.Dictionary
	index      index
	offset     int64 // of the next record
}

// newWriter writes the dictionary, which it trains if it is nil.
func newWriter(ctx context.Context, file *os.File, source dataset.Source[menu.Menu], with *dictionary.Dictionary) (_ *writer, err error) {
	if with == nil {
		if with, err = menu.TrainDictionary(ctx, source); err != nil {
			return nil, err
		}
	}
	w := &writer{file: file, dictionary: with}
	w.header = header{
		meta: source.Meta(), slots: slotsFor(source.Meta().Count),
		dictionarySize: int64(len(with.Content())), dictionarySum: crc32.Checksum(with.Content(), castagnoli),
	}
	w.offset = w.header.records()
	if _, err := file.WriteAt(with.Content(), headerSize); err != nil {
		return nil, err
	}
	if _, err := file.Seek(w.offset, io.SeekStart); err != nil {
		return nil, err
	}
	w.index, err = newIndex(w.header.slots)
	return w, err
}

// chunk is a number of menus that follow each other in the source, and then their records.
type chunk struct {
	menus   []menu.Menu
	records []byte
	sizes   []int
	ready   chan struct{} // has room for the one that says that records are there
}

// writeAll writes the records. One goroutine reads the source and puts chunks into two
// queues: one for the workers, which compress them, and one for the writer, which waits for
// each in turn. That keeps the order. Chunks are used again, and there are four for each
// worker: queues never block.
func (w *writer) writeAll(ctx context.Context, source dataset.Source[menu.Menu], progress dataset.Progress) error {
	workers := runtime.GOMAXPROCS(0)
	chunks := 4 * workers
	free, work, order := make(chan *chunk, chunks), make(chan *chunk, chunks), make(chan *chunk, chunks)
	for range chunks {
		free <- &chunk{menus: make([]menu.Menu, 0, chunkMenus), ready: make(chan struct{}, 1)}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(work)
		defer close(order)
		return read(ctx, source, progress, free, func(c *chunk) { order <- c; work <- c })
	})
	for range workers {
		group.Go(func() error { return w.compress(work) })
	}
	group.Go(func() error {
		for c := range order {
			select {
			case <-c.ready:
			case <-ctx.Done():
				return ctx.Err()
			}
			if err := w.write(c); err != nil {
				return err
			}
			free <- c
		}
		return nil
	})
	return group.Wait()
}

// read cuts the source into chunks.
func read(ctx context.Context, source dataset.Source[menu.Menu], progress dataset.Progress, free <-chan *chunk, send func(*chunk)) error {
	var current *chunk
	err := dataset.Each(ctx, source, progress, func(m *menu.Menu) error {
		if current == nil {
			select {
			case current = <-free:
			case <-ctx.Done():
				return ctx.Err()
			}
			current.menus = current.menus[:0]
		}
		current.menus = append(current.menus, *m)
		if len(current.menus) == chunkMenus {
			send(current)
			current = nil
		}
		return nil
	})
	if err == nil && current != nil {
		send(current)
	}
	return err
}

// compress makes the records of chunks.
func (w *writer) compress(work <-chan *chunk) (err error) {
	var body []byte
	for c := range work {
		c.records, c.sizes = c.records[:0], c.sizes[:0]
		for i := range c.menus {
			m := &c.menus[i]
			if body = m.AppendJSON(body[:0]); len(body) > menu.MaxBodyBytes || m.ID < 1 || m.ID > dataset.MaxID {
				return fmt.Errorf("menu %d with %d bytes of JSON is not valid: write an id of 1 to 18 digits and at most %d bytes", m.ID, len(body), menu.MaxBodyBytes)
			}
			start := len(c.records)
			c.records = append(c.records, make([]byte, recordHeader)...)
			if c.records, err = w.dictionary.Compress(c.records, body); err != nil {
				return err
			}
			seal(c.records[start:], m.ID, menu.Tag(body), w.header.dictionarySum)
			c.sizes = append(c.sizes, len(c.records)-start)
		}
		c.ready <- struct{}{}
	}
	return nil
}

// write appends a chunk's records to the file and the index.
func (w *writer) write(c *chunk) error {
	if w.offset+int64(len(c.records)) > maxFileSize-w.header.slots*slotSize {
		return fmt.Errorf("it would have more than %d bytes", int64(maxFileSize))
	}
	if _, err := w.file.Write(c.records); err != nil {
		return err
	}
	for i, size := range c.sizes {
		if err := w.enter(c.menus[i].ID); err != nil {
			return err
		}
		w.offset += int64(size)
	}
	return nil
}

// enter puts the record at the offset into the index. Ids whose hashes have the same bits in
// the index are read back from the file: there are a few in ten million.
func (w *writer) enter(id int64) (err error) {
	slot, ok := w.index.candidates(id, func(offset int64) bool {
		head := make([]byte, recordHeader)
		if _, err = w.file.ReadAt(head, offset); err == nil && record(head).id() == id {
			err = fmt.Errorf("two menus have the id %d: each id must be given once", id)
		}
		return err == nil
	})
	if err == nil && !ok {
		err = fmt.Errorf("the source has more than the %d menus that it promised", w.header.meta.Count)
	}
	if err == nil {
		w.index.put(slot, id, w.offset)
	}
	return err
}

// finish writes the index and then the header.
func (w *writer) finish() error {
	h := &w.header
	h.recordsEnd, h.fileSize = w.offset, w.offset+int64(len(w.index))
	h.indexSum = crc32.Checksum(w.index, castagnoli)
	if _, err := w.file.Write(w.index); err != nil {
		return err
	}
	_, err := w.file.WriteAt(h.encode(), 0)
	return err
}
