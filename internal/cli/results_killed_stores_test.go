package cli

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"loadstone/system/results/csvfile"
	"loadstone/system/results/resultstest"
	"loadstone/system/results/snapshot"
)

// A command that replaces a data set is killed at any moment: what it replaces is then the old
// one or the new one, whole, and nothing is left over once it has run to its end.
func TestKilledWriters(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args string // %s is the source
		// count is how much there is of what the command makes, after it was proven to be whole.
		count func(t *testing.T, dir string) int
	}{
		"import": {"import %s.csv --store sqlite:out", func(t *testing.T, dir string) int {
			t.Helper()
			_ = os.Remove(filepath.Join(dir, "proof"))
			said(t, dir, "publish --from sqlite:out --to snapshot:proof", exitOK) // reads every student
			return studentsIn(t, filepath.Join(dir, "proof"))
		}},
		"publish": {"publish --from sqlite:%s --to snapshot:out", func(t *testing.T, dir string) int {
			t.Helper()
			return studentsIn(t, filepath.Join(dir, "out"))
		}},
		"export": {"export --from sqlite:%s --to out --key-file key --iterations 10", func(t *testing.T, dir string) int {
			t.Helper()
			files := 0
			err := filepath.WalkDir(filepath.Join(dir, "out"), func(_ string, d fs.DirEntry, err error) error {
				if err == nil && d.Type().IsRegular() {
					files++
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
			return files
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for source, count := range map[string]int64{"a": 40, "b": 90} {
				said(t, dir, fmt.Sprintf("seed --seed %d --students %d --store sqlite:%s", count, count, source), exitOK)
				file, err := os.Create(filepath.Join(dir, source+".csv"))
				if err != nil {
					t.Fatal(err)
				}
				if err := csvfile.Write(t.Context(), file, resultstest.Generator(t, uint64(count), count), nil); err != nil {
					t.Fatal(err)
				}
				if err := file.Close(); err != nil {
					t.Fatal(err)
				}
			}
			args := func(source string) []string {
				return append([]string{"results"}, strings.Fields(fmt.Sprintf(c.args, source))...)
			}
			whole, most := map[int]bool{}, time.Duration(0)
			for _, source := range []string{"b", "a"} {
				began := time.Now()
				if got := loadstone(t, dir, args(source)...); got.code != exitOK {
					t.Fatalf("exit status %d: %s", got.code, got.stderr)
				}
				most = 3 * time.Since(began) / 2
				whole[c.count(t, dir)] = true
			}
			if len(whole) != 2 {
				t.Fatalf("the two are alike: %v", whole)
			}
			before := names(t, dir)
			for i := range 8 {
				cmd := exec.CommandContext(t.Context(), program, args([]string{"b", "a"}[i%2])...)
				cmd.Dir = dir
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				timer := time.AfterFunc(rand.N(most), func() { _ = cmd.Process.Kill() })
				_ = cmd.Wait() // killed, or done before
				timer.Stop()
				if got := c.count(t, dir); !whole[got] {
					t.Errorf("after kill %d: got %d, want one of %v", i, got, whole)
				}
			}
			for _, source := range []string{"b", "a"} {
				if got := loadstone(t, dir, args(source)...); got.code != exitOK {
					t.Errorf("after the kills: exit status %d: %s", got.code, got.stderr)
				}
			}
			c.count(t, dir)
			if after := names(t, dir); !slices.Equal(after, before) {
				t.Errorf("after the kills there are %v, before them %v", after, before)
			}
		})
	}
}

// studentsIn is how many a snapshot has, which is proven by opening it.
func studentsIn(t *testing.T, path string) int {
	t.Helper()
	s, err := snapshot.Follow(path, snapshot.DefaultConfig())
	if err != nil {
		t.Error(err)
		return 0
	}
	defer func() { _ = s.Close() }()
	return int(s.Meta().Count)
}

// names are what a directory holds.
func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		all = append(all, entry.Name())
	}
	return all
}
