package pgstore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/jackc/pgx/v5"

	"loadstone/block/dataset"
	"loadstone/block/postgres"
	"loadstone/block/redact"
	"loadstone/system/results"
)

// Seeded says what Seed found and did.
type Seeded struct {
	// Already: the database held the students; nothing was done.
	Already bool
	// Resumed is how many students an interrupted seed had left behind.
	Resumed int64
}

// chunkStudents is how many students are one unit of seeding: one transaction with
// its record. Half a second of work is lost at most when a seed is killed, and
// the cost of a transaction is not felt. Databases remember the size that they
// were begun with.
const chunkStudents = 16_384

// lockTimeout is how long Seed waits for another that fills the same database. A
// seed that was killed may hold the lock until the database notices; one that
// lives takes longer than anybody should wait.
const lockTimeout = 10 * time.Second

// Seed fills the database with the source, and migrates it first. Progress may be
// nil.
//
// The students go in by COPY, in chunks, over one connection per core. A Seed that
// was interrupted, by whatever, goes on where it stopped when it is called with the
// same source; the source must yield its students in the same order again. A
// database that holds the students already is left alone. For one that holds, or
// was begun with, others the error wraps ErrHolds: real results must not be lost
// to a mistyped command.
//
// Until it is filled whole, the database is refused by Open, and its tables have
// no keys: they are made at the end, see keys.
func Seed(ctx context.Context, address string, source dataset.Source[results.Student], progress dataset.Progress) (Seeded, error) {
	s := seeder{
		address: address, source: source, progress: progress,
		workers: runtime.GOMAXPROCS(0), write: copyChunk,
	}
	seeded, err := s.seed(ctx)
	if err != nil {
		return Seeded{}, fmt.Errorf("fill database %s: %w", redact.Address(address), err)
	}
	return seeded, nil
}

// seeder is one call of Seed.
type seeder struct {
	address  string
	source   dataset.Source[results.Student]
	progress dataset.Progress
	// workers is how many chunks are written at a time. BenchmarkSeed on 2 cores,
	// which client and database share, 674,823 students: 6.4 s with 1, 5.1 s with
	// 2, 5.1 s with 4.
	workers int
	// write puts a chunk's students into the tables of tx. Benchmarks compare
	// others with copyChunk.
	write func(ctx context.Context, tx pgx.Tx, students []record) error
}

func (s *seeder) seed(ctx context.Context) (seeded Seeded, err error) {
	if err := s.source.Meta().Check(); err != nil {
		return Seeded{}, err
	}
	conn, err := connect(ctx, s.address)
	if err != nil {
		return Seeded{}, err
	}
	// The end of the session frees the lock. Not under ctx, which may have ended.
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	// Before the tables change: another seed may be filling them.
	if err := lock(ctx, conn); err != nil {
		return Seeded{}, err
	}
	if err := Migrate(ctx, conn); err != nil {
		return Seeded{}, err
	}
	state, err := s.begin(ctx, conn)
	if err != nil {
		return Seeded{}, classify(ctx, err)
	}
	if state == nil {
		return Seeded{Already: true}, nil
	}
	resumed := state.done
	if err := s.load(ctx, state); err != nil {
		return Seeded{}, err
	}
	if err := s.finish(ctx, conn); err != nil {
		return Seeded{}, classify(ctx, err)
	}
	return Seeded{Resumed: resumed}, nil
}

// lock keeps other seeds away for as long as the connection lives.
func lock(ctx context.Context, conn *pgx.Conn) error {
	err := postgres.Lock(ctx, conn, seedLock, lockTimeout)
	if postgres.KindOf(err) == postgres.Locked {
		return fmt.Errorf("another program has been filling it for %v: let it finish, then run this again", lockTimeout)
	}
	if err != nil {
		return fmt.Errorf("lock it: %w", classify(ctx, err))
	}
	return nil
}

// dataSet is the row of results.data_set.
type dataSet struct {
	meta     dataset.Meta // as it was filled
	revised  dataset.Meta // with its corrections
	state    results.State
	chunk    int
	complete bool
}

// readDataSet returns nil if the tables are empty.
func readDataSet(ctx context.Context, db postgres.Querier) (*dataSet, error) {
	var set dataSet
	var identity int64
	var fingerprint string
	var publishAt *time.Time
	var zone int
	var left float64
	err := db.QueryRow(ctx, `SELECT origin, fingerprint, students, chunk_students, completed_at IS NOT NULL, identity,
			revision, coalesce(revised_fingerprint, ''), publish_at, publish_zone,
			coalesce(extract(epoch FROM publish_at - clock_timestamp()), 0)::float8, coalesce(publish_at <= clock_timestamp(), true)
		FROM results.data_set`).Scan(&set.meta.Origin, &set.meta.Fingerprint, &set.meta.Count, &set.chunk, &set.complete,
		&identity, &set.state.Revision, &fingerprint, &publishAt, &zone, &left, &set.state.Published)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what it holds: %w", err)
	}
	set.state.Set = results.Set(identity)
	set.setSchedule(publishAt, zone, left)
	set.revised = set.meta.Revised(set.state.Revision, fingerprint)
	return &set, nil
}

// progressState is how far seeding is.
type progressState struct {
	chunk  int // students in a chunk
	done   int64
	chunks map[int64]dataset.Mark
	school schools
}

// begin records what is to be done, or finds out how far it was done. It returns
// nil if there is nothing left to do.
func (s *seeder) begin(ctx context.Context, conn *pgx.Conn) (state *progressState, err error) {
	want := s.source.Meta()
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		have, err := readDataSet(ctx, tx)
		switch {
		case err != nil:
			return err
		case have == nil:
			state = &progressState{chunk: chunkStudents, chunks: map[int64]dataset.Mark{}, school: newSchools()}
			return s.beginAnew(ctx, tx)
		case !results.FilledFrom(have.meta, want):
			return holds(have, want)
		case have.complete:
			return nil
		}
		state = &progressState{chunk: have.chunk}
		if err := state.read(ctx, tx); err != nil {
			return err
		}
		return dropKeys(ctx, tx)
	})
	return state, err
}

func holds(have *dataSet, want dataset.Meta) error {
	what := "holds"
	if !have.complete {
		what = "was begun, and not finished, with"
	}
	return fmt.Errorf("%w: it %s %s, not %s; name another database, or empty this one first: `loadstone down results --volumes` after `loadstone up`, `rm -r .loadstone/volumes/results` after `loadstone run`, `docker compose down --volumes`, or in psql DROP SCHEMA results CASCADE",
		ErrHolds, what, have.meta.Origin, want.Origin)
}

func (s *seeder) beginAnew(ctx context.Context, tx pgx.Tx) error {
	set := results.NewSet()
	meta := results.Filled(s.source, set)
	if err := meta.Check(); err != nil {
		return err
	}
	const record = "INSERT INTO results.data_set (origin, fingerprint, students, chunk_students, identity) VALUES ($1, $2, $3, $4, $5)"
	if _, err := tx.Exec(ctx, record, meta.Origin, meta.Fingerprint, meta.Count, chunkStudents, int64(set)); err != nil {
		return fmt.Errorf("record what it is to hold: %w", err)
	}
	return dropKeys(ctx, tx)
}

// read finds out what an interrupted seed has done.
func (p *progressState) read(ctx context.Context, tx pgx.Tx) error {
	p.chunks = map[int64]dataset.Mark{}
	rows, err := tx.Query(ctx, "SELECT number, students, first_id, last_id FROM results.seed_chunks")
	if err != nil {
		return fmt.Errorf("read what was done: %w", err)
	}
	var number int64
	var mark dataset.Mark
	_, err = pgx.ForEachRow(rows, []any{&number, &mark.Records, &mark.First, &mark.Last}, func() error {
		p.chunks[number] = mark
		p.done += int64(mark.Records)
		return nil
	})
	if err != nil {
		return fmt.Errorf("read what was done: %w", err)
	}
	p.school, err = readSchools(ctx, tx)
	return err
}

// finish makes the keys, which proves that the students fit together, and marks
// the data set complete, both or neither.
func (s *seeder) finish(ctx context.Context, conn *pgx.Conn) error {
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if err := addKeys(ctx, tx); err != nil {
			return err
		}
		if at := results.PublishAt(s.source); !at.IsZero() {
			if err := schedule(ctx, tx, at, "the filling"); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, "UPDATE results.data_set SET completed_at = now()")
		return err
	})
	if postgres.KindOf(err) == postgres.Exists {
		return fmt.Errorf("each id must be given once: %w; empty the database with psql: DROP SCHEMA results CASCADE", err)
	}
	if err != nil {
		return fmt.Errorf("make the keys: %w", err)
	}
	// Marks all rows as visible to everybody, which the first readers would else
	// do, one page at a time, and counts what the planner needs to know. If the
	// program ends here, the database does it by itself within a minute or two.
	if _, err := conn.Exec(ctx, "VACUUM (ANALYZE) "+tableList); err != nil {
		return fmt.Errorf("vacuum: %w", err)
	}
	return nil
}
