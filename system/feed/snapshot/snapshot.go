// Package snapshot publishes pages of bytes as a whole, through an object store: who reads gets all pages of one
// version, each byte checked, and never an older version than before. It does not know what pages hold.
//
// # What is stored
//
//	objects/17/SHA-256   a page, an index or a delta; never changed. 17 is the version that first needed it
//	manifest.json        which version is current, small, and replaced only if it is as its writer read it
//
// The manifest names the index, which names the pages; their names hold their hashes, and the manifest holds
// its own, so a reader who checks them has what was published or an error. A version's bytes as one text, Whole, are the
// index, a line of JSON, and the pages behind it. A delta is that text compressed with an earlier one as the dictionary, as
// RFC 9842 has it: a client that has the earlier text gets along with it.
//
// # Why two publishers never go back
//
// A publisher reads the manifest first, then what there is to publish, writes objects, and replaces the
// manifest if nobody else has (ErrSuperseded). So what version 18 shows was read after 17 was published; a publisher
// that was asleep meanwhile changes nothing.
//
// # Why nothing is deleted that somebody needs
//
// A manifest refers to objects of the one that it replaces, and to new ones, under its own version. So an object under
// version 17 that the manifest of 17 or later does not refer to is never referred to again, and may be deleted by anybody
// at any time, however late: that is all that Collect does, and no clock decides it. Earlier versions stay in the manifest
// for Config.Keep, so who has read an old manifest finds its objects that long. What a killed
// publisher leaves is collected with the rest.
package snapshot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"loadstone/block/objects"
)

const (
	manifestName = "manifest.json"
	objectsBelow = "objects/"
	wholeBelow   = "whole/" // where Whole is served
	// maxWhole bounds a version, in bytes: readers have two of them in memory.
	maxWhole = 256 << 20
	// parallel is how many objects are read or written at once.
	parallel = 8
)

var (
	// ErrNone says that nothing was published yet.
	ErrNone = errors.New("no snapshot was published yet")
	// ErrBroken says that what is stored is not what was published.
	ErrBroken = errors.New("the snapshot is broken")
	// ErrOlder says that the manifest is of an older version than before.
	ErrOlder = errors.New("the snapshot is older than the one before")
	// ErrSuperseded says that another publisher was faster; nothing was changed.
	ErrSuperseded = errors.New("another snapshot was published meanwhile")
	// ErrShrank says that a snapshot has at most half the bytes of the one before; nothing was changed.
	ErrShrank = errors.New("the snapshot shrank by half")
)

// Page is a text with a name, which looks like pages/1.json.
type Page struct {
	Name string
	Body []byte
}

// Object is one in the store. The last word of its name is its SHA-256 in hexadecimal digits.
type Object struct {
	Name string `json:"name"`
	Size int    `json:"size"`
}

// Edition is one version.
type Edition struct {
	Version    uint64    `json:"version"`
	Published  time.Time `json:"published"`
	Superseded time.Time `json:"superseded,omitzero"` // when the next one came
	Index      Object    `json:"index"`
	Whole      Text      `json:"whole"`
}

// Text says which bytes something has.
type Text struct {
	SHA256 string `json:"sha256"`
	Size   int    `json:"size"`
}

// Delta makes the current version of an earlier one.
type Delta struct {
	From string `json:"from"` // the SHA-256 of the earlier one's Whole
	Object
}

// Manifest is the current version, and what may be needed beside it.
type Manifest struct {
	Edition
	Deltas  []Delta   `json:"deltas,omitempty"`
	Earlier []Edition `json:"earlier,omitempty"` // the latest first
}

// Part is a page in an index.
type Part struct {
	Page string `json:"page"`
	Object
}

type index struct {
	Version uint64 `json:"version"`
	Pages   []Part `json:"pages"`
}

func (x index) line() ([]byte, error) { return json.Marshal(x) }

// Snapshot is a version in memory. It is not modified.
type Snapshot struct {
	Manifest Manifest
	raw      []byte
	whole    []byte
	parts    []Part
	bodies   map[string][]byte // of pages by their names; they lie in whole
	sums     map[string]Part   // by their SHA-256
}

// Raw is the manifest as it is stored.
func (s *Snapshot) Raw() []byte { return s.raw }

// Whole is all pages as one text, see the package.
func (s *Snapshot) Whole() []byte { return s.whole }

// Index is the first line of Whole.
func (s *Snapshot) Index() []byte { return s.whole[:s.Manifest.Index.Size] }

// Page returns a page by its name.
func (s *Snapshot) Page(name string) (body []byte, found bool) {
	body, found = s.bodies[name]
	return body, found
}

// Parts are the pages in their order, with their texts.
func (s *Snapshot) Parts() iter.Seq2[Part, []byte] {
	return func(yield func(Part, []byte) bool) {
		for _, p := range s.parts {
			if !yield(p, s.bodies[p.Page]) {
				return
			}
		}
	}
}

// Pages are the pages in their order.
func (s *Snapshot) Pages() []Page {
	var pages []Page
	for part, body := range s.Parts() {
		pages = append(pages, Page{part.Page, body})
	}
	return pages
}

// find returns the object with a hash, and its text, which is nil if there is none.
func (s *Snapshot) find(hash string) (Object, []byte) {
	if s == nil {
		return Object{}, nil
	}
	p, ok := s.sums[hash]
	if !ok {
		return Object{}, nil
	}
	return p.Object, s.bodies[p.Page]
}

func sum(text []byte) string {
	h := sha256.Sum256(text)
	return hex.EncodeToString(h[:])
}

// Sum is the object's SHA-256.
func (o Object) Sum() string { return path.Base(o.Name) }

var (
	objectNames = regexp.MustCompile(`^objects/([1-9][0-9]{0,18})/[0-9a-f]{64}$`)
	pageNames   = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]*(/[a-z0-9][a-z0-9._-]*)*$`)
	sums        = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// versionOf is the one under which an object is; false for what is none of ours.
func versionOf(name string) (uint64, bool) {
	m := objectNames.FindStringSubmatch(name)
	if m == nil {
		return 0, false
	}
	v, err := strconv.ParseUint(m[1], 10, 64)
	return v, err == nil
}

func objectOf(version uint64, body []byte) Object {
	return Object{fmt.Sprintf("%s%d/%s", objectsBelow, version, sum(body)), len(body)}
}

// encode writes a manifest with its hash.
func (m Manifest) encode() ([]byte, error) {
	text, err := json.Marshal(m)
	return fmt.Appendf(nil, `{"sha256":"%s","manifest":%s}`, sum(text), text), err
}

// decode reads what encode wrote; errors wrap ErrBroken.
func decode(raw []byte) (m Manifest, err error) {
	var outer struct {
		SHA256   string          `json:"sha256"`
		Manifest json.RawMessage `json:"manifest"`
	}
	if err = json.Unmarshal(raw, &outer); err == nil && sum(outer.Manifest) != outer.SHA256 {
		err = errors.New("its hash is another")
	}
	if err == nil {
		err = json.Unmarshal(outer.Manifest, &m)
	}
	if err == nil {
		err = m.check()
	}
	if err != nil {
		return Manifest{}, fmt.Errorf("%w: the manifest: %w", ErrBroken, err)
	}
	return m, nil
}

func (m Manifest) check() error {
	for i, e := range append([]Edition{m.Edition}, m.Earlier...) {
		if v, ok := versionOf(e.Index.Name); !ok || v != e.Version || e.Index.Size <= 0 ||
			e.Whole.Size <= e.Index.Size || e.Whole.Size > maxWhole || !sums.MatchString(e.Whole.SHA256) || i > 0 && e.Version >= m.Version {
			return fmt.Errorf("version %d cannot be", e.Version)
		}
	}
	for _, d := range m.Deltas {
		if _, ok := versionOf(d.Name); !ok || !sums.MatchString(d.From) {
			return fmt.Errorf("the delta %.80q cannot be", d.Name)
		}
	}
	return nil
}

// Fetch reads an object and checks its hash.
func Fetch(ctx context.Context, store objects.Store, o Object) ([]byte, error) {
	body, _, err := store.Get(ctx, o.Name)
	if err == nil && (len(body) != o.Size || sum(body) != o.Sum()) {
		err = fmt.Errorf("%w: %s has other bytes", ErrBroken, o.Name)
	}
	return body, err
}

// load reads a version, without the pages that known has. No byte of the result is unchecked.
func load(ctx context.Context, store objects.Store, e Edition, known *Snapshot) (*Snapshot, error) {
	line, err := Fetch(ctx, store, e.Index)
	if err != nil {
		return nil, err
	}
	parts, err := readIndex(line, e)
	if err != nil {
		return nil, err
	}
	whole := append(make([]byte, 0, e.Whole.Size), line...)
	whole = append(whole, '\n')[:e.Whole.Size]
	at := len(line) + 1
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, part := range parts {
		to := whole[at : at+part.Size]
		at += part.Size
		if _, body := known.find(part.Sum()); body != nil && copy(to, body) == part.Size {
			continue
		}
		group.Go(func() error {
			body, err := Fetch(ctx, store, part.Object)
			copy(to, body)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if sum(whole) != e.Whole.SHA256 {
		return nil, fmt.Errorf("%w: version %d is put together of others", ErrBroken, e.Version)
	}
	return open(Manifest{Edition: e}, whole, parts), nil
}

// readIndex reads a version's index, and checks that the pages have the size they should have.
func readIndex(line []byte, e Edition) ([]Part, error) {
	var x index
	err := json.Unmarshal(line, &x)
	size, seen := len(line)+1, make(map[string]bool, len(x.Pages))
	for _, p := range x.Pages {
		_, ok := versionOf(p.Name)
		if err == nil && (!ok || !pageNames.MatchString(p.Page) || seen[p.Page] || p.Size < 0 || p.Size > maxWhole) {
			err = fmt.Errorf("the page %.80q cannot be", p.Page)
		}
		size, seen[p.Page] = size+p.Size, true
	}
	if err == nil && (x.Version == 0 || x.Version != e.Version || size != e.Whole.Size) {
		err = fmt.Errorf("it is of version %d, with %d bytes", x.Version, size)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: the index of version %d: %w", ErrBroken, e.Version, err)
	}
	return x.Pages, nil
}

// open returns a version whose text is known to be right.
func open(m Manifest, whole []byte, parts []Part) *Snapshot {
	s := &Snapshot{Manifest: m, whole: whole, parts: parts, bodies: make(map[string][]byte, len(parts)), sums: make(map[string]Part, len(parts))}
	at := m.Index.Size + 1
	for _, p := range parts {
		s.bodies[p.Page] = whole[at : at+p.Size : at+p.Size]
		s.sums[p.Sum()] = p
		at += p.Size
	}
	return s
}

// Parse takes apart a text that Whole returned somewhere, with the given hash; errors wrap ErrBroken.
func Parse(whole []byte, hash string) (*Snapshot, error) {
	line, _, found := bytes.Cut(whole, []byte{'\n'})
	if !found || sum(whole) != strings.ToLower(hash) {
		return nil, fmt.Errorf("%w: the text has another hash", ErrBroken)
	}
	var x index
	if err := json.Unmarshal(line, &x); err != nil {
		return nil, fmt.Errorf("%w: the index: %w", ErrBroken, err)
	}
	e := Edition{Version: x.Version, Index: objectOf(x.Version, line), Whole: Text{sum(whole), len(whole)}}
	parts, err := readIndex(line, e)
	if err != nil {
		return nil, err
	}
	return open(Manifest{Edition: e}, whole, parts), nil
}
