package serve

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"loadstone/block/follow"
	"loadstone/block/route"
	"loadstone/block/service"
	"loadstone/system/menu"
	"loadstone/system/menu/admin"
	"loadstone/system/menu/search"
)

// lookAtAccounts is how soon an account that was removed is signed out, at the latest.
const lookAtAccounts = time.Second

// errNoDesk says that the store has no drafts and no log.
var errNoDesk = errors.New("menus cannot be edited in this store: write one that is a database")

// newAdmin makes the pages of editors, who write and look at drafts as to says.
func newAdmin(cfg Config, s *service.Service, store menu.Store, to admin.Config) (*admin.Admin, error) {
	desk, ok := store.(menu.Desk)
	if !ok {
		return nil, errNoDesk
	}
	accounts, err := follow.Open(cfg.Accounts, follow.Config[admin.Accounts]{
		Interval: lookAtAccounts, Load: admin.LoadAccounts,
		Switched: func(_, to *admin.Accounts) { s.Logger.Info("accounts read again", "accounts", len(to.All())) },
		Refused:  func(err error) { s.Logger.Error("the accounts cannot be read; those before still count", "error", err) },
	})
	if err != nil {
		return nil, err
	}
	s.Add(service.Component{Name: "accounts", Run: accounts.Run})
	key := cfg.SessionKey
	if key == "" {
		key = rand.Text()
	}
	to.Desk, to.Accounts, to.Key, to.Proxies = desk, accounts.Current, key, cfg.Proxies
	to.Logger, to.Registerer = s.Logger, s.Registry
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
