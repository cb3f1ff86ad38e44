package follow

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"loadstone/block/dataset"
)

func TestOpenHead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	for text, want := range map[string]string{"": "", "abc": "abc", "abcdef": "abcd"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		o, err := OpenHead(path, 4)
		if err != nil {
			t.Fatal(err)
		}
		if string(o.Head) != want || o.Size != int64(len(text)) {
			t.Errorf("%q: got %q of %d bytes, want %q", text, o.Head, o.Size, want)
		}
		if err := o.File.Close(); err != nil {
			t.Error(err)
		}
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{dir: ErrNoFile, pipe: ErrNoFile, filepath.Join(dir, "none"): fs.ErrNotExist} {
		if _, err := OpenHead(path, 4); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", path, err, want)
		}
	}
}

func TestDataSetsAreToldByWhatTheyAre(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	put := func(text string) {
		t.Helper()
		if err := errors.Join(os.WriteFile(path+".new", []byte(text), 0o600), os.Rename(path+".new", path)); err != nil {
			t.Fatal(err)
		}
	}
	put("a")
	meta := func(text *string) dataset.Meta { return dataset.Meta{Origin: *text} }
	var got []string
	f, err := DataSet(path, Settings{Interval: time.Hour, Events: Events{
		Switched: func(from, to dataset.Meta) { got = append(got, from.Origin, to.Origin) },
	}}, load, meta)
	if err != nil {
		t.Fatal(err)
	}
	silent, err := DataSet(path, DefaultSettings(), load, meta)
	if err != nil {
		t.Fatal(err)
	}
	put("b")
	for _, one := range []*Follower[string]{f, silent} {
		one.Look()
		if *one.Current() != "b" {
			t.Errorf("got %q, want b", *one.Current())
		}
	}
	if len(got) != 2 || got[0] != "a" || got[1] != "b" {
		t.Errorf("was told of %q, want from a to b", got)
	}
}
