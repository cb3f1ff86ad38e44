package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"loadstone/block/objects"
)

// Reader reads the current version again and again. It is for one goroutine at a time.
type Reader struct {
	store objects.Store
	last  *Snapshot
}

// NewReader returns a reader that has read nothing yet.
func NewReader(store objects.Store) *Reader { return &Reader{store: store} }

// rereads is how often a manifest is read anew because its objects are gone: it was read longer than Config.Keep
// ago, or the version was purged.
const rereads = 3

// Read returns the current version, the same one again if nothing was published. Pages that the last one had are
// not read again. On an error, ErrNone, ErrBroken, ErrOlder or one of the store, what Read returned last may be used on.
func (r *Reader) Read(ctx context.Context) (*Snapshot, error) {
	var before []byte
	for n := 0; ; n++ {
		raw, _, err := r.store.Get(ctx, manifestName)
		if errors.Is(err, objects.ErrNotFound) {
			err = ErrNone
		}
		if err != nil {
			return nil, fmt.Errorf("read the snapshot: %w", err)
		}
		s, err := r.read(ctx, raw)
		if err == nil {
			r.last = s
			return s, nil
		}
		if !errors.Is(err, objects.ErrNotFound) || n == rereads || bytes.Equal(raw, before) {
			return nil, fmt.Errorf("read the snapshot: %w", err)
		}
		before = raw
	}
}

func (r *Reader) read(ctx context.Context, raw []byte) (*Snapshot, error) {
	m, err := decode(raw)
	if err != nil {
		return nil, err
	}
	if r.last != nil {
		switch same := bytes.Equal(raw, r.last.raw); {
		case same:
			return r.last, nil
		case m.Version < r.last.Manifest.Version:
			return nil, fmt.Errorf("%w: version %d came after %d", ErrOlder, m.Version, r.last.Manifest.Version)
		case m.Version == r.last.Manifest.Version:
			return nil, fmt.Errorf("%w: there are two versions %d", ErrBroken, m.Version)
		}
	}
	s, err := load(ctx, r.store, m.Edition, r.last)
	if err != nil {
		return nil, err
	}
	s.Manifest, s.raw = m, raw
	return s, nil
}
