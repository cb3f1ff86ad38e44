package pgstore

import (
	"context"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"loadstone/system/results"
)

// record is a student on the way into the tables.
type record struct {
	student results.Student
	school  int32
}

// chunk is a number of students that follow each other in the source.
type chunk struct {
	number  int64
	records []record
}

func (c *chunk) mark() chunkMark {
	return chunkMark{len(c.records), c.records[0].student.ID, c.records[len(c.records)-1].student.ID}
}

// load writes all chunks that are not written yet. One goroutine reads the
// source and the others write; as many chunks exist as there are writers, and
// one that is being read.
func (s *seeder) load(ctx context.Context, state *progressState) error {
	group, ctx := errgroup.WithContext(ctx)
	chunks := make(chan *chunk)
	free := make(chan *chunk, s.workers+1)
	for range s.workers + 1 {
		free <- &chunk{records: make([]record, 0, state.chunk)}
	}
	group.Go(func() error {
		defer close(chunks)
		return s.read(ctx, state, free, chunks)
	})
	tell := s.teller(state.done)
	for range s.workers {
		group.Go(func() error { return s.writeAll(ctx, chunks, free, tell) })
	}
	return group.Wait()
}

// read cuts the source into chunks and sends those that are to be written. Every
// student of the others is read as well: making or parsing one is a small part
// of writing one, and the source is checked whole.
func (s *seeder) read(ctx context.Context, state *progressState, free chan *chunk, out chan<- *chunk) error {
	r := chunkReader{state: state, free: free, out: out}
	conn, err := connect(ctx, s.address)
	if err != nil {
		return err
	}
	// For schools alone, which are few.
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	r.conn = conn
	// Progress is told when students are written, not when they are read.
	err = results.Each(ctx, s.source, nil, func(student *results.Student) error { return r.put(ctx, student) })
	if err != nil {
		return err
	}
	return r.flush(ctx)
}

// chunkReader collects students into chunks.
type chunkReader struct {
	state   *progressState
	conn    *pgx.Conn
	free    chan *chunk
	out     chan<- *chunk
	number  int64
	current *chunk
}

func (r *chunkReader) put(ctx context.Context, student *results.Student) error {
	if r.current == nil {
		select {
		case r.current = <-r.free:
		case <-ctx.Done():
			return ctx.Err()
		}
		r.current.number, r.current.records = r.number, r.current.records[:0]
		r.number++
	}
	r.current.records = append(r.current.records, record{student: *student})
	if len(r.current.records) == r.state.chunk {
		return r.flush(ctx)
	}
	return nil
}

// flush sends the current chunk, unless it was written before.
func (r *chunkReader) flush(ctx context.Context) error {
	c := r.current
	if c == nil {
		return nil
	}
	r.current = nil
	if have, ok := r.state.chunks[c.number]; ok {
		if got := c.mark(); got != have {
			return fmt.Errorf("chunk %d has %d students with ids from %d to %d; it had %d from %d to %d when it was written: "+
				"the source comes in another order; empty the database with psql: DROP SCHEMA results CASCADE",
				c.number, got.students, got.firstID, got.lastID, have.students, have.firstID, have.lastID)
		}
		r.free <- c // has room for all
		return nil
	}
	if err := r.state.school.number(ctx, r.conn, c.records); err != nil {
		return err
	}
	select {
	case r.out <- c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// writeAll writes chunks until there are no more.
func (s *seeder) writeAll(ctx context.Context, chunks <-chan *chunk, free chan<- *chunk, tell func(int)) (err error) {
	conn, err := connect(ctx, s.address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	for c := range chunks {
		if err := s.writeChunk(ctx, conn, c); err != nil {
			return fmt.Errorf("write chunk %d: %w", c.number, classify(ctx, err))
		}
		tell(len(c.records))
		free <- c // has room for all
	}
	return nil
}

// writeChunk writes a chunk and its record in one transaction.
func (s *seeder) writeChunk(ctx context.Context, conn *pgx.Conn, c *chunk) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if err := s.write(ctx, tx, c.records); err != nil {
			return err
		}
		mark := c.mark()
		_, err := tx.Exec(ctx, "INSERT INTO results.seed_chunks (number, students, first_id, last_id) VALUES ($1, $2, $3, $4)",
			c.number, mark.students, mark.firstID, mark.lastID)
		return err
	})
}

// teller adds up what the writers have done, and tells it one at a time.
func (s *seeder) teller(done int64) func(students int) {
	total := s.source.Meta().Count
	var mu sync.Mutex
	return func(students int) {
		mu.Lock()
		defer mu.Unlock()
		done += int64(students)
		if s.progress != nil {
			s.progress(done, total)
		}
	}
}
