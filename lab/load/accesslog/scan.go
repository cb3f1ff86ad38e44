package accesslog

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"
	"unicode"
)

// reason is why a line was skipped, in the form that is counted: an index.
type reason uint8

const (
	fine reason = iota
	notALine
	tooLong
	noRequest
	otherMethod
	otherForm
	upgrade
	outOfOrder
	reasons
)

// String is the reason as it is told.
func (r reason) String() string {
	return [reasons]string{
		"",
		"not a line of the common or the combined format",
		"a line longer than 64 KiB",
		"no request such as GET /path HTTP/1.1 in the line",
		"a method other than GET and HEAD, whose body the log does not have",
		"a target that does not begin with /",
		"an upgrade to another protocol",
		"a line more than ten seconds older than the newest before it",
	}[r]
}

// skips counts the lines that were skipped.
type skips [reasons]Skip

// Skip is how many lines were skipped for one reason.
type Skip struct {
	Reason string
	Count  uint64
	// Line and Example are the number of the first of them, from 1, and how it
	// begins, without what cannot be printed.
	Line    uint64
	Example string
}

// skip counts the line at hand.
func (l *Log) skip(why reason) {
	s := &l.skipped[why]
	s.Count++
	if s.Count == 1 {
		s.Reason, s.Line, s.Example = why.String(), l.number, printable(l.line.text)
	}
}

// printable is how a line begins, for a terminal.
func printable(line []byte) string {
	const most = 200
	cut := line[:min(len(line), most)]
	text := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, strings.TrimSpace(strings.ToValidUTF8(string(cut), "\uFFFD")))
	if len(line) > most {
		text += "…"
	}
	return text
}

// Summary is what a log has to repeat.
type Summary struct {
	// Entries can be repeated, and Skipped lines cannot, for the Reasons; those
	// that never applied are left out.
	Entries uint64
	Skipped uint64
	Reasons []Skip
	// Length is how long repeating them takes: from the beginning of the second
	// of the first to the end of that of the last, divided by the speed.
	Length time.Duration
}

// Scan reads a whole log and says what is in it. A log without any entry is no
// error here. A million lines take it about half a
// second.
func Scan(ctx context.Context, c Config) (Summary, error) {
	l, err := Open(c)
	if err != nil {
		return Summary{}, err
	}
	s, err := l.scan(ctx)
	return s, errors.Join(err, l.Close())
}

// scan reads l to its end.
func (l *Log) scan(ctx context.Context) (Summary, error) {
	var s Summary
	for {
		err := l.advance(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Summary{}, err
		}
		s.Entries += uint64(len(l.out.requests))
		if s.Length, err = l.at(l.out.second, 1); err != nil {
			return Summary{}, err
		}
	}
	for _, skip := range l.skipped {
		if skip.Count > 0 {
			s.Reasons = append(s.Reasons, skip)
			s.Skipped += skip.Count
		}
	}
	return s, nil
}
