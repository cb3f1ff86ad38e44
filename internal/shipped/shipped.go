// Package shipped unpacks the files of a system that this program has within
// itself, so that the system can be started without its sources.
//
// It knows no system: the caller says which files. What is unpacked belongs to
// nobody in particular: it may be deleted at any time and is written again at
// the next start. To change something, copy it elsewhere and start the copy.
package shipped

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Unpack writes files below cache, in a directory that is called name and lies
// in one named by their content: another version of this program does not
// change files that a running system reads. It returns that directory.
//
// Every file is put in place whole, by renaming; those that are there already
// are compared and left alone. So it may be called at any time, by several
// processes too, and what was changed or deleted there is as it should be
// afterwards.
func Unpack(files fs.FS, cache, name string) (string, error) {
	sum := sha256.New()
	contents := map[string][]byte{}
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}
		contents[path] = text
		_, err = fmt.Fprintf(sum, "%s\x00%d\x00%s", path, len(text), text) // in order: WalkDir sorts
		return err
	})
	if err != nil {
		return "", fmt.Errorf("unpack the system %s: %w", name, err)
	}
	const enough = 12 // digits that tell the versions of one system apart
	dir := filepath.Join(cache, hex.EncodeToString(sum.Sum(nil))[:enough], name)
	for path, text := range contents {
		if err := place(filepath.Join(dir, filepath.FromSlash(path)), text); err != nil {
			return "", fmt.Errorf("unpack the system %s: %w", name, err)
		}
	}
	return dir, nil
}

// place makes a file have a content. All users may read it: a server may run as
// another one than this program.
func place(file string, text []byte) error {
	if old, err := os.ReadFile(file); err == nil && bytes.Equal(old, text) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".new-*")
	if err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if strings.HasPrefix(string(text), "#!") {
		mode = 0o755
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(mode), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
