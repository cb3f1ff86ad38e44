package cqlstore

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"runtime"
	"slices"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"golang.org/x/sync/errgroup"

	"loadstone/block/cql"
	"loadstone/block/dataset"
	"loadstone/block/pause"
	"loadstone/system/menu"
)

// chunkMenus is how many menus have one mark: a megabyte. Stores remember the size that
// they were begun with.
const chunkMenus = 1024

// Fill implements menu.Filler. Chunks are written in batches, several at a time, and each is
// marked when all its rows are acknowledged. Rows that come twice are the same, and older
// than every change, see rowTime; so an interrupted filling goes on after the marks, also
// if the program was killed. The source must come in the same order again.
func (s *Store) Fill(ctx context.Context, source dataset.Source[menu.Menu], progress dataset.Progress) (menu.Filled, error) {
	f := filling{store: s, source: source, progress: progress, written: map[int64]dataset.Mark{}, sampled: map[int64]uint64{}}
	done, err := f.run(ctx)
	if err != nil {
		return menu.Filled{}, fmt.Errorf("fill %s: %w", s.cfg.name(), s.classify(ctx, err))
	}
	return done, nil
}

// filling is one call of Fill.
type filling struct {
	store    *Store
	source   dataset.Source[menu.Menu]
	progress dataset.Progress

	chunk   int              // menus in a chunk
	sampled map[int64]uint64 // tags of some menus
	written map[int64]dataset.Mark
	resumed int64
}

func (f *filling) run(ctx context.Context) (menu.Filled, error) {
	if err := f.source.Meta().Check(); err != nil {
		return menu.Filled{}, menu.OfSource(err)
	}
	kept := false
	if err := f.store.session.Do(ctx, func(ctx context.Context, session *gocql.Session) (err error) {
		kept, err = f.begin(ctx, session)
		return err
	}); err != nil || kept {
		return menu.Filled{Kept: kept}, err
	}
	if err := f.load(ctx); err != nil {
		return menu.Filled{}, err
	}
	largest, err := f.check(ctx)
	if err != nil {
		return menu.Filled{}, err
	}
	return menu.Filled{Resumed: f.resumed}, f.store.patiently(ctx, func(ctx context.Context, session *gocql.Session) error {
		return session.Query("UPDATE data_set SET largest_id = ?, complete = true WHERE one = 1", largest).
			Consistency(f.store.fill).Idempotent(true).ExecContext(ctx)
	})
}

// check counts what is there, and reads some of it. It returns the largest id.
func (f *filling) check(ctx context.Context) (largest int64, err error) {
	all, err := f.store.list(ctx)
	if err != nil {
		return 0, err
	}
	if have, want := int64(len(all.ids)), f.source.Meta().Count; have != want {
		return 0, menu.OfSource(fmt.Errorf("%d menus were written and %d are there: the data set has an id twice, or the keyspace had others; mend it, and %s", want, have, anew))
	}
	menus, err := (&source{store: f.store}).read(ctx, slices.Collect(maps.Keys(f.sampled)))
	for _, m := range menus {
		if err == nil && menu.Tag(m.AppendJSON(nil)) != f.sampled[m.ID] {
			err = fmt.Errorf("%w: menu %d is not what was written; %s", menu.ErrCorrupt, m.ID, anew)
		}
	}
	return slices.Max(all.ids), err
}

// anew is what to do with a keyspace that cannot be filled.
const anew = "begin with an empty keyspace: DROP KEYSPACE"

// begin records what is to be done, or finds out how far it was done.
func (f *filling) begin(ctx context.Context, session *gocql.Session) (kept bool, err error) {
	have, err := f.store.readFilled(ctx, session)
	if err == nil && have == nil {
		if err = f.record(ctx, session); err == nil {
			have, err = f.store.readFilled(ctx, session) // which may be somebody else's
		}
	}
	want := f.source.Meta()
	switch {
	case err != nil:
		return false, err
	case !have.meta.Same(want):
		return false, fmt.Errorf("%w: it has %s, not %s; name another keyspace, or %s", menu.ErrOccupied, have.meta.Origin, want.Origin, anew)
	case have.complete:
		return true, nil
	case f.store.tables() && have.chunk != f.store.chunk:
		return false, menu.OfSource(fmt.Errorf("the filling was begun with %d menus in a chunk, which are no sorted table: go on without sorted tables, or %s", have.chunk, anew))
	}
	f.chunk = have.chunk
	rows := session.Query("SELECT number, menus, first_id, last_id FROM chunks").Consistency(f.store.read).Idempotent(true).IterContext(ctx)
	var number int64
	for mark := (dataset.Mark{}); rows.Scan(&number, &mark.Records, &mark.First, &mark.Last); {
		f.written[number] = mark
		f.resumed += int64(mark.Records)
	}
	return false, rows.Close()
}

// record begins a filling, unless somebody else does.
func (f *filling) record(ctx context.Context, session *gocql.Session) error {
	meta := f.source.Meta()
	values := []any{meta.Origin, meta.Fingerprint, meta.Count, f.store.chunk}
	const insert = "INSERT INTO data_set (one, origin, fingerprint, menus, chunk_menus) VALUES (1, ?, ?, ?, ?)"
	if f.store.fill == gocql.One { // transactions need a majority of the replicas
		return session.Query(insert, values...).Consistency(gocql.One).Idempotent(true).ExecContext(ctx)
	}
	_, err := f.store.swap(ctx, session, insert+" IF NOT EXISTS", values...)
	return err
}

// load writes all chunks that are not written yet.
func (f *filling) load(ctx context.Context) error {
	how := dataset.Load[menu.Menu]{
		ChunkRecords: f.chunk, Written: f.written, Progress: f.progress,
		Open: func(context.Context) (dataset.Writer[menu.Menu], error) { return chunkWriter{f.store}, nil },
	}
	if f.store.tables() {
		w, err := f.store.newWorkshop(ctx)
		if err != nil {
			return err
		}
		defer w.close()
		how.Open, how.Writers = w.open, min(maxPrograms, runtime.GOMAXPROCS(0))
	}
	return menu.Load(ctx, sampling{f.source, f.sampled}, how, anew)
}

// sampling is a source that remembers the tags of some of its menus, all over it.
type sampling struct {
	dataset.Source[menu.Menu]

	tags map[int64]uint64
}

// All implements dataset.Source.
func (s sampling) All(ctx context.Context) iter.Seq2[menu.Menu, error] {
	return func(yield func(menu.Menu, error) bool) {
		step, n := max(1, s.Meta().Count/window), int64(0)
		for m, err := range s.Source.All(ctx) {
			if n++; n%step == 0 && err == nil {
				s.tags[m.ID] = menu.Tag(m.AppendJSON(nil))
			}
			if !yield(m, err) {
				return
			}
		}
	}
}

// chunkWriter writes chunks.
type chunkWriter struct{ store *Store }

// rowTime is the time of what a filling writes, in microseconds since 1970: the last one
// wins, and any later write shall.
const rowTime = 1

// Rows go in batches that are not logged. On one node, with this program on the same 2
// busy cores, 40,000 rows in each of three rounds: 11,000 to 16,000 rows a second in
// batches of 32, 2,000 to 4,100 one by one with 64 or 256 under way. A node refuses a batch
// of 50 KiB (batch_size_fail_threshold), and warns in its log of each of these (from 5 KiB
// on), because it has to pass on rows that are not its own; there are none as long as there
// are as many replicas as nodes.
const (
	batchBytes    = 32 << 10
	batchesAtOnce = 8 // of a writer
)

// filledRow is a row as it is filled in.
type filledRow struct {
	id, tag int64
	body    []byte
}

// Write implements dataset.Writer: the mark after the rows.
func (w chunkWriter) Write(ctx context.Context, c *dataset.Chunk[menu.Menu]) error {
	group, inserting := errgroup.WithContext(ctx)
	group.SetLimit(batchesAtOnce)
	var rows []filledRow
	size := 0
	flush := func() {
		batch := rows
		rows, size = nil, 0
		group.Go(func() error { return w.insert(inserting, batch) })
	}
	for i := range c.Records {
		body := c.Records[i].AppendJSON(nil)
		if size > 0 && size+len(body) > batchBytes {
			flush()
		}
		rows, size = append(rows, filledRow{c.Records[i].ID, int64(menu.Tag(body)), body}), size+len(body)
	}
	flush()
	if err := group.Wait(); err != nil {
		return err
	}
	return w.mark(ctx, c)
}

func (w chunkWriter) mark(ctx context.Context, c *dataset.Chunk[menu.Menu]) error {
	return w.store.patiently(ctx, func(ctx context.Context, session *gocql.Session) error {
		return session.Query("INSERT INTO chunks (number, menus, first_id, last_id) VALUES (?, ?, ?, ?)", c.Number, c.Mark.Records, c.Mark.First, c.Mark.Last).
			Consistency(w.store.fill).Idempotent(true).ExecContext(ctx)
	})
}

func (w chunkWriter) insert(ctx context.Context, rows []filledRow) error {
	const insert = "INSERT INTO menus (id, version, tag, body) VALUES (?, 1, ?, ?)"
	return w.store.patiently(ctx, func(ctx context.Context, session *gocql.Session) error {
		if r := rows[0]; len(rows) == 1 { // it may be larger than a batch
			return session.Query(insert, r.id, r.tag, r.body).WithTimestamp(rowTime).Consistency(w.store.fill).Idempotent(true).ExecContext(ctx)
		}
		batch := session.Batch(gocql.UnloggedBatch).WithTimestamp(rowTime).Consistency(w.store.fill)
		for _, r := range rows {
			batch.Query(insert, r.id, r.tag, r.body)
		}
		return batch.ExecContext(ctx)
	})
}

// patience is for how long a request is tried that is part of writing or reading all menus: a node
// that compacts what came before, on a machine that has much else to do, may not answer for a
// while, and who fills a store for a quarter of an hour would rather wait. The pauses between
// attempts double up to the longest.
const (
	patience     = time.Minute
	firstPause   = 250 * time.Millisecond
	longestPause = 4 * time.Second
)

func (s *Store) patiently(ctx context.Context, do func(context.Context, *gocql.Session) error) error {
	end := time.Now().Add(patience)
	for wait := firstPause; ; wait = min(2*wait, longestPause) {
		err := s.session.Do(ctx, do)
		if cql.KindOf(err) != cql.Unavailable || time.Now().Add(wait).After(end) || !pause.For(ctx, wait) {
			return err
		}
	}
}

// Close implements dataset.Writer.
func (chunkWriter) Close() error { return nil }
