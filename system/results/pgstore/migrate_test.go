package pgstore

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"loadstone/block/servertest"
	"loadstone/system/results/resultstest"
)

func TestMigrateAtOnce(t *testing.T) {
	t.Parallel()
	url := servertest.Database(t)
	var group sync.WaitGroup
	for range 6 {
		conn := dial(t, url)
		group.Go(func() {
			for range 3 {
				if err := Migrate(t.Context(), conn); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	steps, err := migrations()
	if err != nil {
		t.Fatal(err)
	}
	if got := one[int](t, url, "SELECT count(*) FROM results.migrations"); got != steps.Latest() {
		t.Errorf("got %d recorded steps, want %d", got, steps.Latest())
	}
}

// sixthVersion brings a filled database back to the tables of version 6, which knew neither
// its identity nor when results are out.
const sixthVersion = `
	DROP INDEX results.corrections_revision_idx;
	DROP TABLE results.schedule;
	ALTER TABLE results.data_set DROP COLUMN identity, DROP COLUMN publish_at, DROP COLUMN publish_zone;
	DELETE FROM results.migrations WHERE version > 6;`

// firstVersion brings a filled database back to the tables of version 1, as the
// program before had them.
const firstVersion = sixthVersion + `
	ALTER TABLE results.students DROP CONSTRAINT students_place_fkey, DROP COLUMN school, DROP COLUMN region,
		ADD CONSTRAINT students_school_fkey FOREIGN KEY (school_id) REFERENCES results.schools (id);
	DROP INDEX results.students_school_idx;
	ALTER TABLE results.schools DROP CONSTRAINT schools_place_key;
	ALTER TABLE results.data_set DROP COLUMN revision, DROP COLUMN revised_fingerprint;
	DROP TABLE results.corrections;
	DELETE FROM results.migrations WHERE version > 1`

// firstLookup is the look-up of the program before.
const firstLookup = `
SELECT s.id, s.name, s.sex, c.name, c.region, s.birth_date, s.stream,
       coalesce(n.english, o.english), coalesce(n.mathematics, o.mathematics),
       coalesce(n.physics, o.geography), coalesce(n.chemistry, o.history), coalesce(n.biology, o.economics),
       coalesce(n.aptitude, o.aptitude), coalesce(n.civics, o.civics),
       s.pass_mark, s.code
FROM results.students s
JOIN results.schools c ON c.id = s.school_id
LEFT JOIN results.natural_results n ON n.student_id = s.id
LEFT JOIN results.social_results o ON o.student_id = s.id WHERE s.id = $1`

// TestMigrateUnderReaders: servers of the version before look up all the while,
// and what they and their successors find is what was there. Somebody who reads
// everything, and so has a lock that a step needs, delays it and nothing else.
func TestMigrateUnderReaders(t *testing.T) {
	t.Parallel()
	const count = 3 * chunkStudents
	source := resultstest.Generator(t, 4, count)
	url := filled(t, source)
	execute(t, url, firstVersion)
	ctx, stop := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	var found atomic.Int64
	for first := range int64(3) {
		conn := dial(t, url)
		if _, err := conn.Exec(t.Context(), "SET statement_timeout = 20000"); err != nil {
			t.Fatal(err)
		}
		readers.Go(func() {
			for id := first; ctx.Err() == nil; {
				id = id%count + 1
				var row row
				if err := conn.QueryRow(context.Background(), firstLookup, id).Scan(row.targets()...); err != nil {
					t.Errorf("student %d: %v", id, err)
					return
				}
				if want := source.Student(id); row.parse() != nil || row.student != want {
					t.Errorf("got %+v, want %+v", row.student, want)
					return
				}
				found.Add(1)
			}
		})
	}
	holder := dial(t, url)
	if _, err := holder.Exec(t.Context(), "BEGIN; SELECT count(*) FROM results.students"); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	conn := dial(t, url)
	go func() { ended <- Migrate(ctx, conn) }()
	poll(t, "look-ups beside a migration that waits", func() bool { return found.Load() > 1000 })
	if _, err := holder.Exec(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	stop()
	readers.Wait()
	checkHolds(t, url, source)
	fresh := filled(t, resultstest.Generator(t, 1, 10))
	if got, want := one[string](t, url, allKeys), one[string](t, fresh, allKeys); got != want {
		t.Errorf("after a migration: got\n%s\nwant\n%s", got, want)
	}
}

// TestMigrateAnInterruptedSeed: a seed that the program before began goes on.
func TestMigrateAnInterruptedSeed(t *testing.T) {
	t.Parallel()
	source := resultstest.Generator(t, 4, 3*chunkStudents)
	url := servertest.Database(t)
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := Seed(ctx, url, source, func(int64, int64) { cancel() }); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want context.Canceled", err)
	}
	execute(t, url, strings.NewReplacer(
		"DROP CONSTRAINT students_place_fkey, ", "",
		"DROP COLUMN region,\n\t\tADD CONSTRAINT students_school_fkey FOREIGN KEY (school_id) REFERENCES results.schools (id)", "DROP COLUMN region",
		"DROP INDEX results.students_school_idx;", "",
	).Replace(firstVersion))
	seeded, err := Seed(t.Context(), url, source, nil)
	if err != nil || seeded.Resumed == 0 {
		t.Fatalf("got %+v and %v, want a resumed seed", seeded, err)
	}
	checkHolds(t, url, source)
	if got, want := one[string](t, url, allKeys), one[string](t, filled(t, source), allKeys); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
