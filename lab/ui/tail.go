package ui

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
)

const (
	// maxLine bounds a line of a raw file. One of windows.jsonl has a few KB.
	maxLine = 4 << 20
	// maxRead bounds what one look at a file takes in; the rest comes with the
	// next one.
	maxRead = 16 << 20
)

var errLongLine = errors.New("a line of it is longer than 4 MiB")

// tail reads the lines of a file that grows. A line counts when its end has
// been written: the writer's buffer goes out at any byte, so the last line is
// nearly always a half.
type tail struct {
	root *os.Root
	name string
	next int64 // where the first line begins that has not been read
}

// read calls each with every line that has become whole since the last call.
// A file that is not there yet has none. One that is shorter than what was read
// of it is another file, and begins again.
func (t *tail) read(each func(line []byte) error) error {
	f, info, err := openRegular(t.root, t.name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // read only
	if info.Size() < t.next {
		t.next = 0
	}
	data, err := io.ReadAll(io.NewSectionReader(f, t.next, min(info.Size()-t.next, maxRead)))
	if err != nil {
		return err
	}
	for {
		line, rest, ok := bytes.Cut(data, []byte("\n"))
		if !ok {
			if len(data) > maxLine {
				return errLongLine
			}
			return nil
		}
		t.next += int64(len(line)) + 1
		if data = rest; len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if err := each(line); err != nil {
			return err
		}
	}
}
