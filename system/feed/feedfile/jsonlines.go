package feedfile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"loadstone/system/feed"
)

// jsonLines reads a post a line.
type jsonLines struct {
	scan *bufio.Scanner
	line int
}

func newJSONLines(content io.Reader) decoder {
	d := &jsonLines{scan: bufio.NewScanner(content)}
	d.scan.Buffer(nil, MaxLineBytes)
	return d
}

func (d *jsonLines) next() (feed.Entry, int, error) {
	for d.scan.Scan() {
		d.line++
		text := bytes.TrimSpace(d.scan.Bytes())
		if len(text) == 0 {
			continue
		}
		e, err := feed.ParseLine(text)
		if err != nil {
			err = mistake{err}
		}
		return e, d.line, err
	}
	err := d.scan.Err()
	if errors.Is(err, bufio.ErrTooLong) {
		return feed.Entry{}, 0, fmt.Errorf("%w: line %d has more than %d bytes: write a shorter one", feed.ErrInput, d.line+1, MaxLineBytes)
	}
	if err == nil {
		err = io.EOF
	}
	return feed.Entry{}, 0, err
}
