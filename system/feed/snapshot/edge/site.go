package edge

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"loadstone/block/compress"
	"loadstone/block/dictionary"
	"loadstone/block/objects"
	"loadstone/system/feed/snapshot"
)

// site is what is served while one manifest is current. It is not modified.
type site struct {
	snapshot  *snapshot.Snapshot
	resources map[string]resource
	pages     int
}

// resource is a text at an address.
type resource struct {
	*text
	kind    string
	caching string
	version string            // of the snapshot; empty if the address says it
	matches string            // the addresses for which the text is a dictionary; empty if it is none
	deltas  map[string][]byte // the text in dcz, by Available-Dictionary
}

// text is bytes in all their forms. Versions that have it share the forms, but not the bytes: they lie in all that
// a version is, and would keep it in memory.
type text struct {
	tag   string // without quotes
	body  []byte
	forms map[string]*form // by content coding
}

type form struct {
	compress.Coding

	once sync.Once
	body []byte
}

// codings are those that texts have, the preferred first; levels make them in about the time that gzip takes.
var codings = compress.Codings{{Name: "br", Level: 5}, {Name: "zstd", Level: 2}, {Name: "gzip", Level: 6}}

var names = codings.Names()

// compressing bounds how many texts are compressed at once, and with them the memory that it takes; others wait.
var compressing = make(chan struct{}, runtime.GOMAXPROCS(0))

func newText(hash string, body []byte) *text {
	t := &text{tag: hash[:32], body: body, forms: make(map[string]*form, len(codings))}
	for _, c := range codings {
		t.forms[c.Name] = &form{Coding: c}
	}
	return t
}

// in returns the text in a coding. Who asks first makes it, and whoever asks meanwhile waits.
func (t *text) in(coding string) []byte {
	if coding == identity {
		return t.body
	}
	f := t.forms[coding]
	f.once.Do(func() {
		compressing <- struct{}{}
		defer func() { <-compressing }()
		f.body = bytes.Clone(f.Encoder(compress.MaxWindow)(nil, t.body)) // without room that is left over
	})
	return f.body
}

// build makes what is to be served of a version.
func (e *Edge) build(ctx context.Context, s *snapshot.Snapshot, old *site) (*site, error) {
	deltas, err := e.deltas(ctx, s)
	if err != nil {
		return nil, err
	}
	b := &site{snapshot: s, resources: make(map[string]resource)}
	texts := make(map[string]*text) // of the last site, by tag, for the forms that they have already
	if old != nil {
		for _, r := range old.resources {
			texts[r.tag] = r.text
		}
		for _, kept := range s.Manifest.Earlier {
			if kept.Index == old.snapshot.Manifest.Index {
				e.add(b, old.snapshot, texts, nil)
			}
		}
	}
	e.add(b, s, texts, deltas)

	brief := fmt.Sprintf("public, max-age=%d, stale-while-revalidate=%[1]d, stale-if-error=%d", seconds(e.cfg.Interval), seconds(e.cfg.StaleIfError))
	version := strconv.FormatUint(s.Manifest.Version, 10)
	for part := range s.Parts() {
		if at := e.cfg.Path + "/" + part.Page; b.resources[at].text == nil { // none of the snapshot's own
			b.resources[at] = resource{text: b.resources[e.cfg.Path+"/"+part.Name].text, kind: kindOf(part.Page), caching: brief, version: version}
			b.pages++
		}
	}
	hash := sha256.Sum256(s.Raw())
	b.resources[e.cfg.Path+"/manifest.json"] = resource{text: newText(hex.EncodeToString(hash[:]), s.Raw()), kind: kindOf(".json"), caching: brief, version: version}
	return b, nil
}

// add adds what never changes of a version.
func (e *Edge) add(b *site, s *snapshot.Snapshot, texts map[string]*text, deltas map[string][]byte) {
	immutable := fmt.Sprintf("public, max-age=31536000, s-maxage=%d, immutable", seconds(e.cfg.Shared))
	put := func(at, hash, kind string, body []byte) string {
		at = e.cfg.Path + "/" + at
		t := newText(hash, body)
		if was := texts[t.tag]; was != nil {
			t.forms = was.forms
		}
		b.resources[at] = resource{text: t, kind: kind, caching: immutable}
		return at
	}
	m := s.Manifest
	// The dictionary for the next version is good for as long as its answer is fresh: one at an address that does
	// not change would be of no use when the next version comes.
	whole := put("whole/"+m.Whole.SHA256, m.Whole.SHA256, kindOf(""), s.Whole())
	r := b.resources[whole]
	if r.deltas = deltas; m.Whole.Size <= dictionary.MaxSize {
		r.matches = `match="` + e.cfg.Path + `/whole/*"`
	}
	b.resources[whole] = r
	put(m.Index.Name, m.Index.Sum(), kindOf(".json"), s.Index())
	for part, body := range s.Parts() {
		put(part.Name, part.Sum(), kindOf(part.Page), body)
	}
}

// seconds is a duration as Cache-Control has it.
func seconds(d time.Duration) int { return int(math.Ceil(d.Seconds())) }

// deltas reads those of a version. One that is gone or broken is done without.
func (e *Edge) deltas(ctx context.Context, s *snapshot.Snapshot) (map[string][]byte, error) {
	all := make(map[string][]byte)
	for _, d := range s.Manifest.Deltas {
		body, err := snapshot.Fetch(ctx, e.cfg.Store, d.Object)
		switch {
		case errors.Is(err, snapshot.ErrBroken), errors.Is(err, objects.ErrNotFound):
			continue
		case err != nil:
			return nil, fmt.Errorf("read a delta: %w", err)
		}
		hash, err := hex.DecodeString(d.From)
		if err != nil {
			return nil, err // the manifest was checked
		}
		all[":"+base64.StdEncoding.EncodeToString(hash)+":"] = body
	}
	return all, nil
}

func kindOf(page string) string {
	switch {
	case strings.HasSuffix(page, ".json"):
		return "application/json"
	case strings.HasSuffix(page, ".html"):
		return "text/html; charset=utf-8"
	}
	return "application/octet-stream"
}
