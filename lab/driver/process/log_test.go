package process

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"loadstone/lab/driver"
)

func TestALogKeepsItsHeadAndItsEnd(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "api-1.log")
	l, err := newLog(path, 100)
	if err != nil {
		t.Fatal(err)
	}
	written := 0
	for i := range 1000 {
		n, err := fmt.Fprintf(l, "line %d\n", i)
		if err != nil {
			t.Fatal(err)
		}
		written += n
	}
	if got := l.lines(); len(got) != driver.TailLines || got[driver.TailLines-1] != "line 999" || got[0] != "line 985" {
		t.Errorf("got last lines %q", got)
	}
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got := string(text)
	if !strings.HasPrefix(got, "line 0\nline 1\n") || !strings.HasSuffix(got, "line 999\n") {
		t.Errorf("got %q, want the first and the last lines", got)
	}
	if want := fmt.Sprintf("\n[%d bytes are not kept here; the log ended with:]\n", written-100); strings.Index(got, want) != 100 {
		t.Errorf("got %q, want %q after 100 bytes", got, want)
	}
}

func TestAShortLogIsAsItWasWritten(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "api-1.log")
	l, err := newLog(path, 100)
	if err != nil {
		t.Fatal(err)
	}
	if l.lines() != nil {
		t.Errorf("got %q from an empty log", l.lines())
	}
	copyLog(l, strings.NewReader("a\nb"))
	if got := l.lines(); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("got %q", got)
	}
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "a\nb" {
		t.Errorf("got %q, %v", text, err)
	}
}

func TestALogWhoseFileFailsStillTakesAll(t *testing.T) {
	t.Parallel()
	l, err := newLog(filepath.Join(t.TempDir(), "api-1.log"), 100)
	if err != nil {
		t.Fatal(err)
	}
	_ = l.file.Close() // as a full disk would
	if n, err := l.Write([]byte("lost\n")); n != 5 || err != nil {
		t.Errorf("got %d, %v, want all taken", n, err)
	}
	if got := l.lines(); !slices.Equal(got, []string{"lost"}) || l.beyond != 5 {
		t.Errorf("got %q with %d beyond", got, l.beyond)
	}
}
