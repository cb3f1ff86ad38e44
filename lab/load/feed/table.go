package feed

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// mostBytes is how large a feed's file may be.
const mostBytes = 256 << 20

// table is the rows of a file: one arena with the bytes of all values, row by
// row, and where each ends. A value costs its bytes and four more.
type table struct {
	arena []byte
	// ends[i] is where value i-1 ends and value i begins. No file makes an
	// arena that 32 bits cannot count: a value is at most three times as long
	// as its text in the file, where JSON's � stands for a broken byte.
	ends  []uint32
	width int    // values in a row
	count uint64 // rows
}

// newTable returns a table without rows. It has room for values of so many
// bytes: an arena that grew would be there twice whenever it moved, and memory
// that is not written to is none.
func newTable(width int, room int64) *table {
	return &table{width: width, arena: make([]byte, 0, room), ends: []uint32{0}}
}

// add appends a value to the row that is being added.
func (t *table) add(value string) {
	t.arena = append(t.arena, value...)
	t.ends = append(t.ends, uint32(len(t.arena)))
}

// endRow counts the row that was added.
func (t *table) endRow() { t.count++ }

// value returns a value, which is not to be changed.
func (t *table) value(row uint64, field int) []byte {
	i := row*uint64(t.width) + uint64(field)
	return t.arena[t.ends[i]:t.ends[i+1]]
}

// input is a file that is being read.
type input struct {
	*bufio.Reader
	path string
	want string // the column to read; all if it is empty
	room int64  // about how many bytes the values will have
}

// reader reads the rows of one format. It returns the names of the columns
// read, in their order in a row.
type reader func(in input) (*table, []string, error)

// readFile reads the rows of a file. What is added to the file meanwhile is not
// read.
func readFile(f *File, read reader) (*table, []string, error) {
	info, err := os.Stat(f.Path) // before it is opened: to open a pipe waits for its writer
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("there is no file %s: write the path of one", f.Path)
	}
	if err != nil {
		return nil, nil, err // names the path
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s: not a regular file: give one", f.Path)
	}
	if info.Size() > mostBytes {
		return nil, nil, fmt.Errorf("%s: it has %d MiB, and a feed's file may have %d: take a part of it",
			f.Path, info.Size()>>20, mostBytes>>20)
	}
	file, err := os.Open(f.Path)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close() //nolint:errcheck // nothing was written
	in := input{Reader: bufio.NewReaderSize(io.LimitReader(file, info.Size()), 64<<10), path: f.Path, want: f.Column}
	if f.Column == "" {
		in.room = info.Size()
	}
	if err := in.skipMark(); err != nil {
		return nil, nil, err
	}
	rows, names, err := read(in)
	if err != nil {
		return nil, nil, err
	}
	if rows.count == 0 {
		return nil, nil, fmt.Errorf("%s: it has no rows: add one at least", f.Path)
	}
	return rows, names, nil
}

// skipMark skips the byte order mark that some programs begin UTF-8 with.
func (in input) skipMark() error {
	mark, err := in.Peek(3)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read %s: %w", in.path, err)
	}
	switch {
	case bytes.Equal(mark, []byte("\xef\xbb\xbf")):
		_, err := in.Discard(3)
		return err
	case bytes.HasPrefix(mark, []byte("\xff\xfe")), bytes.HasPrefix(mark, []byte("\xfe\xff")):
		return fmt.Errorf("%s: it is written in UTF-16: save it as UTF-8", in.path)
	}
	return nil
}

// list writes out names for an error, quoted: a space at an end would not show.
func list(names []string) string {
	const most = 20
	if len(names) == 0 {
		return "none"
	}
	quoted := make([]string, 0, most+1)
	for i, name := range names {
		if i == most {
			quoted = append(quoted, fmt.Sprintf("and %d more", len(names)-most))
			break
		}
		quoted = append(quoted, fmt.Sprintf("%q", name))
	}
	return strings.Join(quoted, ", ")
}
