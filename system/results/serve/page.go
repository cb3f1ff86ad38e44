package serve

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"loadstone/system/results/httpapi"
	"loadstone/system/results/web"
)

// How the waiting cookie's attribute Secure is chosen, see Config.SecureCookie.
const (
	CookieAuto = "auto"
	CookieOn   = "on"
	CookieOff  = "off"
)

// handler is the interface, with the page at all other addresses if it is wanted.
func (s *server) handler(api *httpapi.API) (fasthttp.RequestHandler, error) {
	if !s.cfg.Page {
		return api.Handle, nil
	}
	if s.cfg.Access == httpapi.Open {
		s.logger.Warn("access is open: the page asks for a code, and any code opens a result")
	}
	site, err := web.New(s.siteConfig(api))
	if err != nil {
		return nil, fmt.Errorf("make the page: %w", err)
	}
	return func(ctx *fasthttp.RequestCtx) {
		if httpapi.Serves(ctx.URI().PathOriginal()) {
			api.Handle(ctx)
			return
		}
		site.Handle(ctx)
	}, nil
}

func (s *server) siteConfig(api *httpapi.API) web.Config {
	cfg := web.DefaultConfig()
	var until time.Time
	if s.cfg.PublishAt != nil {
		until = *s.cfg.PublishAt
		cfg.Location = until.Location() // as it was announced
	}
	cfg.Opens = api.Opens
	cfg.Lookup = func(ctx *fasthttp.RequestCtx, id int64, code []byte) web.Outcome {
		d := api.Decide(ctx, id, code)
		return web.Outcome{Kind: kinds[d.Kind], Page: d.Page, Until: until, RetryAfter: d.Wait}
	}
	switch s.cfg.SecureCookie {
	case CookieAuto:
		cfg.SecureCookie = api.Secure
	case CookieOff:
		cfg.SecureCookie = func(*fasthttp.RequestCtx) bool { return false }
	}
	cfg.Panicked = func(value any, stack []byte) {
		s.logger.Error("a page panicked", "panic", value, "stack", string(stack))
	}
	cfg.Registerer = s.registry
	return cfg
}

// kinds are the page's words for decisions.
var kinds = [...]web.Kind{
	httpapi.Unavailable: web.Down,
	httpapi.Found:       web.Found,
	httpapi.NotFound:    web.NotFound,
	httpapi.Embargoed:   web.Embargoed,
	httpapi.RateLimited: web.Limited,
	httpapi.LockedOut:   web.Limited,
	httpapi.Overloaded:  web.Busy,
}

// DownPage returns the page that says that the service is down, for a balancer to
// show when there is nobody left to ask, in a language such as "en".
func DownPage(language string) ([]byte, error) {
	cfg := web.DefaultConfig()
	cfg.Lookup = func(*fasthttp.RequestCtx, int64, []byte) web.Outcome { return web.Outcome{Kind: web.Down} }
	cfg.Panicked = func(any, []byte) {}
	cfg.Registerer = prometheus.NewRegistry()
	site, err := web.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("make the page: %w", err)
	}
	html, ok := site.DownPage(language)
	if !ok {
		return nil, errors.New("there is no page in this language: try en")
	}
	return html, nil
}
