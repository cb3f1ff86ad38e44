package cli

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// An import is killed at any moment, twice, and run once more: what the store holds then is to
// the byte what an undisturbed import holds, as a file of menus and as a published file, and
// nothing is left beside it.
func TestAKilledMenuImportIsCompleted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const count = "6000" // some of what a store has in one piece
	menuSaid(t, dir, exitOK, "holds", "seed", "--store", "pebble:source", "--menus", count)
	menuSaid(t, dir, exitOK, count+" menus", "export", "--from", "pebble:source", "--to", "menus.jsonl")
	for kind, contents := range map[string]func(store string) [][]byte{
		"pebble": func(store string) [][]byte {
			defer remove(t, dir, "out.csv", "out.record")
			menuSaid(t, dir, exitOK, "menus in out.csv", "export", "--from", store, "--to", "out.csv")
			menuSaid(t, dir, exitOK, "holds", "publish", "--from", store, "--to", "record:out.record")
			return [][]byte{bytesOf(t, dir, "out.csv"), bytesOf(t, dir, "out.record")}
		},
		"record": func(store string) [][]byte {
			return [][]byte{bytesOf(t, dir, strings.TrimPrefix(store, "record:"))}
		},
	} {
		whole, killed := kind+":"+kind+".whole", kind+":"+kind+".killed"
		began := time.Now()
		menuSaid(t, dir, exitOK, "holds", "import", "menus.jsonl", "--store", whole)
		took := time.Since(began)
		for range 2 {
			cmd := exec.CommandContext(t.Context(), program, "menu", "import", "menus.jsonl", "--store", killed)
			cmd.Dir = dir
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			timer := time.AfterFunc(took/4+rand.N(took), func() { _ = cmd.Process.Kill() })
			_ = cmd.Wait() // killed, or done before
			timer.Stop()
		}
		menuSaid(t, dir, exitOK, "", "import", "menus.jsonl", "--store", killed)
		if !slices.EqualFunc(contents(killed), contents(whole), bytes.Equal) {
			t.Errorf("%s: after the kills it has not what an undisturbed import has", kind)
		}
	}
	want := []string{"menus.jsonl", "pebble.killed", "pebble.whole", "record.killed", "record.whole", "source"}
	if left := names(t, dir); !slices.Equal(left, want) {
		t.Errorf("there are %v, want %v", left, want)
	}
}

func remove(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}

func bytesOf(t *testing.T, dir, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil || len(text) == 0 {
		t.Fatalf("%s has %d bytes, and %v", name, len(text), err)
	}
	return text
}
