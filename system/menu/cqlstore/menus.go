package cqlstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"slices"
	"sync"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"golang.org/x/sync/errgroup"

	"loadstone/block/dataset"
	"loadstone/system/menu"
)

// source is the menus with some ids.
type source struct {
	store *Store
	meta  dataset.Meta
	ids   []int64
}

// Menus implements menu.Database, but for the moment: each menu is one that it was during
// the reading, and if one is deleted meanwhile, reading ends with an error that wraps
// menu.ErrChanged. Nodes keep rows by the hashes of their ids; so this reads all ids and
// sorts them, 80 MB for ten million, and All reads the menus one by one.
func (s *Store) Menus(ctx context.Context) (dataset.Source[menu.Menu], error) {
	var f *filled
	err := s.session.Do(ctx, func(ctx context.Context, session *gocql.Session) (err error) {
		f, err = s.holds(ctx, session)
		return err
	})
	var all *listing
	if err == nil {
		all, err = s.list(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("read the menus of %s: %w", s.cfg.name(), s.classify(ctx, err))
	}
	var meta dataset.Meta
	if f != nil {
		meta = f.meta
	}
	// What was filled in has version 1.
	writes := all.versions - meta.Count
	meta = meta.Revised(writes, fmt.Sprintf("%016x after %d writes to %016x", all.digest, writes, menu.Tag([]byte(meta.Fingerprint))))
	meta.Count = int64(len(all.ids))
	slices.Sort(all.ids)
	return &source{s, meta, all.ids}, nil
}

// listing is what all rows say.
type listing struct {
	mu       sync.Mutex
	ids      []int64 // of menus that are there
	versions int64   // the sum of all
	digest   uint64
}

func (l *listing) add(id, version int64, tag *int64) {
	if version == 0 { // it has but a fence
		return
	}
	if tag != nil {
		l.ids = append(l.ids, id)
	} else {
		tag = new(int64)
	}
	l.versions += version
	var entry [24]byte
	binary.LittleEndian.PutUint64(entry[:], uint64(id))
	binary.LittleEndian.PutUint64(entry[8:], uint64(version))
	binary.LittleEndian.PutUint64(entry[16:], uint64(*tag))
	l.digest ^= menu.Tag(entry[:]) // of no order
}

// The ring of hashes is read in so many parts, so many at a time and so many rows at once:
// a node takes some hundredths of a second for that. One that has just imported hundreds of sorted
// tables looks into each of them: if it does not answer in time, it is asked for a quarter as many.
const (
	listParts   = 64
	listWorkers = 4
	listRows    = 2000
)

// list reads all rows without their bodies.
func (s *Store) list(ctx context.Context) (*listing, error) {
	all := &listing{}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(listWorkers)
	const width = math.MaxUint64/listParts + 1
	for part := range int64(listParts) {
		first := math.MinInt64 + part*width
		group.Go(func() error { return s.listPart(ctx, all, first, first+(width-1)) })
	}
	return all, group.Wait()
}

func (s *Store) listPart(ctx context.Context, all *listing, first, last int64) error {
	type entry struct {
		id, version int64
		tag         *int64
	}
	size := listRows
	for page, more := []byte(nil), true; more; {
		var found []entry
		var next []byte
		again := false
		err := s.patiently(ctx, func(ctx context.Context, session *gocql.Session) error {
			if again {
				size = max(1, size/4) //nolint:mnd // see listRows
			}
			again, found = true, found[:0]
			rows := session.Query("SELECT id, version, tag FROM menus WHERE token(id) >= ? AND token(id) <= ?", first, last).
				Consistency(s.read).Idempotent(true).PageSize(size).PageState(page).IterContext(ctx)
			for range rows.NumRows() { // more would be the next page
				var e entry
				if !rows.Scan(&e.id, &e.version, &e.tag) {
					break
				}
				found = append(found, e)
			}
			next = rows.PageState()
			return rows.Close()
		})
		if err != nil {
			return err
		}
		all.mu.Lock()
		for _, e := range found {
			all.add(e.id, e.version, e.tag)
		}
		all.mu.Unlock()
		page, more = next, len(next) > 0
	}
	return nil
}

// Meta implements dataset.Source.
func (s *source) Meta() dataset.Meta { return s.meta }

// window is how many menus All reads before it gives the first of them, and readers how
// many at a time.
const (
	window  = 512
	readers = 32
)

// All implements dataset.Source.
func (s *source) All(ctx context.Context) iter.Seq2[menu.Menu, error] {
	return func(yield func(menu.Menu, error) bool) {
		for ids := range slices.Chunk(s.ids, window) {
			menus, err := s.read(ctx, ids)
			if err != nil {
				yield(menu.Menu{}, fmt.Errorf("read all menus of %s: %w", s.store.cfg.name(), s.store.classify(ctx, err)))
				return
			}
			for _, m := range menus {
				if !yield(m, nil) {
					return
				}
			}
		}
	}
}

func (s *source) read(ctx context.Context, ids []int64) ([]menu.Menu, error) {
	menus := make([]menu.Menu, len(ids))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readers)
	for i, id := range ids {
		group.Go(func() error {
			var r row
			err := s.store.patiently(ctx, func(ctx context.Context, session *gocql.Session) (err error) {
				r, err = s.store.row(ctx, session, id)
				return err
			})
			switch {
			case err != nil:
				return err
			case r.body == nil:
				return fmt.Errorf("%w: menu %d was deleted while all were read: read them again", menu.ErrChanged, id)
			}
			menus[i], err = menu.ParseStored(id, r.body)
			return err
		})
	}
	return menus, group.Wait()
}
