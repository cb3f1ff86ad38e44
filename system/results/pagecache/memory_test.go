package pagecache

import (
	"context"

	"loadstone/system/results"
)

// memory is a store in memory.
type memory map[int64]results.Page

func (m memory) Lookup(_ context.Context, id int64) (results.Page, error) {
	page, ok := m[id]
	if !ok {
		return results.Page{}, results.ErrNotFound
	}
	return page, nil
}

func (memory) Close() error { return nil }
