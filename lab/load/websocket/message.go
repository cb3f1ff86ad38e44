package websocket

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"loadstone/lab/load"
)

// idPrefix begins every id; the text after it is drawn for each Group.
const idPrefix = "ls-"

// script is the message with its ids yet to come, and how the server's own messages are known.
type script struct {
	message template
	prefix  []byte // of all ids of this run: ls-<run>-

	joined, ack, refused []byte // empty for none
	skipped, afterCount  []byte // around the number; no skipped: none
}

// newScript reads what is said. The ids are told from those of other runs by
// random text and not by the seed: a server may keep and repeat what a run with
// the same seed sent before.
func (g *Group) newScript() (*script, error) {
	var run [4]byte
	if _, err := rand.Read(run[:]); err != nil {
		return nil, fmt.Errorf("draw the text of a run's ids: %w", err)
	}
	c := &g.config
	message, err := g.pieces(load.TextPieces(c.Message), strings.Trim(Placeholder, "{}"))
	if err != nil {
		return nil, err
	}
	s := &script{
		message: message, prefix: []byte(idPrefix + hex.EncodeToString(run[:]) + "-"),
		joined: []byte(c.Joined), ack: []byte(c.Ack), refused: []byte(c.Refused),
	}
	if before, after, found := strings.Cut(c.Skipped, count); found {
		s.skipped, s.afterCount = []byte(before), []byte(after)
	}
	return s, nil
}

// count is where the number is in a notice of what was skipped.
const count = "{count}"

// fill appends message number seq of a sender.
func (s *script) fill(dst []byte, v *values, sender int, seq uint64) []byte {
	for i := range s.message {
		p := &s.message[i]
		dst = append(dst, p.literal...)
		if p.then != theID {
			dst = v.append(dst, p)
			continue
		}
		dst = append(dst, s.prefix...)
		dst = strconv.AppendInt(dst, int64(sender), 10)
		dst = append(dst, '-')
		dst = strconv.AppendUint(dst, seq, 10)
		dst = append(dst, '-')
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

// announced is how many messages a text says were left out, 0 if it says none.
func (s *script) announced(text []byte) uint64 {
	const most = 1 << 40 // a server that says more says nothing
	if len(s.skipped) == 0 {
		return 0
	}
	at := bytes.Index(text, s.skipped)
	if at < 0 {
		return 0
	}
	text = text[at+len(s.skipped):]
	n, digits := uint64(0), 0
	for digits < len(text) && text[digits] >= '0' && text[digits] <= '9' && n < most {
		n = n*10 + uint64(text[digits]-'0')
		digits++
	}
	if digits == 0 || !bytes.HasPrefix(text[digits:], s.afterCount) {
		return 0
	}
	return n
}

// accepts reports whether an id is acknowledged in a text that has acks and refusals. leads says
// that these stand before their ids: then the last one before it counts, else the first after it.
func (s *script) accepts(before, after []byte, leads bool) bool {
	if leads {
		return bytes.LastIndex(before, s.ack) > bytes.LastIndex(before, s.refused)
	}
	ack, refusal := bytes.Index(after, s.ack), bytes.Index(after, s.refused)
	return ack >= 0 && (refusal < 0 || ack < refusal)
}

// has reports whether a text has what is looked for; nothing is in no text.
func has(text, what []byte) bool { return len(what) > 0 && bytes.Contains(text, what) }
