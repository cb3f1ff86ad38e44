package proxy

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"

	"loadstone/block/dataset"
	"loadstone/block/dictionary"
	"loadstone/block/lookaside"
	"loadstone/system/menu"
)

// CacheName is the name of the cache that proxies and menu servers share.
const CacheName = "menus"

// Key is a menu's key in it.
func Key(id int64) string { return strconv.FormatInt(id, 10) }

// Filling makes a cache one of menus: it sets Load, from a look-up, and Usable. Menus are kept as
// dictionary.Set.Pack makes them; without dictionaries, as they are. Frame is the page's if the
// look-up found it compressed with the first of the dictionaries, else nil.
func Filling(to *lookaside.Config, with *dictionary.Set, lookup func(ctx context.Context, id int64) (page menu.Page, frame []byte, err error)) {
	to.Load = func(ctx context.Context, key string) (lookaside.Value, error) {
		id, ok := dataset.ParseID(key)
		if !ok {
			return lookaside.Value{}, menu.Malformed(key)
		}
		page, frame, err := lookup(ctx, id)
		switch {
		case errors.Is(err, menu.ErrNotFound):
			return lookaside.Value{Absent: true, Version: page.Version}, nil
		case err != nil:
			return lookaside.Value{}, err
		}
		return valueOf(page, frame, with)
	}
	to.Usable = func(v lookaside.Value) bool {
		_, _, ok := with.Split(v.Bytes)
		return ok
	}
}

// FromStore is a look-up for Filling, in a store.
func FromStore(store menu.Store) func(ctx context.Context, id int64) (menu.Page, []byte, error) {
	return func(ctx context.Context, id int64) (menu.Page, []byte, error) {
		page, err := store.Lookup(ctx, id)
		return page, nil, err
	}
}

// valueOf is a page as the cache has it, which owns its bytes.
func valueOf(page menu.Page, frame []byte, with *dictionary.Set) (lookaside.Value, error) {
	packed, err := with.Pack(nil, page.Body, frame) // copies
	runtime.KeepAlive(page.Owner)
	return lookaside.Value{Bytes: packed, Tag: page.Tag, Version: page.Version}, err
}

// Telling tells the cache of writes, for the menu servers: Changing before each, Changed
// after those that took place. The cache is one of Filling, with the same dictionaries.
type Telling struct {
	Cache        *lookaside.Cache
	Dictionaries *dictionary.Set
}

// Changing says that the menu is about to change. If it fails it must not. For a menu whose id
// is not chosen yet, 0, there is nothing to say: what the cache may have is that
// there is none, for a minute.
func (t Telling) Changing(ctx context.Context, id int64) error {
	if id == 0 {
		return nil
	}
	if err := t.Cache.Changing(ctx, Key(id)); err != nil {
		return fmt.Errorf("%w: %w", menu.ErrUnavailable, err)
	}
	return nil
}

// Changed says what the menu is now. Of a deleted one the page has the Version alone.
func (t Telling) Changed(ctx context.Context, id int64, page menu.Page, deleted bool) error {
	if deleted {
		return t.Cache.Changed(ctx, Key(id), lookaside.Value{Absent: true, Version: page.Version})
	}
	v, err := valueOf(page, nil, t.Dictionaries)
	if err != nil {
		return err
	}
	return t.Cache.Changed(ctx, Key(id), v)
}

// Unchanged says that a write that was announced did not take place.
func (t Telling) Unchanged(ctx context.Context, id int64) error {
	if id == 0 {
		return nil
	}
	return t.Cache.Unchanged(ctx, Key(id))
}
