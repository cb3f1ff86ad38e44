package snapshot

import (
	"context"
	"errors"
	"fmt"

	"loadstone/block/objects"
)

// Collect deletes what the manifest does not refer to any more, and returns how many objects. It may run beside
// publishers and other collections, see the package. If a version that the manifest refers to cannot be read, nothing is
// deleted: its objects are not known.
func (p *Publisher) Collect(ctx context.Context) (deleted int, err error) {
	for {
		deleted, err = collect(ctx, p.cfg.Store)
		if !errors.Is(err, ErrSuperseded) { // else begin anew: each time somebody has published, it does not go on for ever
			break
		}
	}
	if err != nil {
		err = fmt.Errorf("collect what the snapshot does not need: %w", err)
	}
	return deleted, err
}

func collect(ctx context.Context, store objects.Store) (deleted int, err error) {
	raw, tag, err := store.Get(ctx, manifestName)
	if err != nil {
		return 0, err
	}
	m, err := decode(raw)
	if err != nil {
		return 0, err
	}
	needed := make(map[string]bool)
	for _, d := range m.Deltas {
		needed[d.Name] = true
	}
	for _, e := range append([]Edition{m.Edition}, m.Earlier...) {
		line, err := Fetch(ctx, store, e.Index)
		if err != nil {
			return 0, superseded(ctx, store, tag, err)
		}
		parts, err := readIndex(line, e)
		if err != nil {
			return 0, err
		}
		needed[e.Index.Name] = true
		for _, part := range parts {
			needed[part.Name] = true
		}
	}
	names, err := store.List(ctx, objectsBelow)
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		if v, ok := versionOf(name); !ok || v > m.Version || needed[name] {
			continue
		}
		if err := store.Delete(ctx, name); err != nil {
			return deleted, err
		}
		deleted++
	}
	return deleted, nil
}
