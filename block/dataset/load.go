package dataset

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"
)

// ErrOrder is wrapped when a load that goes on finds its source in another order.
var ErrOrder = errors.New("the source comes in another order")

// Mark is what is remembered of a written chunk: enough to notice a source that comes
// in another order.
type Mark struct {
	Records int `json:"records"`
	// First and Last are keys.
	First int64 `json:"first"`
	Last  int64 `json:"last"`
}

// Chunk is a number of records that follow each other in the source, and are written
// and remembered together or not at all.
type Chunk[R any] struct {
	Number  int64
	Mark    Mark
	Records []R
}

// Writer writes chunks, one at a time.
type Writer[R any] interface {
	// Write stores the records and the mark of a chunk, both or neither. It must not
	// keep them.
	Write(ctx context.Context, c *Chunk[R]) error
	// Close frees the writer.
	Close() error
}

// Load is how a data set is loaded: one goroutine reads the source and cuts it into
// chunks, and several write them. As many chunks exist as there are writers, and one
// that is being read.
type Load[R any] struct {
	// Read hands all records to put, in the same order each time, as Each does.
	Read func(ctx context.Context, put func(*R) error) error
	// Key is a record's own.
	Key func(*R) int64
	// ChunkRecords is how many make a chunk.
	ChunkRecords int
	// Writers is how many chunks are written at a time.
	Writers int
	// Written are the chunks that an interrupted load has left behind. Their records
	// are read as well, and not written: reading one is a small part of writing one, and
	// the source is checked whole.
	Written map[int64]Mark
	// Prepare completes the records of a chunk, by the goroutine that reads, in the order
	// of the source. It may be nil.
	Prepare func(ctx context.Context, records []R) error
	// Open makes a writer. It is called once for each.
	Open func(ctx context.Context) (Writer[R], error)
	// Total is for Progress, which may be nil. It is told what is written, first of all what
	// an interrupted load has.
	Total    int64
	Progress Progress
}

// Run loads what is not written yet.
func (l Load[R]) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	r := &reader[R]{load: l, free: make(chan *Chunk[R], l.Writers+1), out: make(chan *Chunk[R])}
	for range l.Writers + 1 {
		r.free <- &Chunk[R]{Records: make([]R, 0, l.ChunkRecords)}
	}
	wrote := l.counter()
	group.Go(func() error {
		defer close(r.out)
		if err := l.Read(ctx, func(record *R) error { return r.put(ctx, record) }); err != nil {
			return err
		}
		return r.flush(ctx)
	})
	for range l.Writers {
		group.Go(func() error { return r.write(ctx, wrote) })
	}
	return group.Wait()
}

// counter adds up what is written, and tells it one at a time. What was written before it
// tells at once: perhaps there is nothing left to write.
func (l Load[R]) counter() func(records int) {
	var done int64
	for _, mark := range l.Written {
		done += int64(mark.Records)
	}
	if done > 0 && l.Progress != nil {
		l.Progress(done, l.Total)
	}
	var mu sync.Mutex
	return func(records int) {
		mu.Lock()
		defer mu.Unlock()
		done += int64(records)
		if l.Progress != nil {
			l.Progress(done, l.Total)
		}
	}
}

// reader collects records into chunks.
type reader[R any] struct {
	load    Load[R]
	free    chan *Chunk[R] // has room for all
	out     chan *Chunk[R]
	number  int64
	current *Chunk[R]
}

func (r *reader[R]) put(ctx context.Context, record *R) error {
	if r.current == nil {
		select {
		case r.current = <-r.free:
		case <-ctx.Done():
			return ctx.Err()
		}
		r.current.Number, r.current.Records = r.number, r.current.Records[:0]
		r.number++
	}
	r.current.Records = append(r.current.Records, *record)
	if len(r.current.Records) == r.load.ChunkRecords {
		return r.flush(ctx)
	}
	return nil
}

// flush sends the current chunk, unless it was written before.
func (r *reader[R]) flush(ctx context.Context) error {
	c := r.current
	if c == nil {
		return nil
	}
	r.current = nil
	last := len(c.Records) - 1
	c.Mark = Mark{len(c.Records), r.load.Key(&c.Records[0]), r.load.Key(&c.Records[last])}
	if have, ok := r.load.Written[c.Number]; ok {
		if c.Mark != have {
			return fmt.Errorf("%w: chunk %d has %d records with keys from %d to %d; it had %d from %d to %d when it was written",
				ErrOrder, c.Number, c.Mark.Records, c.Mark.First, c.Mark.Last, have.Records, have.First, have.Last)
		}
		r.free <- c
		return nil
	}
	if r.load.Prepare != nil {
		if err := r.load.Prepare(ctx, c.Records); err != nil {
			return err
		}
	}
	select {
	case r.out <- c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// write writes chunks until there are no more.
func (r *reader[R]) write(ctx context.Context, wrote func(records int)) (err error) {
	w, err := r.load.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	for c := range r.out {
		if err := w.Write(ctx, c); err != nil {
			return fmt.Errorf("write chunk %d: %w", c.Number, err)
		}
		wrote(len(c.Records))
		r.free <- c
	}
	return nil
}
