package pebblestore

import (
	"encoding/binary"
	"encoding/json"
	"fmt"

	"loadstone/block/dataset"
	"loadstone/system/menu"
)

// The first byte of a key says what it is the key of.
const (
	stateKind    = 0 // alone: the state
	markKind     = 1 // and a chunk's number: its mark, while the store is being filled
	menuKind     = 2 // and a menu's id
	revisionKind = 3 // and a menu's id and a version: what it was before the one it is
	changeKind   = 4 // and a number: an entry of the log
	documentKind = 5 // and a document's kind, a zero, and its id
)

// stateKey is that of the state.
var stateKey = []byte{stateKind}

const keyBytes = 1 + 8

// appendKey appends the key of a menu or a mark: big-endian, so that keys are in the order
// of the numbers.
func appendKey(dst []byte, kind byte, n int64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, kind), uint64(n))
}

// numberBytes are those of a number in a key.
const numberBytes = 8

// keyNumber is the number that a key ends with.
func keyNumber(key []byte) (int64, error) {
	if len(key) < keyBytes {
		return 0, fmt.Errorf("key %x: %w", key, menu.ErrCorrupt)
	}
	return int64(binary.BigEndian.Uint64(key[len(key)-numberBytes:])), nil
}

// revisionKey is that of what a menu was.
func revisionKey(id, version int64) []byte {
	return binary.BigEndian.AppendUint64(appendKey(nil, revisionKind, id), uint64(version))
}

// documentKey is that of a document. A kind is letters.
func documentKey(kind menu.Kind, id int64) []byte {
	key := append(append([]byte{documentKind}, kind...), 0)
	return binary.BigEndian.AppendUint64(key, uint64(id))
}

// The value of a menu, a revision or a document is
//
//	1 byte   flags
//	uvarint  version
//	uvarint  milliseconds since 1970, and
//	uvarint  the length of the editor's name, and the name, if it has an editor
//	8 bytes  tag, and then the body, if it is there
const (
	there     = 1
	deleted   = 2
	hasEditor = 4 // not in format 1, nor of what a filling brings
	overlay   = 8 // in the log: it is the availability of the menu that changed
)

// entry is a menu as it is stored; the zero entry is one that there never was.
type entry struct {
	version int64
	at      int64 // milliseconds
	editor  []byte
	exists  bool
	overlay bool
	tag     uint64
	body    []byte
}

func (e *entry) append(dst []byte) []byte {
	dst = e.appendHead(dst)
	if !e.exists {
		return dst
	}
	return append(binary.LittleEndian.AppendUint64(dst, e.tag), e.body...)
}

// appendHead appends what comes before the tag.
func (e *entry) appendHead(dst []byte) []byte {
	flags := byte(deleted)
	if e.exists {
		flags = there
	}
	if e.overlay {
		flags |= overlay
	}
	if len(e.editor) == 0 {
		return binary.AppendUvarint(append(dst, flags), uint64(e.version))
	}
	dst = binary.AppendUvarint(append(dst, flags|hasEditor), uint64(e.version))
	dst = binary.AppendUvarint(binary.AppendUvarint(dst, uint64(e.at)), uint64(len(e.editor)))
	return append(dst, e.editor...)
}

// decode is the inverse. What it returns lies in the value.
func decode(value []byte) (entry, error) {
	const tagBytes = 8
	r := reader{rest: value}
	e := r.head()
	if r.damaged || e.overlay || (!e.exists && len(r.rest) > 0) || (e.exists && len(r.rest) <= tagBytes) {
		return entry{}, menu.ErrCorrupt
	}
	if e.exists {
		e.tag, e.body = binary.LittleEndian.Uint64(r.rest), r.rest[tagBytes:]
	}
	return e, nil
}

// reader takes a value apart.
type reader struct {
	rest    []byte
	damaged bool // it was too short
}

// head is the inverse of appendHead.
func (r *reader) head() entry {
	var flags byte
	if first := r.bytes(1); !r.damaged {
		flags = first[0]
	}
	e := entry{version: r.number(), exists: flags&there != 0, overlay: flags&overlay != 0}
	if flags&hasEditor != 0 {
		e.at = r.number()
		e.editor = r.bytes(r.number())
		r.damaged = r.damaged || len(e.editor) == 0
	}
	state := flags &^ (hasEditor | overlay)
	r.damaged = r.damaged || e.version < 1 || (state != there && state != deleted)
	return e
}

func (r *reader) bytes(n int64) []byte {
	if n < 0 || n > int64(len(r.rest)) {
		r.damaged, r.rest = true, nil
		return nil
	}
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

func (r *reader) number() int64 {
	n, size := binary.Uvarint(r.rest)
	r.bytes(int64(max(size, 0)))
	r.damaged = r.damaged || size <= 0 || int64(n) < 0
	return int64(n)
}

// appendChange appends the value of an entry of the log, the menu's id as a uvarint and what
// a value has before the tag. Its key has its number.
func appendChange(dst []byte, id int64, e *entry) []byte {
	return e.appendHead(binary.AppendUvarint(dst, uint64(id)))
}

func decodeChange(value []byte) (id int64, e entry, err error) {
	r := reader{rest: value}
	if id, e = r.number(), r.head(); r.damaged || len(r.rest) > 0 {
		return 0, entry{}, menu.ErrCorrupt
	}
	return id, e, nil
}

// format is the version of all of this. Format 1 had no editors, revisions, log and
// documents, and format 2 no availability in the log; what else they had is the same, so that
// their values need not be written again. The first write makes it this one.
const format = 3

// phase is how far the store is.
type phase string

const (
	unfilled phase = ""        // it has what was written, if anything
	filling  phase = "filling" // or the filling was interrupted
	filled   phase = "filled"
)

// state is what the store says of itself. It changes with every write, in the same batch.
type state struct {
	Format int   `json:"format"`
	Phase  phase `json:"phase"`
	// Meta is what it was filled with, or is being filled with.
	Meta dataset.Meta `json:"meta"`
	// Count is how many menus there are, and Writes how often they were changed since the
	// filling.
	Count  int64 `json:"count"`
	Writes int64 `json:"writes"`
	// Oldest and Newest are the numbers of the first entry in the log and the last; if Oldest is
	// above Newest there is none.
	Oldest int64 `json:"oldest"`
	Newest int64 `json:"newest"`
	// Next is where the search for a free id begins.
	Next int64 `json:"next"`
	// Store is drawn when the store is made: two stores with equally many writes are
	// not the same data set.
	Store string `json:"store"`
}

// now describes the menus as they are.
func (s *state) now() dataset.Meta {
	meta := s.Meta
	if s.Phase == unfilled {
		meta.Origin, meta.Fingerprint = "written one by one", "menu store "+s.Store
	}
	meta = meta.Revised(s.Writes, fmt.Sprintf("menu store %s, write %d", s.Store, s.Writes))
	meta.Count = s.Count
	return meta
}

func (s *state) encode() ([]byte, error) { return json.Marshal(s) }

func decodeState(value []byte) (state, error) {
	var s state
	if err := json.Unmarshal(value, &s); err != nil {
		return state{}, fmt.Errorf("state: %w: %w", menu.ErrCorrupt, err)
	}
	if s.Format == 1 {
		s.Format, s.Oldest = 2, s.Writes+1
	}
	if s.Format == 2 {
		s.Format, s.Newest = format, s.Writes
	}
	if s.Format != format {
		return state{}, fmt.Errorf("format %d, and this program reads %d: %w", s.Format, format, menu.ErrVersion)
	}
	return s, nil
}
