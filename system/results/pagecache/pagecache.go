// Package pagecache says how students' pages lie in the caches: the key, the form
// in Redis, which Redis, for how long. What fills Redis beforehand (Preload) agrees with
// the servers by using it.
//
// It is not the cache: block/cache is, and package serve puts it before a
// store. Redis holds access codes beside the pages: whoever reads it can open every
// page, so it must be as private as the database.
//
// # Which pages are served
//
// Every key names the data set that its page belongs to (results.Set), and every page the
// revision that the store was known to have when its reading began. The store is asked
// every second which data set it holds, at which revision, and who was corrected since
// when (results.State). A page is served if it belongs to that data set and its student was
// not corrected after its revision, whatever its age. So nobody has to be told of anything,
// there is nothing to clear when the data is replaced, and what nobody asks for expires.
//
// MaxAge is how long a page is kept, in all tiers.
package pagecache

import (
	"encoding/binary"
	"errors"
	"math"
	"strconv"
	"time"

	"loadstone/system/results"
)

// MaxAge is how long a page is kept after it was read from the database, unless
// configured otherwise: a day, longer than any outage that somebody is working on.
// Preload writes pages that live as long after the results are out.
const MaxAge = 24 * time.Hour

// Jitter is the share of their ages by which pages of one moment expire apart.
const Jitter = 0.1

// Prefix begins every page's key in Redis. The number is that of the form.
const Prefix = "results:2:"

// Key is a page's key in all tiers.
type Key struct {
	Set results.Set
	ID  int64
}

// base keeps the set short in keys: there are as many as students.
const base = 36

// Text is the key as it stands in Redis, behind Prefix.
func (k Key) Text() string {
	const longest = 13 + 1 + 18 // digits of both
	text := strconv.AppendUint(make([]byte, 0, longest), uint64(k.Set), base)
	return string(strconv.AppendInt(append(text, ':'), k.ID, 10))
}

// kept is a page as the caches keep it.
type kept struct {
	results.Page
	// revision is what the store was known to have when the reading of the page began.
	revision int64
}

// A page in Redis is
//
//	byte 0      version, 2
//	bytes 1-8   Tag, big endian
//	byte 9      length of the code
//	            the revision as a varint, the code, then the body
const (
	version = 2
	header  = 10
)

// Overhead is how many bytes a page that came from Redis takes in memory beside
// its body and code: this header and that of block/cache/rediscache.
const Overhead = header + binary.MaxVarintLen64 + 10

// encode appends the page to dst. A code has at most results.MaxCodeBytes.
func encode(dst []byte, p kept) []byte {
	dst = append(dst, version)
	dst = binary.BigEndian.AppendUint64(dst, p.Tag)
	dst = append(dst, byte(len(p.Code)))
	dst = binary.AppendUvarint(dst, uint64(p.revision))
	dst = append(dst, p.Code...)
	return append(dst, p.Body...)
}

var errUnreadable = errors.New("these bytes are no student's page")

// decode is the inverse of encode. The page lies in data. What is not whole, by
// the body's own hash, is an error: it came over the network, and somebody else
// may have written it.
func decode(data []byte) (kept, error) {
	if len(data) <= header || data[0] != version {
		return kept{}, errUnreadable
	}
	revision, n := binary.Uvarint(data[header:])
	code := header + n
	end := code + int(data[9])
	if n <= 0 || revision > math.MaxInt64 || data[9] > results.MaxCodeBytes || len(data) <= end {
		return kept{}, errUnreadable
	}
	p := results.Page{Code: data[code:end:end], Body: data[end:], Tag: binary.BigEndian.Uint64(data[1:9])}
	if results.Tag(p.Body) != p.Tag {
		return kept{}, errUnreadable
	}
	return kept{p, int64(revision)}, nil
}
