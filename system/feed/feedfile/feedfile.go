// Package feedfile reads posts from files: JSON lines, a post with everything about it a
// line, or CSV, a post a row. A file is checked whole before anything is made of it, and
// every mistake is told with its line.
package feedfile

import (
	"bufio"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"loadstone/block/dataset"
	"loadstone/system/feed"
)

const (
	// MaxLineBytes bounds a line of JSON and a row of CSV: almost four times what the texts of
	// a valid post have together. One of such a size fits unless most of it is escaped.
	MaxLineBytes = 16 << 20
	// maxMistakes is how many are told at once.
	maxMistakes = 20
)

// Forms are the formats, for people.
const Forms = ".jsonl for JSON lines or .csv, or either with .gz"

// File is the source of a file's posts. It reads the file each time; one that has changed
// since Open fails.
type File struct {
	path   string
	zipped bool
	open   func(io.Reader) decoder
	meta   dataset.Meta
}

// decoder reads one post after the other, then io.EOF. What is wrong with a post is a
// *mistake, behind which it reads on, and other errors end it.
type decoder interface {
	next() (e feed.Entry, line int, err error)
}

// mistake is what is wrong with a line.
type mistake struct{ error }

func (m mistake) Unwrap() error { return m.error }

// Open checks a file, whose name says its format. Its error wraps feed.ErrInput if the file
// has mistakes, and lists the first of them.
func Open(ctx context.Context, path string) (*File, error) {
	f := &File{path: path}
	plain, zipped := strings.CutSuffix(path, ".gz")
	f.zipped = zipped
	switch filepath.Ext(plain) {
	case ".jsonl":
		f.open = newJSONLines
	case ".csv":
		f.open = newCSV
	default:
		return nil, fmt.Errorf("%w: the format of %s is not known: name it %s", feed.ErrInput, path, Forms)
	}
	if err := f.check(ctx); err != nil {
		return nil, err
	}
	return f, nil
}

// Meta implements dataset.Source.
func (f *File) Meta() dataset.Meta { return f.meta }

// check reads the whole file.
func (f *File) check(ctx context.Context) error {
	sum := sha256.New()
	c := checker{ids: map[int64]int{}, authors: map[int64]authorAt{}}
	err := f.read(ctx, sum, func(e *feed.Entry, line int, err error) bool {
		c.add(e, line, err)
		return len(c.mistakes) < maxMistakes
	})
	if err != nil {
		return err
	}
	if len(c.ids) == 0 && c.mistakes == nil {
		c.mistakes = []error{errors.New("there are no posts")}
	}
	if c.mistakes != nil {
		return fmt.Errorf("%s: %w:\n%w", f.path, feed.ErrInput, errors.Join(c.mistakes...))
	}
	hash := hex.EncodeToString(sum.Sum(nil))
	const start = 12 // digits, for people
	f.meta = dataset.Meta{
		Origin:      fmt.Sprintf("%.200s, sha256 %s, %d posts", filepath.Base(f.path), hash[:start], len(c.ids)),
		Fingerprint: "feed file " + hash, Count: int64(len(c.ids)),
	}
	return nil
}

// read hands every post of the file to use, with its line or what is wrong there, until use
// returns false. What was read goes to copied as well.
func (f *File) read(ctx context.Context, copied io.Writer, use func(e *feed.Entry, line int, err error) bool) error {
	file, err := os.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("open %s: %w: there is no such file", f.path, feed.ErrInput)
	}
	if err != nil {
		return fmt.Errorf("open a file of posts: %w", err)
	}
	defer func() { _ = file.Close() }() // it was only read
	content := bufio.NewReader(io.TeeReader(file, copied))
	if f.zipped {
		unzipped, err := gzip.NewReader(content)
		if err != nil {
			return fmt.Errorf("read %s: %w: it is not compressed, or not with gzip", f.path, feed.ErrInput)
		}
		content = bufio.NewReader(unzipped)
	}
	if mark, _ := content.Peek(3); string(mark) == "\xef\xbb\xbf" {
		_, _ = content.Discard(len(mark)) // is there
	}
	for d := f.open(content); ctx.Err() == nil; {
		e, line, err := d.next()
		_, wrong := errors.AsType[mistake](err)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, gzip.ErrChecksum), errors.Is(err, gzip.ErrHeader), errors.Is(err, io.ErrUnexpectedEOF):
			return fmt.Errorf("read %s: %w: the compressed file is not whole", f.path, feed.ErrInput)
		case err != nil && !wrong:
			return fmt.Errorf("read %s: %w", f.path, err)
		case !use(&e, line, err):
			return nil
		}
	}
	return ctx.Err()
}

// errChanged is why a file that was checked cannot be read.
var errChanged = errors.New("the file has changed since it was checked: leave it alone, and begin again")

// All implements dataset.Source.
func (f *File) All(ctx context.Context) iter.Seq2[feed.Entry, error] {
	return func(yield func(feed.Entry, error) bool) {
		sum, stopped := sha256.New(), false
		err := f.read(ctx, sum, func(e *feed.Entry, _ int, err error) bool {
			if err == nil {
				err = e.Validate()
			}
			if err != nil {
				yield(feed.Entry{}, fmt.Errorf("%s: %w", f.path, errChanged))
				stopped = true
				return false
			}
			stopped = !yield(*e, nil)
			return !stopped
		})
		if err == nil && !stopped && fmt.Sprintf("feed file %x", sum.Sum(nil)) != f.meta.Fingerprint {
			err = fmt.Errorf("%s: %w", f.path, errChanged)
		}
		if err != nil && !stopped {
			yield(feed.Entry{}, err)
		}
	}
}

// authorAt is an author as a line has it.
type authorAt struct {
	feed.Author
	line int
}

// checker collects what is wrong with a file.
type checker struct {
	ids      map[int64]int // by id, the line
	authors  map[int64]authorAt
	mistakes []error
}

func (c *checker) add(e *feed.Entry, line int, err error) {
	wrong := func(err error) { c.mistakes = append(c.mistakes, fmt.Errorf("line %d: %w", line, err)) }
	if err == nil {
		err = e.Validate()
	}
	if err != nil {
		if all, ok := err.(interface{ Unwrap() []error }); ok {
			for _, err := range all.Unwrap() {
				wrong(err)
			}
			return
		}
		wrong(err)
		return
	}
	if first, ok := c.ids[e.ID]; ok {
		wrong(fmt.Errorf("post %d was in line %d already: give each an id of its own", e.ID, first))
		return
	}
	c.ids[e.ID] = line
	if first, ok := c.authors[e.Author.ID]; ok && first.Author != e.Author {
		wrong(fmt.Errorf("author %d is somebody else than in line %d: write an author alike in each post", e.Author.ID, first.line))
		return
	}
	c.authors[e.Author.ID] = authorAt{e.Author, line}
}
