package serve

import (
	"context"
	"errors"

	"loadstone/block/route"
	"loadstone/block/service"
	"loadstone/system/menu"
	"loadstone/system/menu/admin"
	"loadstone/system/menu/search"
)

// errNoDesk says that the store has no drafts and no log.
var errNoDesk = errors.New("menus cannot be edited in this store: write one that is a database")

// newAdmin makes the pages of editors, who write and look at drafts as to says.
func newAdmin(cfg Config, s *service.Service, store menu.Store, to admin.Config) (*admin.Admin, error) {
	var ok bool
	if to.Desk, ok = store.(menu.Desk); !ok {
		return nil, errNoDesk
	}
	var err error
	if to.Office, err = cfg.Office(s, admin.Roles()); err != nil {
		return nil, err
	}
	return admin.New(to)
}

// openSearch opens the search index at path and keeps it fresh; nil if there is to be none.
func openSearch(ctx context.Context, path string, s *service.Service, store menu.Store) (menu.Searcher, error) {
	if path == "" {
		return nil, nil
	}
	desk, ok := store.(menu.Desk)
	if !ok {
		return nil, errNoDesk
	}
	index, err := search.Open(ctx, path, desk)
	if err != nil {
		return nil, err
	}
	failures := route.NewErrorLog(s.Logger.With("component", "search"), "the search index is not kept fresh")
	s.Add(service.Component{Name: "search", Close: index.Close, Run: func(ctx context.Context) error {
		return index.Run(ctx, func(err error) { failures.Log("error", err) })
	}})
	return index, nil
}
