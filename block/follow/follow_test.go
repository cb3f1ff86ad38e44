package follow

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// load refuses empty files.
func load(path string) (*string, fs.FileInfo, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	if len(data) == 0 {
		return nil, nil, errors.New("it is empty")
	}
	info, err := os.Stat(path)
	text := string(data)
	return &text, info, err
}

// One file after the other comes to the path, under a clock that the test moves. What
// happens is told once per file, however often it is looked at.
func TestFilesComeAndGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "file")
		put := func(text string) func() error {
			return func() error {
				return errors.Join(os.WriteFile(path+".new", []byte(text), 0o600), os.Rename(path+".new", path))
			}
		}
		if err := put("a")(); err != nil {
			t.Fatal(err)
		}
		told := make(chan string, 100)
		f, err := Open(path, Config[string]{
			Interval: time.Second, Load: load,
			Switched: func(from, to *string) { told <- fmt.Sprintf("%s to %s", *from, *to) },
			Refused:  func(err error) { told <- err.Error() },
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer cancel()
		go func() { _ = f.Run(ctx) }() // the bubble waits for it
		for _, step := range []struct {
			do            func() error
			tells, serves string
		}{
			{func() error { return nil }, "", "a"},
			{put("b"), "a to b", "b"},
			{put(""), "it is empty", "b"},
			{put("b"), "b to b", "b"},
			{func() error { return os.Remove(path) }, "no such file", "b"},
			{put(""), "it is empty", "b"},
			{put("c"), "b to c", "c"},
			{func() error { return os.WriteFile(path, []byte("longer"), 0o600) }, "c to longer", "longer"},
		} {
			if err := step.do(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second) // of the bubble's clock: ten looks
			synctest.Wait()
			got, times := "", len(told)
			for range times {
				got = <-told
			}
			if *f.Current() != step.serves || times > 1 || (got == "") != (step.tells == "") || !strings.Contains(got, step.tells) {
				t.Fatalf("told %d times %q, serves %q, want %q and %q", times, got, *f.Current(), step.tells, step.serves)
			}
		}
		// A closed follower is not opened again by a new file.
		if err := errors.Join(f.Close(), f.Close(), put("d")()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if f.Current() != nil || len(told) != 0 {
			t.Errorf("after close: told %d times", len(told))
		}
	})
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	if _, err := Open("unused", Config[string]{Interval: -1}); err == nil || !strings.Contains(err.Error(), "interval is -1ns") || !strings.Contains(err.Error(), "load is nil") {
		t.Errorf("got %v, want both problems", err)
	}
	if _, err := Open(filepath.Join(t.TempDir(), "absent"), Config[string]{Interval: 1, Load: load}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want ErrNotExist", err)
	}
}
