package pgstore

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// key is a constraint that is cheaper to make once over all rows than to keep
// while they come: an index is sorted instead of searched for each row, and
// references are checked by one join. For 674,823 students, client and database on
// the same 2 cores, 7 us of processor time each instead of 17 (BenchmarkSeed,
// BenchmarkSeedKeys). Checks of single values stay on all the time.
//
// The definition of an index begins with its columns, that of a constraint with
// a word.
type key struct{ table, name, definition string }

func (k key) isIndex() bool { return strings.HasPrefix(k.definition, "(") }

// add is the statement that makes the key.
func (k key) add() string {
	if k.isIndex() {
		return fmt.Sprintf("CREATE INDEX %s ON results.%s %s", k.name, k.table, k.definition)
	}
	return fmt.Sprintf("ALTER TABLE results.%s ADD CONSTRAINT %s %s", k.table, k.name, k.definition)
}

// drop is the statement that takes the key off, if it is there.
func (k key) drop() string {
	if k.isIndex() {
		return "DROP INDEX IF EXISTS results." + k.name
	}
	return fmt.Sprintf("ALTER TABLE results.%s DROP CONSTRAINT IF EXISTS %s", k.table, k.name)
}

// keys are in an order in which they can be made; the reverse takes them off. A
// test holds them to be those of the migrations.
var keys = []key{
	{"students", "students_pkey", "PRIMARY KEY (id)"},
	{"students", "students_stream_key", "UNIQUE (id, stream)"},
	{"natural_results", "natural_results_pkey", "PRIMARY KEY (student_id)"},
	{"social_results", "social_results_pkey", "PRIMARY KEY (student_id)"},
	{"students", "students_school_idx", "(school_id)"},
	{
		"students", "students_place_fkey",
		"FOREIGN KEY (school_id, region, school) REFERENCES results.schools(id, region, name) ON UPDATE CASCADE",
	},
	{
		"natural_results", "natural_results_student_fkey",
		"FOREIGN KEY (student_id, stream) REFERENCES results.students(id, stream)",
	},
	{
		"social_results", "social_results_student_fkey",
		"FOREIGN KEY (student_id, stream) REFERENCES results.students(id, stream)",
	},
}

// tableList names the tables that hold rows of students.
const tableList = "results.schools, results.students, results.natural_results, results.social_results"

// dropKeys takes off the keys that are there: an interrupted seed, or a migration
// that came after it, may have left any of them.
func dropKeys(ctx context.Context, tx pgx.Tx) error {
	for _, k := range slices.Backward(keys) {
		if _, err := tx.Exec(ctx, k.drop()); err != nil {
			return fmt.Errorf("take off the key %s: %w", k.name, err)
		}
	}
	return nil
}

func addKeys(ctx context.Context, tx pgx.Tx) error {
	// Room to sort the largest index, of a million students, in memory; for this
	// transaction only.
	if _, err := tx.Exec(ctx, "SET LOCAL maintenance_work_mem = '128MB'"); err != nil {
		return err
	}
	for _, k := range keys {
		if _, err := tx.Exec(ctx, k.add()); err != nil {
			return fmt.Errorf("make the key %s: %w", k.name, err)
		}
	}
	return nil
}
