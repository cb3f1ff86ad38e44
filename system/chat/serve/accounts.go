package serve

import (
	"context"
	"errors"
	"log/slog"

	"loadstone/block/redact"
	"loadstone/block/route"
	"loadstone/block/service"
	"loadstone/system/chat"
	"loadstone/system/chat/oidc"
	"loadstone/system/chat/registry"
)

// Accounts is the configuration of the server of accounts: of Config it uses the service's own, the database,
// and what is said of tokens, guests, the provider, origins, pictures and proxies.
type Accounts struct{ Config }

// Validate returns all problems of the configuration, joined, or nil.
func (c Accounts) Validate() error {
	return errors.Join(c.Config.Config.Validate(), c.Cluster.Registry.Validate(), c.validateAccounts())
}

// RunAccounts serves, until ctx ends, what is about accounts and hosts, for servers that share their log: signing
// up and in, refresh tokens, profiles and whom one follows. Those servers ask the database themselves whether the
// session of a token is still there, and where it does not answer take the token's word, so that they go on
// without it and without this one.
func RunAccounts(ctx context.Context, cfg Accounts, logger *slog.Logger) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	s := newServer(cfg.Config, logger)
	return service.Run(ctx, cfg.Config.Config, logger, func(ctx context.Context, parts *service.Service) (service.Handler, error) {
		c := cfg.Cluster.Registry
		parts.Logger.Info("configuration", "listen", cfg.Listen, "admin_listen", cfg.AdminListen, "database", redact.Address(c.Address),
			"access_ttl", cfg.AccessTTL, "guests", cfg.Guests, "oidc_issuer", cfg.OIDC.Issuer, "origins", cfg.Origins, "proxies", cfg.Proxies.String())
		c.Failed = s.failed
		r, err := registry.Open(ctx, c) // it has the key of tokens
		if err != nil {
			return service.Handler{}, err
		}
		parts.Add(service.Component{Name: "registry", Close: r.Close})
		s.access = chat.NewTokens(r.Key(), cfg.AccessTTL)
		if cfg.OIDC.On() {
			s.provider = oidc.New(cfg.elsewhere(), r.Key())
		}
		if err := s.openUsers(ctx, parts); err != nil {
			return service.Handler{}, err
		}
		routes := route.New(route.Config{Table: answers, Ready: parts.Ready, Logger: parts.Logger, Registerer: parts.Registry, Failed: s.failed})
		s.accounts(routes) //nolint:contextcheck // a request's context is its own, and not that of the start
		return service.Handler{Handle: routes.Handle, BadRequest: routes.BadRequest}, nil
	})
}
