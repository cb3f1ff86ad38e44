package websocket

import (
	"bytes"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"loadstone/lab/load"
)

// recovery is what clients that come back say of what they have seen.
type recovery struct {
	names []string
	marks [][]mark // by name
}

// mark is where in a received message a value is.
type mark struct {
	before, after []byte
	next          bool // the value is one more than the whole number there
}

// mostRecovered bounds one value, in bytes: what is longer is none.
const mostRecovered = 256

// newRecovery returns nil if nobody says anything.
func newRecovery(from map[string][]string) *recovery {
	if len(from) == 0 {
		return nil
	}
	r := &recovery{names: slices.Sorted(maps.Keys(from))}
	for _, name := range r.names {
		var marks []mark
		for _, text := range from[name] {
			m := mark{}
			before, after, found := strings.Cut(text, load.RecoverValue)
			if !found {
				before, after, _ = strings.Cut(text, load.RecoverNext)
				m.next = true
			}
			m.before, m.after = []byte(before), []byte(after)
			marks = append(marks, m)
		}
		r.marks = append(r.marks, marks)
	}
	return r
}

// index is where the value of a name is, or less than 0.
func (r *recovery) index(name string) int {
	if r == nil {
		return -1
	}
	return slices.Index(r.names, name)
}

// see takes the values of a message into seen: of each name the last one.
func (r *recovery) see(seen [][]byte, message []byte) {
	for i, marks := range r.marks {
		last := -1
		for _, m := range marks {
			if at, value := m.last(message); at > last {
				last = at
				seen[i] = m.append(seen[i][:0], value)
			}
		}
	}
}

// last finds the value that is last in a text, and where it is; less than 0 if there is none.
func (m *mark) last(text []byte) (at int, value []byte) {
	at = -1
	for from := 0; ; {
		i := bytes.Index(text[from:], m.before)
		if i < 0 {
			return at, value
		}
		from += i + len(m.before)
		rest := text[from:min(len(text), from+mostRecovered+len(m.after))]
		if n := bytes.Index(rest, m.after); n >= 0 && m.takes(rest[:n]) {
			at, value = from, rest[:n]
		}
	}
}

// takes reports whether a value is what is looked for.
func (m *mark) takes(value []byte) bool {
	if !m.next {
		return true
	}
	n, err := strconv.ParseUint(string(value), 10, 64)
	return err == nil && n < math.MaxUint64
}

func (m *mark) append(dst, value []byte) []byte {
	if !m.next {
		return append(dst, value...)
	}
	n, _ := strconv.ParseUint(string(value), 10, 64) // takes has read it
	return strconv.AppendUint(dst, n+1, 10)
}
