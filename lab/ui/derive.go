package ui

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"loadstone/lab/analysis"
	"loadstone/lab/archive"
	"loadstone/lab/result"
)

// maxDerived is how many results are kept: about a megabyte each.
const maxDerived = 16

// deriver works out what runs found from their raw data, as the commands do, and
// keeps the latest results by the time of the run's end. Runs are derived one at
// a time: one takes a core for about a second. It fails closed: a run that
// cannot be derived is an error each time it is asked for.
type deriver struct {
	dir  string
	slot chan struct{} // has room for the one that derives

	mu   sync.Mutex
	kept []derived // the least recently used first
}

type derived struct {
	name   string
	stamp  stamp // of complete.json
	result *result.Result
}

func newDeriver(dir string) *deriver { return &deriver{dir: dir, slot: make(chan struct{}, 1)} }

// result returns what a whole run found. Nobody may change it.
func (d *deriver) result(ctx context.Context, e *entry) (*result.Result, error) {
	if r := d.find(e); r != nil {
		return r, nil
	}
	select {
	case d.slot <- struct{}{}:
		defer func() { <-d.slot }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if r := d.find(e); r != nil { // somebody else derived it meanwhile
		return r, nil
	}
	whole, err := archive.Open(filepath.Join(d.dir, e.Name))
	if err != nil {
		return nil, err
	}
	r, err := analysis.Derive(whole)
	if err != nil {
		return nil, fmt.Errorf("derive the result of %s: %w", e.Name, err)
	}
	d.keep(derived{e.Name, e.complete, r})
	return r, nil
}

func (d *deriver) find(e *entry) *result.Result {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := slices.IndexFunc(d.kept, func(k derived) bool { return k.name == e.Name && k.stamp == e.complete })
	if i < 0 {
		return nil
	}
	k := d.kept[i]
	d.kept = append(slices.Delete(d.kept, i, i+1), k)
	return k.result
}

func (d *deriver) keep(k derived) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.kept = append(slices.DeleteFunc(d.kept, func(o derived) bool { return o.name == k.name }), k)
	if len(d.kept) > maxDerived {
		d.kept = slices.Delete(d.kept, 0, 1)
	}
}
