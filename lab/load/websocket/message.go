package websocket

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// idPrefix begins every id; the text after it is drawn for each Group.
const idPrefix = "ls-"

// longestID is more than an id can have: the prefix, the run's text of 8
// letters, two numbers of up to 20 digits and the dashes.
const longestID = 64

// script is the message with its ids yet to come.
type script struct {
	parts  []string // around the places of the id
	prefix []byte   // of all ids of this run: ls-<run>-
}

// newScript reads a message. The ids are told from those of other runs by
// random text and not by the seed: a server may keep and repeat what a run with
// the same seed sent before.
func newScript(message string) (*script, error) {
	var run [4]byte
	if _, err := rand.Read(run[:]); err != nil {
		return nil, fmt.Errorf("draw the text of a run's ids: %w", err)
	}
	return &script{
		parts:  strings.Split(message, Placeholder),
		prefix: []byte(idPrefix + hex.EncodeToString(run[:]) + "-"),
	}, nil
}

// most is the length that no message exceeds, in bytes.
func (s *script) most() int {
	n := (len(s.parts) - 1) * longestID
	for _, part := range s.parts {
		n += len(part)
	}
	return n
}

// fill appends message number seq of a sender.
func (s *script) fill(dst []byte, sender int, seq uint64) []byte {
	dst = append(dst, s.parts[0]...)
	for _, part := range s.parts[1:] {
		dst = append(dst, s.prefix...)
		dst = strconv.AppendInt(dst, int64(sender), 10)
		dst = append(dst, '-')
		dst = strconv.AppendUint(dst, seq, 10)
		dst = append(dst, '-')
		dst = append(dst, part...)
	}
	return dst
}

// next finds the first whole id in text. rest is what follows it.
func (s *script) next(text []byte) (sender, seq uint64, rest []byte, found bool) {
	for {
		at := bytes.Index(text, s.prefix)
		if at < 0 {
			return 0, 0, nil, false
		}
		text = text[at+len(s.prefix):]
		sender, rest, ok := number(text)
		if !ok {
			continue
		}
		if seq, rest, ok = number(rest); ok {
			return sender, seq, rest, true
		}
	}
}

// number reads a decimal number with a dash behind it.
func number(text []byte) (n uint64, rest []byte, ok bool) {
	const mostDigits = 18 // all of which fit
	for i, c := range text {
		switch {
		case c == '-' && i > 0:
			return n, text[i+1:], true
		case c < '0' || c > '9' || i >= mostDigits:
			return 0, nil, false
		}
		n = n*10 + uint64(c-'0')
	}
	return 0, nil, false
}

// readMessage reads r to its end into buf, which grows as needed: up to
// MessageLimit, at which the connection itself ends the message.
func readMessage(r io.Reader, buf *[]byte) (int, error) {
	n := 0
	for {
		if n == len(*buf) {
			*buf = append(*buf, make([]byte, len(*buf))...)
		}
		got, err := r.Read((*buf)[n:])
		n += got
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}
