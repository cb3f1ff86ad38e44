package driver

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestOwnerIsReadFromTheRunsName(t *testing.T) {
	t.Parallel()
	name, err := RunName("/proc")
	if err != nil {
		t.Fatal(err)
	}
	if p, ok := RunOwner(name); !ok || p.PID != os.Getpid() || !p.Alive("/proc") {
		t.Errorf("%s: got %+v, %v, want this process, alive", name, p, ok)
	}
	for _, other := range []string{"", "results", "loadstone-", "loadstone-1-2", "loadstone-1-2-", "loadstone-01-2-abcdef01", "loadstone-1-2-abcdef012", "loadstone-1-2-abc def"} {
		if p, ok := RunOwner(other); ok {
			t.Errorf("%q: got %+v, want no owner", other, p)
		}
	}
}

// What a lab of another machine has in a cluster is not swept as if nobody owned it, also if
// the machines have one name.
func TestMachinesOfOneNameAreToldApart(t *testing.T) {
	t.Parallel()
	var names []string
	for _, id := range []string{"0123456789abcdef", "fedcba9876543210"} {
		file := filepath.Join(t.TempDir(), "machine-id")
		if err := os.WriteFile(file, []byte(id+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		name := labHost("/proc", file)
		if again := labHost("/proc", file); again != name || strings.Contains(name, id) {
			t.Errorf("got %q and %q", name, again)
		}
		names = append(names, name)
	}
	if names[0] == names[1] {
		t.Errorf("both are %q", names[0])
	}
	if got := labHost("/proc", "/no/such/file"); got == "" {
		t.Error("without an id: got nothing")
	}
}

func TestLogsAreBounded(t *testing.T) {
	t.Parallel()
	var kept strings.Builder
	w := &BoundedLog{To: &kept, Room: 10}
	for _, text := range []string{"first\n", strings.Repeat("x", 2*TailBytes), "\n", "second\n", "last\n"} {
		if n, err := w.Write([]byte(text)); n != len(text) || err != nil {
			t.Fatalf("got %d, %v", n, err)
		}
	}
	if got := kept.String(); got != "first\nxxxx" {
		t.Errorf("got %q", got)
	}
	if got := w.Tail.Lines(); len(w.Tail.String()) > TailBytes || !slices.Equal(got[1:], []string{"second", "last"}) {
		t.Errorf("got %d bytes, ending with %q", len(w.Tail.String()), got[1:])
	}
}

func FuzzRunOwner(f *testing.F) {
	f.Add("loadstone-1-2-abcdef01")
	f.Add("loadstone--1-2-x")
	f.Fuzz(func(t *testing.T, name string) {
		if p, ok := RunOwner(name); ok && name[:len(RunPrefix)] != RunPrefix {
			t.Errorf("%q: got %+v", name, p)
		}
	})
}
