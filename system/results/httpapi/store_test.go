package httpapi_test

import (
	"context"

	"loadstone/system/results"
)

// memStore is a store in memory.
type memStore map[int64]results.Page

func (s memStore) Lookup(_ context.Context, id int64) (results.Page, error) {
	page, ok := s[id]
	if !ok {
		return results.Page{}, results.ErrNotFound
	}
	return page, nil
}

func (memStore) Close() error { return nil }
