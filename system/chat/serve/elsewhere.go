package serve

import (
	"context"
	"errors"
	"net/http"

	"github.com/valyala/fasthttp"

	"loadstone/block/route"
	"loadstone/system/chat"
	"loadstone/system/chat/oidc"
	"loadstone/system/chat/users"
	"loadstone/system/chat/web"
)

// providerPath leads to the provider, and callbackPath is where it sends browsers back to.
// providerCookie is sent to these alone.
const (
	providerPath   = "/api/oidc"
	callbackPath   = providerPath + "/callback"
	providerCookie = "chat_oidc"
)

// leaveToProvider answers GET providerPath.
func (s *server) leaveToProvider(c context.Context, ctx *fasthttp.RequestCtx) error {
	if !s.mayTryFrom(s.network(ctx)) {
		return chat.ErrTooMany
	}
	address, kept, err := s.provider.Start(c)
	if err != nil {
		if errors.Is(err, chat.ErrProvider) {
			s.logger.Warn("the provider of identities cannot be asked", "error", err)
		}
		return err
	}
	setCookie(ctx, providerCookie, kept, providerPath, oidc.Patience)
	see(ctx, address)
	return nil
}

// comeBack answers GET callbackPath: a browser with a session, or the page that says that it failed.
func (s *server) comeBack(c context.Context, ctx *fasthttp.RequestCtx) error {
	args := ctx.QueryArgs()
	kept := string(ctx.Request.Header.Cookie(providerCookie))
	setCookie(ctx, providerCookie, "", providerPath, -1)
	if !s.mayTryFrom(s.network(ctx)) {
		return chat.ErrTooMany
	}
	who, err := s.provider.Finish(c, kept, string(args.Peek("state")), string(args.Peek("code")))
	var u *users.User
	if err == nil {
		u, err = s.people.FromElsewhere(c, users.Elsewhere(who))
	}
	if err == nil {
		err = s.begin(c, ctx, u)
	}
	if err != nil {
		s.outcomes.signIns.WithLabelValues("wrong").Inc()
		s.logger.Info("a sign-in elsewhere failed", "error", err, "from", s.network(ctx))
		see(ctx, web.Path+"?failed")
		return nil
	}
	see(ctx, web.Path)
	return nil
}

// see sends a browser somewhere else.
func see(ctx *fasthttp.RequestCtx, address string) {
	ctx.Response.Header.Set("Location", address)
	ctx.Response.Header.Set("Cache-Control", "no-store")
	ctx.SetStatusCode(fasthttp.StatusSeeOther)
}

// elsewhere adds the way over a provider, if there is one.
func (s *server) elsewhere(r *route.Routes) {
	if s.provider == nil {
		return
	}
	r.Add(http.MethodGet, providerPath, timed(s.leaveToProvider))
	r.Add(http.MethodGet, callbackPath, timed(s.comeBack))
}
