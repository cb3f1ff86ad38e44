package pgstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"loadstone/block/dataset"
	"loadstone/block/servertest"
	"loadstone/system/results"
	"loadstone/system/results/resultstest"
)

func checkError(t *testing.T, err, want error, text string) {
	t.Helper()
	if !errors.Is(err, want) || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v, want %v with %q", err, want, text)
	}
	if err != nil && strings.Contains(err.Error(), "secret") {
		t.Errorf("the password is in %v", err)
	}
}

// checkHolds compares every student in the database with the source.
func checkHolds(t *testing.T, url string, source *results.Generator) {
	t.Helper()
	store := openSource(t, url)
	if got, want := store.Meta(), source.Meta(); got != want {
		t.Errorf("meta: got %+v, want %+v", got, want)
	}
	count := int64(0)
	for student, err := range store.All(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		count++
		if want := source.Student(student.ID); student != want {
			t.Fatalf("got %+v, want %+v", student, want)
		}
	}
	if want := source.Meta().Count; count != want {
		t.Errorf("got %d students, want %d", count, want)
	}
}

func TestSeedIsIdempotent(t *testing.T) {
	t.Parallel()
	const count = 2*chunkStudents + 100
	source := resultstest.Generator(t, 5, count)
	url := servertest.Database(t)
	var told []int64
	seeded, err := Seed(t.Context(), url, source, func(done, total int64) {
		if total != count {
			t.Errorf("progress: got a total of %d, want %d", total, count)
		}
		told = append(told, done)
	})
	if err != nil || seeded != (Seeded{}) {
		t.Fatalf("got %+v and %v, want a new seed", seeded, err)
	}
	if len(told) != 3 || told[2] != count {
		t.Errorf("progress: got %v, want three steps up to %d", told, count)
	}
	checkHolds(t, url, source)
	before := one[string](t, url, "SELECT max(xmin::text::bigint)::text FROM results.students")
	seeded, err = Seed(t.Context(), url, source, nil)
	if err != nil || !seeded.Already {
		t.Errorf("second seed: got %+v and %v, want that it is there already", seeded, err)
	}
	if after := one[string](t, url, "SELECT max(xmin::text::bigint)::text FROM results.students"); after != before {
		t.Errorf("second seed: rows are of transaction %s, want %s as before", after, before)
	}
	_, err = Seed(t.Context(), url, resultstest.Generator(t, 6, count), nil)
	checkError(t, err, ErrHolds, "DROP SCHEMA results CASCADE")
	checkHolds(t, url, source)
}

// allKeys lists all constraints and indexes, a line each.
const allKeys = `SELECT string_agg(line, E'\n' ORDER BY line) FROM (
		SELECT conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid) AS line
		FROM pg_constraint WHERE connamespace = 'results'::regnamespace AND convalidated
		UNION ALL SELECT tablename || ' ' || indexname || ' ' || replace(indexdef, 'USING btree ', indexname || ' ')
		FROM pg_indexes WHERE schemaname = 'results') AS lines`

// TestSeedLeavesAllKeys: what is taken off for the rows and put back is what the
// migrations have.
func TestSeedLeavesAllKeys(t *testing.T) {
	t.Parallel()
	fresh := servertest.Database(t)
	if err := Migrate(t.Context(), dial(t, fresh)); err != nil {
		t.Fatal(err)
	}
	want := one[string](t, fresh, allKeys)
	if got := one[string](t, filled(t, resultstest.Generator(t, 1, 100)), allKeys); got != want {
		t.Errorf("after a seed: got\n%s\nwant\n%s", got, want)
	}
	for _, k := range keys {
		if !strings.Contains(want, k.name+" "+k.definition) {
			t.Errorf("the migrations have no %s as %s", k.name, k.definition)
		}
	}
}

// victimAddress names the variable that makes the test binary a seed to be killed.
const victimAddress = "PGSTORE_VICTIM_ADDRESS"

const victimChunks = 6

func victimSource() (*results.Generator, error) {
	return results.NewGenerator(9, victimChunks*chunkStudents)
}

// beVictim seeds, and stops for good after two chunks.
func beVictim(address string) int {
	source, err := victimSource()
	if err != nil {
		return 1
	}
	_, _ = Seed(context.Background(), address, source, func(done, _ int64) {
		if done >= 2*chunkStudents {
			select {}
		}
	})
	return 1
}

func TestSeedSurvivesBeingKilled(t *testing.T) {
	t.Parallel()
	url := servertest.Database(t)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), program)
	child.Env = append(child.Environ(), victimAddress+"="+url)
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	conn := dial(t, url)
	poll(t, "two chunks", func() bool {
		var chunks int
		err := conn.QueryRow(t.Context(), "SELECT count(*) FROM results.seed_chunks").Scan(&chunks)
		return err == nil && chunks >= 2
	})
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := child.Wait(); err == nil {
		t.Error("the child ended by itself")
	}
	source, err := victimSource()
	if err != nil {
		t.Fatal(err)
	}
	_, err = OpenSource(t.Context(), url)
	checkError(t, err, results.ErrMissing, "goes on where it stopped")
	_, err = Seed(t.Context(), url, resultstest.Generator(t, 1, 5), nil)
	checkError(t, err, ErrHolds, "was begun, and not finished, with seed 9")

	first := int64(0)
	seeded, err := Seed(t.Context(), url, source, func(done, _ int64) {
		if first == 0 {
			first = done
		}
	})
	if err != nil || seeded.Already || seeded.Resumed < 2*chunkStudents || seeded.Resumed >= source.Meta().Count {
		t.Fatalf("got %+v and %v, want a resumed seed", seeded, err)
	}
	if want := seeded.Resumed; first != want {
		t.Errorf("progress began with %d, want %d", first, want)
	}
	checkHolds(t, url, source)
}

// poll waits until ok, for long enough on a busy machine.
func poll(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(2 * time.Minute); !ok(); <-ticker.C {
		if time.Now().After(deadline) {
			t.Fatalf("no %s within two minutes", what)
		}
	}
}

// TestSeedsAtOnce: one fills, the others wait for it and find that it is done.
func TestSeedsAtOnce(t *testing.T) {
	t.Parallel()
	source := resultstest.Generator(t, 2, 20_000)
	url := servertest.Database(t)
	var group sync.WaitGroup
	all := make([]Seeded, 4)
	for i := range all {
		group.Go(func() {
			var err error
			all[i], err = Seed(t.Context(), url, source, nil)
			for err != nil && strings.Contains(err.Error(), "then run this again") { // the machine is busy
				all[i], err = Seed(t.Context(), url, source, nil)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	worked := 0
	for _, s := range all {
		if !s.Already {
			worked++
		}
	}
	if worked != 1 {
		t.Errorf("%d seeds did the work, want 1: %+v", worked, all)
	}
	checkHolds(t, url, source)
}

func TestSeedFails(t *testing.T) {
	t.Parallel()
	good := resultstest.Generator(t, 1, 4)
	students := []results.Student{good.Student(1), good.Student(2), good.Student(3)}
	three := dataset.Meta{Origin: "test", Fingerprint: "test", Count: 3}
	broken := errors.New("the tape broke")
	for name, c := range map[string]struct {
		source dataset.Source[results.Student]
		want   string
	}{
		"a duplicate id":     {resultstest.List{Description: three, Students: append(students[:2:2], students[0])}, "each id must be given once"},
		"an invalid student": {resultstest.List{Description: three, Students: append(students[:2:2], results.Student{ID: 77})}, "student with id 77 is not valid"},
		"a broken source":    {resultstest.List{Description: three, Students: students[:1], Err: broken}, "the tape broke"},
		"too few students":   {resultstest.List{Description: three, Students: students[:2]}, "2 records instead of 3"},
		"no students":        {resultstest.List{}, "there must be records"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := servertest.Database(t)
			if _, err := Seed(t.Context(), url, c.source, nil); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			_, err := OpenSource(t.Context(), url)
			checkError(t, err, results.ErrMissing, "seed or import")
		})
	}
}

func TestSeedInAnotherOrder(t *testing.T) {
	t.Parallel()
	source := resultstest.Generator(t, 1, 3*chunkStudents)
	url := servertest.Database(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := Seed(ctx, url, source, func(int64, int64) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want context.Canceled", err)
	}
	list := resultstest.List{Description: source.Meta()}
	for id := source.Meta().Count; id > 0; id-- {
		list.Students = append(list.Students, source.Student(id))
	}
	if _, err := Seed(t.Context(), url, list, nil); err == nil || !strings.Contains(err.Error(), "comes in another order") {
		t.Errorf("got %v, want that the order differs", err)
	}
	if _, err := Seed(t.Context(), url, source, nil); err != nil {
		t.Error(err)
	}
	checkHolds(t, url, source)
}

func TestSeedWithoutServer(t *testing.T) {
	t.Parallel()
	_, err := Seed(t.Context(), "postgres://me:secret@127.0.0.1:1/none", resultstest.Generator(t, 1, 5), nil)
	checkError(t, err, results.ErrUnavailable, "connect")
}

// TestConstraints: the tables refuse what no student may have.
func TestConstraints(t *testing.T) {
	t.Parallel()
	url := filled(t, resultstest.Generator(t, 1, 50))
	conn := dial(t, url)
	for _, statement := range []string{
		"UPDATE results.natural_results SET physics = 101",
		"UPDATE results.social_results SET civics = -1",
		"UPDATE results.natural_results SET english = NULL",
		"UPDATE results.students SET pass_mark = 0",
		"UPDATE results.students SET sex = 'other'",
		"UPDATE results.students SET school_id = 999999",
		"UPDATE results.students SET school = 'Another'",
		"UPDATE results.students SET region = NULL",
		"UPDATE results.students SET code = 'short'",
		"UPDATE results.students SET name = ''",
		"UPDATE results.students SET birth_date = '1899-12-31'",
		"UPDATE results.students SET stream = 'social' WHERE stream = 'natural'",
		"UPDATE results.natural_results SET stream = 'social'",
		"UPDATE results.social_results SET student_id = 12345",
		"DELETE FROM results.schools",
		"DELETE FROM results.students",
		"INSERT INTO results.students SELECT * FROM results.students",
		"INSERT INTO results.data_set (origin, fingerprint, students, chunk_students) VALUES ('', '', 1, 1)",
	} {
		if _, err := conn.Exec(t.Context(), statement); err == nil || !strings.Contains(fmt.Sprint(err), "constraint") {
			t.Errorf("%s: got %v, want a violated constraint", statement, err)
		}
	}
}
