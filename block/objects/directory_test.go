package objects

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// writerDir makes the test binary a writer that is killed.
const writerDir = "OBJECTS_WRITER_DIR"

func runAsWriter() bool {
	path := os.Getenv(writerDir)
	if path == "" {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // in case the test is killed
	defer cancel()
	d, err := OpenDirectory(path)
	if err != nil {
		panic(err)
	}
	for ctx.Err() == nil {
		if err := step(ctx, d); err != nil {
			panic(err)
		}
	}
	return true
}

// record is what one step writes: a number, and bytes that say whether it is all there.
func record(n int) []byte { return fmt.Appendf(bytes.Repeat([]byte{byte(n)}, 200_000), ":%d", n) }

func number(body []byte) (int, error) {
	n, err := strconv.Atoi(string(body[bytes.LastIndexByte(body, ':')+1:]))
	if err == nil && !bytes.Equal(body, record(n)) {
		err = errors.New("broken")
	}
	return n, err
}

// step replaces the number by the next one, and writes, before and after that, an object named after it.
func step(ctx context.Context, d *Directory) error {
	n := 0
	body, tag, err := d.Get(ctx, "number")
	if err == nil {
		n, err = number(body)
	} else if errors.Is(err, ErrNotFound) {
		err = nil
	}
	if err != nil {
		return err
	}
	_, before := d.Put(ctx, fmt.Sprintf("steps/%d/before", n+1), record(n+1), Absent)
	_, now := d.Put(ctx, "number", record(n+1), tag)
	_, after := d.Put(ctx, fmt.Sprintf("steps/%d/after", n+1), record(n+1), Absent)
	for _, err := range []error{before, now, after} {
		if err != nil && !errors.Is(err, ErrChanged) {
			return err
		}
	}
	return nil
}

// Two writers are killed at moments that no one chooses; what is there is whole, nothing that was written is
// lost, and the next ones go on.
func TestWritersAreKilled(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "objects")
	d, err := OpenDirectory(path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	last := 0
	for round := range 10 {
		var writers []*exec.Cmd
		for range 2 {
			w := exec.Command(os.Args[0])
			w.Env = append(os.Environ(), writerDir+"="+path)
			if err := w.Start(); err != nil {
				t.Fatal(err)
			}
			writers = append(writers, w)
			t.Cleanup(func() {
				_ = w.Process.Kill()
				_ = w.Wait() // killed
			})
		}
		// Some steps further, and then in the middle of one: where, the machine decides.
		for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(time.Millisecond) {
			body, _, err := d.Get(t.Context(), "number")
			if err == nil {
				n, err := number(body)
				if err != nil || n < last {
					t.Fatalf("round %d: after %d there is %d, %v", round, last, n, err)
				}
				if n > last+round%3 {
					last = n
					break
				}
			} else if !errors.Is(err, ErrNotFound) {
				t.Fatal(err)
			}
			if time.Now().After(deadline) {
				t.Fatal("nothing is written any more")
			}
		}
		for _, w := range writers {
			_ = w.Process.Kill()
			_ = w.Wait() // killed
		}
	}
	names, err := d.List(t.Context(), "steps/")
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, name := range names {
		body, _, err := d.Get(t.Context(), name)
		if err == nil {
			_, err = number(body)
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		there[name] = true
	}
	for n := range last {
		if name := fmt.Sprintf("steps/%d/before", n+1); !there[name] {
			t.Errorf("%s is lost", name)
		}
	}
	files, err := os.ReadDir(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		switch f.Name() {
		case lockFile, pendingFile, "number", "steps":
		default:
			t.Errorf("%s is left", f.Name())
		}
	}
}

func TestDirectoriesOfTheOthers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenDirectory(path); err == nil {
		t.Error("a file was taken for a directory")
	}
	dir := t.TempDir()
	d, err := OpenDirectory(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	// A link leads nowhere outside.
	if err := os.Symlink(path, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.Get(t.Context(), "link"); err == nil {
		t.Error("a link led out of the directory")
	}
	// A temporary file of a writer that was killed is nobody's object, and in nobody's way.
	if err := os.WriteFile(filepath.Join(dir, pendingFile), make([]byte, 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	if names, err := d.List(t.Context(), ""); err != nil || len(names) > 0 {
		t.Errorf("got %q and %v", names, err)
	}
	holds(t, d, "a/b", "text", put(t, d, "a/b", "text", Absent))
	if err := d.Delete(t.Context(), "a/b"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "a")); !os.IsNotExist(err) {
		t.Errorf("an empty directory is left: %v", err)
	}
}
