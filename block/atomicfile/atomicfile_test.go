package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func write(t *testing.T, pending *Pending, text string) {
	t.Helper()
	if _, err := pending.File().WriteString(text); err != nil {
		t.Fatal(err)
	}
}

func create(t *testing.T, target string) *Pending {
	t.Helper()
	pending, err := Create(target)
	if err != nil {
		t.Fatal(err)
	}
	return pending
}

func checkFile(t *testing.T, name, want string) {
	t.Helper()
	got, err := os.ReadFile(name)
	if err != nil || string(got) != want {
		t.Errorf("%s: got %q, %v, want %q", name, got, err, want)
	}
}

func checkAbsent(t *testing.T, name string) {
	t.Helper()
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: got %v, want that it does not exist", name, err)
	}
}

func TestCommitReplaces(t *testing.T) {
	t.Parallel()
	target := filepath.Join(t.TempDir(), "data")
	for _, text := range []string{"first", "second"} {
		pending := create(t, target)
		write(t, pending, text)
		if err := pending.Commit(); err != nil {
			t.Fatal(err)
		}
		if err := pending.Discard(); err != nil {
			t.Errorf("discard after commit: %v", err)
		}
		checkFile(t, target, text)
		checkAbsent(t, target+Suffix)
	}
}

func TestDiscardChangesNothing(t *testing.T) {
	t.Parallel()
	target := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(target, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	pending := create(t, target)
	write(t, pending, "new")
	checkFile(t, target, "old")
	if err := pending.Discard(); err != nil {
		t.Fatal(err)
	}
	checkFile(t, target, "old")
	checkAbsent(t, target+Suffix)
}

func TestModeIsKeptOrPrivate(t *testing.T) {
	t.Parallel()
	target := filepath.Join(t.TempDir(), "data")
	for _, want := range []fs.FileMode{0o600, 0o644} {
		pending := create(t, target)
		if err := pending.Commit(); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(target)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("got mode %o, want %o", got, want)
		}
		if err := os.Chmod(target, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTargetThatIsNoFileIsRefused(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	if _, err := Create(directory); err == nil || !strings.Contains(err.Error(), "is not a file") {
		t.Errorf("got %v, want a refusal", err)
	}
	if _, err := Create(filepath.Join(directory, "absent", "data")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in an absent directory: got %v, want that it does not exist", err)
	}
}

func TestSecondBuilderIsRefused(t *testing.T) {
	t.Parallel()
	target := filepath.Join(t.TempDir(), "data")
	first := create(t, target)
	write(t, first, "first")
	if _, err := Create(target); !errors.Is(err, ErrBusy) {
		t.Errorf("got %v, want ErrBusy", err)
	}
	if err := first.Commit(); err != nil {
		t.Fatal(err)
	}
	checkFile(t, target, "first")
}

// TestKilledBuilder runs a builder in a process of its own, which kills itself
// with a half-written file, and builds again.
func TestKilledBuilder(t *testing.T) {
	const variable = "ATOMICFILE_TEST_TARGET"
	if target := os.Getenv(variable); target != "" {
		pending := create(t, target)
		write(t, pending, "half of a long text")
		self, err := os.FindProcess(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		t.Fatal(self.Kill())
	}
	t.Parallel()
	target := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(target, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledBuilder$")
	child.Env = append(os.Environ(), variable+"="+target)
	if err := child.Run(); err == nil {
		t.Fatal("the child was not killed")
	}
	checkFile(t, target, "old")
	checkFile(t, target+Suffix, "half of a long text")

	pending := create(t, target)
	write(t, pending, "new")
	if err := pending.Commit(); err != nil {
		t.Fatal(err)
	}
	checkFile(t, target, "new")
	checkAbsent(t, target+Suffix)
}

// TestRacingBuildersNeverMix lets builders of one target race; every file that
// appears must be one builder's whole text.
func TestRacingBuildersNeverMix(t *testing.T) {
	t.Parallel()
	target := filepath.Join(t.TempDir(), "data")
	texts := map[string]bool{}
	for letter := byte('a'); letter < 'e'; letter++ {
		texts[strings.Repeat(string(letter), 1000*int(letter-'a'+1))] = true
	}
	var builders sync.WaitGroup
	for text := range texts {
		builders.Go(func() {
			for done := 0; done < 20; {
				pending, err := Create(target)
				if errors.Is(err, ErrBusy) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := pending.File().WriteString(text); err != nil {
					t.Error(err)
				}
				if err := pending.Commit(); err != nil {
					t.Error(err)
				}
				done++
				if got, err := os.ReadFile(target); err != nil || !texts[string(got)] {
					t.Errorf("got a file of %d bytes, %v, which no builder wrote", len(got), err)
				}
			}
		})
	}
	builders.Wait()
	checkAbsent(t, target+Suffix)
}
