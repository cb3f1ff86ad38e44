// Package pagecache says how students' pages lie in the caches: the key, the form
// in Redis, which Redis, for how long. What fills Redis beforehand (Preload) and what
// corrects it (Corrector) agree with the servers by using it.
//
// It is not the cache: block/cache is, and package serve puts it before a
// store. Redis holds access codes beside the pages: whoever reads it can open every
// page, so it must be as private as the database.
//
// # Data sets
//
// Every key names the data set that its page belongs to, see SetOf and
// SnapshotSetOf. So another
// data set's pages are never served, however many servers share a Redis, and there is
// nothing to clear when the data is replaced: what nobody asks for expires.
//
// # How old a page may be
//
// MaxAge is the bound for all tiers. A correction does not wait for it: see
// Corrector.
package pagecache

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"loadstone/block/dataset"
	"loadstone/system/results"
)

// MaxAge is how long a page may be served after it was read from the database,
// unless configured otherwise: a day, longer than any outage that somebody is
// working on. Preload writes pages that live as long.
const MaxAge = 24 * time.Hour

// Jitter is the share of their ages by which pages of one moment expire apart.
const Jitter = 0.1

// Prefix begins every page's key in Redis. The number is that of the form.
const Prefix = "results:1:"

// Set identifies a data set.
type Set uint64

// SetOf returns the identity of the data set in a database: its origin and count. A
// correction in place does not change it, for servers that opened the database
// before and after must share their pages; what it adds to the origin (see
// dataset.Meta.Revised) does not count.
func SetOf(meta dataset.Meta) Set {
	return setOf("database", meta.Count, revision.ReplaceAllString(meta.Origin, ""))
}

// SnapshotSetOf returns the identity of the data set in a snapshot. Snapshots are
// replaced whole, so one with corrections is another: equal fingerprints and
// counts are the same (dataset.Meta.Same).
func SnapshotSetOf(meta dataset.Meta) Set { return setOf("snapshot", meta.Count, meta.Fingerprint) }

// revision is what dataset.Meta.Revised puts behind an origin.
var revision = regexp.MustCompile(`, revision [0-9]+$`)

func setOf(kind string, count int64, text string) Set {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %s", kind, count, text))
	return Set(binary.BigEndian.Uint64(sum[:8]))
}

// Key is a page's key in all tiers.
type Key struct {
	Set Set
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

// ParseKey is the inverse of Text.
func ParseKey(text string) (Key, error) {
	set, id, _ := strings.Cut(text, ":")
	s, err := strconv.ParseUint(set, base, 64)
	if err != nil {
		return Key{}, fmt.Errorf("key %.40q: its data set is no number", text)
	}
	n, err := results.ParseID(id)
	if err != nil {
		return Key{}, fmt.Errorf("key %.40q: %w", text, err)
	}
	k := Key{Set(s), n}
	if k.Text() != text {
		return Key{}, fmt.Errorf("key %.40q: it is written in another way", text)
	}
	return k, nil
}

// A page in Redis is
//
//	byte 0      version, 1
//	bytes 1-8   Tag, big endian
//	byte 9      length of the code
//	            the code, then the body
const (
	version = 1
	header  = 10
)

// Overhead is how many bytes a page that came from Redis takes in memory beside
// its body and code: this header and that of block/cache/rediscache.
const Overhead = header + 10

// Encode appends the page to dst. A code has at most results.MaxCodeBytes.
func Encode(dst []byte, p results.Page) []byte {
	dst = append(dst, version)
	dst = binary.BigEndian.AppendUint64(dst, p.Tag)
	dst = append(dst, byte(len(p.Code)))
	dst = append(dst, p.Code...)
	return append(dst, p.Body...)
}

var errUnreadable = errors.New("these bytes are no student's page")

// Decode is the inverse of Encode. The page lies in data. What is not whole, by
// the body's own hash, is an error: it came over the network, and somebody else
// may have written it.
func Decode(data []byte) (results.Page, error) {
	if len(data) <= header || data[0] != version {
		return results.Page{}, errUnreadable
	}
	end := header + int(data[9])
	if data[9] > results.MaxCodeBytes || len(data) <= end {
		return results.Page{}, errUnreadable
	}
	p := results.Page{Code: data[header:end:end], Body: data[end:], Tag: binary.BigEndian.Uint64(data[1:9])}
	if results.Tag(p.Body) != p.Tag {
		return results.Page{}, errUnreadable
	}
	return p, nil
}
