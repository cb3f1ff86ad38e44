package lookaside

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/redis/rueidis"

	"loadstone/block/cache"
)

// kind is what Redis has under a key. Those from kindValue on are stored, as letters.
type kind int

const (
	kindNone kind = iota
	kindForeign
	kindValue
	kindAbsent
	kindLease
	kindMarker
)

// What is stored begins with the version of the format and the letter of its kind:
//
//	entry    v a   2 soft deadline, milliseconds since 1970, moved by who refreshes
//	              10 XXH64 of all that follows, and the kind
//	              18 version
//	              26 tag
//	              34 the value
//	lease    l     2 a token that only its holder knows
//	marker   m     2 the highest version known
//	              10 the id of the process of each writer under way, idBytes each
//
// Numbers are big endian, as Redis's scripts read them. A lease or marker has no checksum:
// nothing of it is ever served.
const (
	formatVersion = 1
	sumAt         = 10
	versionAt     = 18
	header        = 34
	idBytes       = 16
	markerHeader  = 10
)

// state is what was found under a key.
type state struct {
	kind  kind
	value Value
	soft  int64
	raw   []byte
	head  string // of what is foreign, its first bytes, by which the script knows it again; of a lease, all
}

// entry reports whether it is one.
func (s state) entry() bool { return s.kind == kindValue || s.kind == kindAbsent }

// stateOf reads what Redis answered. The error is Redis's, and nil if it did answer.
func stateOf(data []byte, err error) (state, error) {
	if rueidis.IsRedisNil(err) {
		return state{}, nil
	}
	if answer, ok := errors.AsType[*rueidis.RedisError](err); ok && strings.HasPrefix(answer.Error(), "WRONGTYPE") {
		return state{kind: kindForeign}, nil // not even a string
	}
	if err != nil {
		return state{}, err
	}
	return parse(data), nil
}

// stateOf is stateOf, for this process.
func (c *Cache) stateOf(data []byte, err error) (state, error) {
	s, err := stateOf(data, err)
	if s.kind == kindValue && c.cfg.Usable != nil && !c.cfg.Usable(s.value) {
		return foreign(data), nil
	}
	return s, err
}

func foreign(data []byte) state {
	return state{kind: kindForeign, head: string(data[:min(len(data), header)])}
}

// parse reads a stored string; the value lies in data.
func parse(data []byte) state {
	if len(data) < 2 || data[0] != formatVersion {
		return foreign(data)
	}
	s := state{raw: data}
	switch data[1] {
	case 'v':
		s.kind = kindValue
	case 'a':
		s.kind, s.value.Absent = kindAbsent, true
	case 'l':
		return state{kind: kindLease, head: string(data)}
	case 'm':
		if n := len(data) - markerHeader; n >= idBytes && n%idBytes == 0 {
			return state{kind: kindMarker}
		}
		return foreign(data)
	default:
		return foreign(data)
	}
	if len(data) < header || s.value.Absent && len(data) > header || sum(data) != binary.BigEndian.Uint64(data[sumAt:]) {
		return foreign(data)
	}
	s.soft = int64(binary.BigEndian.Uint64(data[2:]))
	s.value.Version = int64(binary.BigEndian.Uint64(data[versionAt:]))
	s.value.Tag = binary.BigEndian.Uint64(data[versionAt+8:])
	if !s.value.Absent {
		s.value.Bytes = data[header:]
	}
	return s
}

// sum is the checksum of an entry. The soft deadline is not part of it: it is moved by a
// script, and a wrong one costs a refresh.
func sum(data []byte) uint64 { return xxhash.Sum64(data[versionAt:]) ^ uint64(data[1]) }

// encode appends an entry whose freshness begins now.
func (c *Cache) encode(dst []byte, v Value) []byte {
	start, letter := len(dst), byte('v')
	if v.Absent {
		letter = 'a'
	}
	dst = append(dst, formatVersion, letter)
	dst = binary.BigEndian.AppendUint64(dst, uint64(time.Now().Add(c.drawn(c.cfg.Fresh)).UnixMilli()))
	dst = append(dst, make([]byte, 8)...)
	dst = binary.BigEndian.AppendUint64(dst, uint64(v.Version))
	dst = binary.BigEndian.AppendUint64(dst, v.Tag)
	dst = append(dst, v.Bytes...)
	binary.BigEndian.PutUint64(dst[start+sumAt:], sum(dst[start:]))
	return dst
}

// decode is the inverse of encode, for flights.
func decode(data []byte) (Value, error) {
	s := parse(data)
	if s.kind != kindValue && s.kind != kindAbsent {
		return Value{}, fmt.Errorf("%w: %d bytes", cache.ErrGarbage, len(data))
	}
	return s.value, nil
}

// lifeOf is how long an entry lives.
func (c *Cache) lifeOf(absent bool) time.Duration {
	if absent {
		return c.drawn(c.cfg.AbsentLife)
	}
	return c.drawn(c.cfg.Life)
}

// ms is a duration in milliseconds, as scripts get it.
func ms(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// drawn is a duration that is longer or shorter by up to Jitter.
func (c *Cache) drawn(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (1 + c.cfg.Jitter*(2*rand.Float64()-1)))
}
