package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"loadstone/block/dictionary"
	"loadstone/block/objects"
)

// Config says how a Publisher publishes.
type Config struct {
	Store objects.Store
	// Keep is how long an earlier version can be read, and rolled back to. It is longer than anybody holds on to a
	// manifest: caches on the way included.
	Keep time.Duration
	// Deltas is from how many of the last versions there is a delta. So many are kept whatever their age.
	Deltas int
	// Now is the time; it decides only how long versions are kept.
	Now func() time.Time
}

// DefaultConfig has all but the store. For a publication every five minutes: a client that was away for a quarter of
// an hour gets along with a delta.
func DefaultConfig() Config {
	return Config{Keep: time.Hour, Deltas: 3, Now: time.Now}
}

// Validate returns every problem of the numbers, joined.
func (c Config) Validate() error {
	var problems []error
	if c.Keep <= 0 || c.Keep > 24*time.Hour { // a manifest lists what is kept, and is to be small
		problems = append(problems, fmt.Errorf("keep is %v: write a duration above 0, at most 24h", c.Keep))
	}
	if c.Deltas < 0 || c.Deltas > 10 {
		problems = append(problems, fmt.Errorf("deltas is %d: write a number from 0 to 10", c.Deltas))
	}
	return errors.Join(problems...)
}

// Publisher publishes versions. It is for one goroutine at a time; there may be any number of them, in any
// processes.
type Publisher struct {
	cfg    Config
	latest []*Snapshot // what deltas were made from, so that it need not be read again
}

// NewPublisher returns a publisher.
func NewPublisher(cfg Config) (*Publisher, error) {
	err := cfg.Validate()
	if cfg.Store == nil || cfg.Now == nil {
		err = errors.Join(errors.New("the store or the clock is missing"), err)
	}
	if err != nil {
		return nil, fmt.Errorf("publish snapshots: %w", err)
	}
	return &Publisher{cfg: cfg}, nil
}

// Options say what is unusual about a publication.
type Options struct {
	// Force publishes what shrank by half, and in place of a manifest that is broken.
	Force bool
	// Forget makes all earlier versions unreadable, with what was in them.
	Forget bool
}

// Publish publishes what read returns, as the next version, and returns it. read gets the version that is current, nil if there
// is none, or one that is broken. It must look at what is to be published when it is called and not before: the next
// version is newer than the one that it gets. If all pages are as they are, nothing is written.
//
// On any error but ErrSuperseded, ErrShrank and read's own it is not known whether the version was published. Its number is
// used up only if it was.
func (p *Publisher) Publish(ctx context.Context, read func(ctx context.Context, last *Snapshot) ([]Page, error), o Options) (*Snapshot, error) {
	return p.next(ctx, o, func(ctx context.Context, b base) ([]Page, error) { return read(ctx, b.last) })
}

// RollBack publishes an earlier version again, as the next one.
func (p *Publisher) RollBack(ctx context.Context, version uint64) (*Snapshot, error) {
	return p.next(ctx, Options{Force: true}, func(ctx context.Context, b base) ([]Page, error) {
		for _, e := range b.manifest.Earlier {
			if e.Version == version {
				old, err := load(ctx, p.cfg.Store, e, b.last)
				if err != nil {
					return nil, superseded(ctx, p.cfg.Store, b.tag, err)
				}
				return old.Pages(), nil
			}
		}
		return nil, fmt.Errorf("version %d is not kept: roll back to one of the manifest's earlier versions", version)
	})
}

func (p *Publisher) next(ctx context.Context, o Options, read func(ctx context.Context, b base) ([]Page, error)) (*Snapshot, error) {
	b, err := p.begin(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("publish a snapshot: %w", err)
	}
	pages, err := read(ctx, b)
	if err != nil {
		return nil, fmt.Errorf("publish a snapshot: %w", err)
	}
	if b.last != nil && !o.Forget && slices.EqualFunc(pages, b.last.Pages(), same) {
		return b.last, nil
	}
	s, err := p.publish(ctx, b, pages, o)
	if err != nil {
		return nil, fmt.Errorf("publish version %d of the snapshot: %w", b.manifest.Version+1, err)
	}
	return s, nil
}

func same(a, b Page) bool { return a.Name == b.Name && bytes.Equal(a.Body, b.Body) }

// Purge publishes the current version as edit changes its pages, forgets all others and deletes them. When it returns,
// nothing that edit took out is in the store, except what other publishers write just now and nobody reads; an
// edge shows none of it after its next look at the manifest, and clients after their next. What
// read of Publish returns from now on must not have it either.
func (p *Publisher) Purge(ctx context.Context, edit func(Page) (body []byte)) (*Snapshot, error) {
	for {
		s, err := p.Publish(ctx, func(_ context.Context, last *Snapshot) ([]Page, error) {
			if last == nil {
				return nil, fmt.Errorf("%w, or there is none: publish anew what is right, and forget what was", ErrBroken)
			}
			pages := last.Pages()
			for i := range pages {
				pages[i].Body = edit(pages[i])
			}
			return pages, nil
		}, Options{Forget: true, Force: true}) // what is to go may be more than half
		if errors.Is(err, ErrSuperseded) {
			continue // each time somebody else has published: it does not go on for ever
		}
		if err == nil {
			_, err = p.Collect(ctx)
		}
		return s, err
	}
}

// base is what a publication is to replace.
type base struct {
	manifest Manifest // of version 0 if there is none
	tag      objects.Tag
	last     *Snapshot // nil if there is none that can be read
}

func (p *Publisher) begin(ctx context.Context, o Options) (b base, err error) {
	raw, tag, err := p.cfg.Store.Get(ctx, manifestName)
	b.tag = tag
	switch {
	case err == nil:
		b.manifest, err = decode(raw)
	case errors.Is(err, objects.ErrNotFound):
		// A manifest that is lost was one of those that objects are named after.
		b.manifest.Version, err = p.highest(ctx)
		return b, err
	}
	if errors.Is(err, ErrBroken) && o.Force {
		b.manifest = Manifest{}
		b.manifest.Version, err = p.highest(ctx)
		return b, err
	}
	if errors.Is(err, ErrBroken) {
		return b, fmt.Errorf("%w; force a publication to replace it", err)
	}
	if err != nil {
		return b, err
	}
	// From the store and not from memory: what it no longer has, or has otherwise, is written again.
	b.last, err = load(ctx, p.cfg.Store, b.manifest.Edition, nil)
	err = superseded(ctx, p.cfg.Store, b.tag, err)
	if errors.Is(err, ErrBroken) || errors.Is(err, objects.ErrNotFound) {
		return b, nil
	}
	if err == nil {
		b.last.Manifest, b.last.raw = b.manifest, raw
	}
	return b, err
}

// superseded is err, or ErrSuperseded if an object is gone because the manifest with the tag is: whatever a manifest
// refers to is there for as long as it is the current one.
func superseded(ctx context.Context, store objects.Store, tag objects.Tag, err error) error {
	if !errors.Is(err, objects.ErrNotFound) {
		return err
	}
	switch _, now, failed := store.Get(ctx, manifestName); {
	case failed != nil && !errors.Is(failed, objects.ErrNotFound):
		return failed
	case now != tag:
		return ErrSuperseded
	}
	return err
}

// highest is the highest version that an object was written for: each version has an index.
func (p *Publisher) highest(ctx context.Context) (version uint64, err error) {
	names, err := p.cfg.Store.List(ctx, objectsBelow)
	for _, name := range names {
		if v, ok := versionOf(name); ok {
			version = max(version, v)
		}
	}
	return version, err
}

func (p *Publisher) publish(ctx context.Context, b base, pages []Page, o Options) (*Snapshot, error) {
	s, fresh, err := compose(b, pages)
	if err != nil {
		return nil, err
	}
	if was := b.manifest.Whole.Size; 2*len(s.whole) <= was && !o.Force {
		return nil, fmt.Errorf("%w: from %d bytes to %d; if that is right, force it", ErrShrank, was, len(s.whole))
	}
	m := &s.Manifest
	m.Published = p.cfg.Now().UTC().Truncate(time.Millisecond)
	if !o.Forget {
		m.Earlier = p.earlier(b.manifest, m.Published)
	}
	origins := p.origins(ctx, b)
	for _, from := range origins {
		delta, err := difference(from, s)
		if err != nil {
			return nil, err
		}
		if delta != nil {
			o := objectOf(m.Version, delta)
			m.Deltas = append(m.Deltas, Delta{from.Manifest.Whole.SHA256, o})
			fresh[o.Name] = delta
		}
	}
	if s.raw, err = m.encode(); err != nil {
		return nil, err
	}
	if err := p.write(ctx, b.tag, fresh); err != nil {
		return nil, err
	}
	_, err = p.cfg.Store.Put(ctx, manifestName, s.raw, b.tag)
	switch {
	case errors.Is(err, objects.ErrChanged):
		return nil, ErrSuperseded
	case err != nil:
		return nil, err
	}
	p.latest = origins
	return s, nil
}

// earlier are the versions that stay readable when another one takes the place of the manifest's.
func (p *Publisher) earlier(m Manifest, now time.Time) (kept []Edition) {
	if m.Whole.Size == 0 {
		return nil // there is none
	}
	last := m.Edition
	last.Superseded = now
	for i, e := range append([]Edition{last}, m.Earlier...) {
		if i < p.cfg.Deltas || now.Sub(e.Superseded) < p.cfg.Keep {
			kept = append(kept, e)
		}
	}
	return kept
}

// compose makes the next version of pages, and the objects that the store does not have by then.
func compose(b base, pages []Page) (s *Snapshot, fresh map[string][]byte, err error) {
	version, seen := b.manifest.Version+1, make(map[string]bool, len(pages))
	fresh, size := make(map[string][]byte), 0
	x := index{version, make([]Part, 0, len(pages))}
	for _, page := range pages {
		if !pageNames.MatchString(page.Name) || seen[page.Name] || len(page.Body) > objects.MaxSize {
			return nil, nil, fmt.Errorf("the page %.80q: give each a name of its own like pages/1.json, in small letters, and at most %d bytes", page.Name, objects.MaxSize)
		}
		if page.Name == manifestName || strings.HasPrefix(page.Name, objectsBelow) || strings.HasPrefix(page.Name, wholeBelow) {
			return nil, nil, fmt.Errorf("the page %.80q: give it another name: %s and all below %s and %s are the snapshot's own", page.Name, manifestName, objectsBelow, wholeBelow)
		}
		seen[page.Name] = true
		o, body := b.last.find(sum(page.Body))
		if body == nil {
			o = objectOf(version, page.Body)
			fresh[o.Name] = page.Body
		}
		x.Pages = append(x.Pages, Part{page.Name, o})
		size += len(page.Body)
	}
	line, err := x.line()
	if err != nil {
		return nil, nil, err
	}
	if size += len(line) + 1; size > maxWhole || len(pages) == 0 {
		return nil, nil, fmt.Errorf("there are %d pages with %d bytes: publish at least one page, and at most %d bytes", len(pages), size, maxWhole)
	}
	whole := append(append(make([]byte, 0, size), line...), '\n')
	for _, page := range pages {
		whole = append(whole, page.Body...)
	}
	o := objectOf(version, line)
	fresh[o.Name] = line
	m := Manifest{Edition: Edition{Version: version, Index: o, Whole: Text{sum(whole), len(whole)}}}
	return open(m, whole, x.Pages), fresh, nil
}

// origins are the versions that deltas are made from. One that cannot be read has none, nor one that no client keeps: it is too large.
func (p *Publisher) origins(ctx context.Context, b base) (origins []*Snapshot) {
	if b.last == nil || p.cfg.Deltas == 0 {
		return nil
	}
	if len(b.last.whole) <= dictionary.MaxSize {
		origins = append(origins, b.last)
	}
	for _, e := range b.manifest.Earlier[:min(len(b.manifest.Earlier), p.cfg.Deltas-1)] {
		if e.Whole.Size > dictionary.MaxSize {
			continue
		}
		i := slices.IndexFunc(p.latest, func(s *Snapshot) bool { return s.Manifest.Index == e.Index })
		if i >= 0 {
			origins = append(origins, p.latest[i])
		} else if s, err := load(ctx, p.cfg.Store, e, b.last); err == nil {
			origins = append(origins, s)
		}
	}
	return origins
}

// difference makes a delta, in the content coding dcz; nil if a client could not use it (RFC 9842, 5: its window may
// be 8 MB, or 1.25 times the dictionary).
func difference(from, to *Snapshot) ([]byte, error) {
	const window = 8 << 20
	if len(to.whole) > max(window, len(from.whole)*5/4) {
		return nil, nil
	}
	d, err := dictionary.NewEarlier(from.whole, len(to.whole))
	if err != nil {
		return nil, err
	}
	return d.Compress(bytes.Clone(d.Header()), to.whole)
}

// Apply makes a version of a delta and the text of the earlier one that it is from; errors wrap ErrBroken.
func Apply(earlier, delta []byte, to Text) (*Snapshot, error) {
	d, err := dictionary.New(earlier, to.Size)
	if err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(delta, d.Header()) {
		return nil, fmt.Errorf("%w: the delta is from another version", ErrBroken)
	}
	whole, err := d.Decompress(nil, delta)
	if err != nil {
		return nil, fmt.Errorf("%w: the delta: %w", ErrBroken, err)
	}
	return Parse(whole, to.SHA256)
}

// write writes objects of the version that is to replace the manifest with the tag.
func (p *Publisher) write(ctx context.Context, was objects.Tag, fresh map[string][]byte) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for name, body := range fresh {
		group.Go(func() error { return p.place(ctx, was, name, body) })
	}
	return group.Wait()
}

// place writes an object that may be there already, from another publisher who works on the same version or was
// killed; then it is looked at.
func (p *Publisher) place(ctx context.Context, was objects.Tag, name string, body []byte) error {
	_, err := p.cfg.Store.Put(ctx, name, body, objects.Absent)
	if !errors.Is(err, objects.ErrChanged) {
		return err
	}
	there, tag, err := p.cfg.Store.Get(ctx, name)
	if err != nil {
		return superseded(ctx, p.cfg.Store, was, err)
	}
	if bytes.Equal(there, body) {
		return nil
	}
	_, err = p.cfg.Store.Put(ctx, name, body, tag)
	return err
}
