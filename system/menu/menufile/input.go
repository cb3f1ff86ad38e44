package menufile

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"syscall"

	"loadstone/system/menu"
)

const (
	// MaxMenuBytes bounds a line, and a document of schema.org: many times what a valid
	// menu has.
	MaxMenuBytes = 1 << 20
	bufferSize   = 64 << 10
)

// input is an open file.
type input struct {
	path    string
	file    *os.File
	content io.Reader // uncompressed, behind the byte order mark
	hash    hash.Hash // of the content that was read, and the mark
	start   int64     // of the content, in bytes
	zipped  bool
}

// openInput opens a file that can be read twice.
func openInput(path string) (*input, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe would wait for its writer
	if err != nil {
		return nil, fmt.Errorf("open a file of menus: %w", err)
	}
	in := &input{path: path, file: file, hash: sha256.New()}
	if err := in.begin(); err != nil {
		in.close()
		return nil, in.explain(err)
	}
	return in, nil
}

// begin makes sure that it can be read twice, and looks at the first bytes.
func (in *input) begin() error {
	info, err := in.file.Stat()
	if err != nil {
		return fmt.Errorf("open a file of menus: %w", err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%w: %s is not a file: save the menus in one, for it is read twice", menu.ErrInput, in.path)
	}
	return in.unpack(in.file)
}

// unpack makes content of what the file has.
func (in *input) unpack(file io.Reader) error {
	r := bufio.NewReaderSize(file, bufferSize)
	if magic, _ := r.Peek(2); string(magic) == "\x1f\x8b" {
		in.zipped = true
		plain, err := gzip.NewReader(r)
		if err != nil {
			return err
		}
		r = bufio.NewReaderSize(plain, bufferSize)
	}
	first, err := r.Peek(3)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if bytes.HasPrefix(first, []byte("\xff\xfe")) || bytes.HasPrefix(first, []byte("\xfe\xff")) || bytes.IndexByte(first, 0) >= 0 {
		return fmt.Errorf("%w: %s is UTF-16: save it as UTF-8", menu.ErrInput, in.path)
	}
	in.content = io.TeeReader(r, in.hash)
	if string(first) == "\xef\xbb\xbf" {
		in.start = 3
		_, err = io.CopyN(io.Discard, in.content, in.start)
		return err
	}
	return nil
}

// from is the content from a byte on.
func (in *input) from(at int64) io.Reader {
	const whole = 1 << 62
	return io.NewSectionReader(in.file, in.start+at, whole)
}

// explain says what an error of reading compressed data means.
func (in *input) explain(err error) error {
	var damaged flate.CorruptInputError
	if in.zipped && (errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, gzip.ErrChecksum) || errors.Is(err, gzip.ErrHeader) || errors.As(err, &damaged)) {
		return fmt.Errorf("%w: %s is cut short or damaged: compress it again: %w", menu.ErrInput, in.path, err)
	}
	return err
}

// close cannot lose anything: the file was only read.
func (in *input) close() { _ = in.file.Close() }

// lines cuts content into lines and skips empty ones.
type lines struct {
	scan     *bufio.Scanner
	at, next int64 // bytes where the last line starts, and the next one
	ended    bool
}

func newLines(content io.Reader, at int64) *lines {
	l := &lines{scan: bufio.NewScanner(content), next: at}
	l.scan.Buffer(nil, MaxMenuBytes)
	l.scan.Split(func(data []byte, end bool) (int, []byte, error) {
		size, line, err := bufio.ScanLines(data, end)
		if size > 0 {
			l.at, l.next = l.next, l.next+int64(size)
		}
		return size, line, err
	})
	return l
}

// read returns a line without its end, valid until the next call, and where it starts; or
// io.EOF; or a *menuError, behind which it reads no further.
func (l *lines) read() ([]byte, int64, error) {
	for !l.ended && l.scan.Scan() {
		if line := l.scan.Bytes(); len(bytes.TrimSpace(line)) > 0 {
			return line, l.at, nil
		}
	}
	err := l.scan.Err()
	switch {
	case l.ended || err == nil:
		return nil, 0, io.EOF
	case errors.Is(err, bufio.ErrTooLong):
		l.ended = true
		return nil, 0, wrongf(l.next, "the line has more than %d bytes: write a shorter one; what follows was not read", MaxMenuBytes)
	}
	return nil, 0, err
}
