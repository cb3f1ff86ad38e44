package shipped

import (
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/fstest"
)

func TestUnpackIsTheSameForTheSameContent(t *testing.T) {
	t.Parallel()
	cache := t.TempDir()
	files := fstest.MapFS{
		"compose.yaml":     {Data: []byte("services: {}\n")},
		".env":             {Data: []byte("A=b\n")},
		"nginx/start.sh":   {Data: []byte("#!/bin/sh\n")},
		"nginx/nginx.conf": {Data: []byte("events {}\n")},
	}
	dirs := make([]string, 8)
	var wait sync.WaitGroup
	for i := range dirs { // several programs may start at once
		wait.Go(func() {
			var err error
			if dirs[i], err = Unpack(files, cache, "shop"); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	for _, dir := range dirs {
		if dir != dirs[0] || filepath.Base(dir) != "shop" {
			t.Errorf("got %s and %s, want one directory called shop", dirs[0], dir)
		}
	}
	n := 0
	err := fs.WalkDir(os.DirFS(dirs[0]), ".", func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			n++
		}
		return err
	})
	if err != nil || n != len(files) {
		t.Errorf("got %d files, %v, want %d and nothing that was left", n, err, len(files))
	}
	if info, err := os.Stat(filepath.Join(dirs[0], "nginx/start.sh")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("a script: got %v, %v, want that all may run it", info, err)
	}
}

func TestUnpackRepairsAndOtherContentIsElsewhere(t *testing.T) {
	t.Parallel()
	cache := t.TempDir()
	files := fstest.MapFS{"compose.yaml": {Data: []byte("one")}}
	dir, err := Unpack(files, cache, "shop")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "compose.yaml")
	if err := os.WriteFile(file, []byte("changed"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Unpack(files, cache, "shop"); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "one" {
		t.Errorf("got %q, %v, want it as it was shipped", got, err)
	}
	other, err := Unpack(fstest.MapFS{"compose.yaml": {Data: []byte("two")}}, cache, "shop")
	if err != nil || other == dir {
		t.Errorf("other content: got %s, %v, want another directory", other, err)
	}
}

func TestUnpackSaysWhatItCouldNotDo(t *testing.T) {
	t.Parallel()
	cache := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(cache, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Unpack(fstest.MapFS{"a": {Data: []byte("a")}}, cache, "shop"); err == nil {
		t.Error("a cache that is a file: got no error")
	}
}
