package guardian

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheEndOfThePipeRunsRemovals(t *testing.T) {
	g, log := startGuardian(t)
	file := filepath.Join(t.TempDir(), "removed")
	if err := g.Remove(Command{Argv: []string{"/bin/sh", "-c", `echo "$WHAT" >` + file}, Env: []string{"WHAT=containers"}}); err != nil {
		t.Fatal(err)
	}
	if err := g.Leave(); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "containers\n" {
		t.Errorf("got %q, %v, want what the command writes", text, err)
	}
	if _, err := os.Stat(log); !os.IsNotExist(err) {
		t.Errorf("the guardian had something to say: %v", err)
	}
}

func TestDoneRunsNoRemovals(t *testing.T) {
	g, _ := startGuardian(t)
	file := filepath.Join(t.TempDir(), "removed")
	if err := g.Remove(Command{Argv: []string{"/bin/sh", "-c", "echo >" + file}}); err != nil {
		t.Fatal(err)
	}
	if err := g.Done(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("a removal ran although all was done: %v", err)
	}
}

func TestARemovalThatFailsIsReported(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		argv []string
		want string
	}{
		{[]string{"/bin/sh", "-c", "echo it is stuck >&2; exit 1"}, "it is stuck"},
		{[]string{"sh"}, "names no program"},
		{nil, "names no program"},
	} {
		left := Left{Removals: []Command{{Argv: c.argv}}, ProcRoot: "/proc"}
		if err := left.Clean(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %q", c.argv, err, c.want)
		}
	}
}
