// Package proxy stands between clients and the menu servers: it answers look-ups of menus
// from a cache in Redis that all proxies share, sends everything else about menus on to a
// menu server, and other paths to the services that have them.
//
//	GET, HEAD /api/menu/{id}       from Redis, else GET /menu/{id} at a menu server
//	GET, HEAD /api/menu/dictionary/{hash}   what menus can be compressed with, see package dcz
//	*         /api/menu, below     /menu... at a menu server, as it came
//	GET, HEAD /restaurants/{id}    the page, if there is one
//	*         other paths          to the servers of the longest Route that begins them
//	GET, HEAD /healthz, /readyz    probes, see package route
//
// A menu's answer has the bytes, ETag, X-Menu-Version and Cache-Control that the menu
// server gives it; nothing is made of its JSON. Errors are those of the same form.
//
// # What is sent on
//
// Requests are written anew: the method, the target and the headers that are meant for the
// other end, with one Content-Length for the body that was read whole. What two
// readers could take for different requests is refused: Transfer-Encoding beside
// Content-Length, paths that mean another one after somebody cleans them up, bytes that
// are not printable. Header names with an underscore are left out, as NGINX does: some
// servers take it for a dash. Answers of menu servers are read whole; those of other
// services stream, up to a bound, beyond which the connection is cut.
//
// # What is bounded
//
// Every request to a server has a deadline, and each server a number of connections; who
// finds none is refused at once (503 with Retry-After). GET and HEAD are tried once
// more, at another server if there is one, which is then preferred for a second. Other
// methods are never tried twice: the first attempt may have done what it was to do.
package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"loadstone/block/cache"
	"loadstone/block/dataset"
	"loadstone/block/dictionary"
	"loadstone/block/dictionary/dcz"
	"loadstone/block/lookaside"
	"loadstone/block/route"
	"loadstone/system/menu"
)

// The paths that are the proxy's own.
const (
	Path     = "/api/menu"    // menus; one is at Path/{id}
	PagePath = "/restaurants" // pages are at PagePath/{id}
)

// Config is what a proxy needs. Start from DefaultConfig.
type Config struct {
	// Servers are the menu servers, as http://host:port.
	Servers []string
	// Cache is the look-aside cache that proxies and menu servers share; New sets Load. Nil
	// if there is none.
	Cache *lookaside.Config
	// Dictionaries are those that menus in the cache are compressed with, and in answers to clients that
	// have one; nil if they are kept as they are. The cache then has room for three to four times
	// as many; but each answer to a client without the dictionary is decompressed first.
	Dictionaries *dictionary.Set
	// Routes are the paths of other services.
	Routes []Route
	// Page answers GET and HEAD of paths below PagePath; nil if there is no page.
	Page route.Handler
	// Ready reports whether /readyz should say so. It must be fast.
	Ready func() bool
	// Logger is told about servers that fail, at most once in ten seconds, and panics.
	Logger *slog.Logger
	// Registerer receives the metrics, see metrics, route.Requests and package lookaside.
	Registerer prometheus.Registerer
	// Limits are those of menu servers, RouteLimits those of the servers of routes.
	Limits, RouteLimits Limits
}

// Limits bound what one server is asked for.
type Limits struct {
	// Timeout is how long a request and its whole answer take at most. What may be tried
	// twice has half of it each time.
	Timeout time.Duration
	// Conns is how many connections to a server are open at most.
	Conns int
	// BodyBytes is the longest body of an answer.
	BodyBytes int
}

// Route sends the path Prefix, and all paths below it, to one of the servers.
type Route struct {
	Prefix  string   // such as /api/reviews
	Servers []string // as http://host:port
}

// DefaultConfig returns limits for servers nearby. The rest is for the caller.
func DefaultConfig() Config {
	return Config{
		// Longer than a menu server allows its database for a look-up, so that its own
		// answer says what is wrong, twice, as there may be two attempts. Writes are allowed 5 s
		// there. The longest answer is a hundred menus of 64 kB.
		Limits: Limits{Timeout: 6 * time.Second, Conns: 256, BodyBytes: 8 << 20},
		// Nothing is known of others; most of what people wait for comes in this time.
		RouteLimits: Limits{Timeout: 10 * time.Second, Conns: 128, BodyBytes: 8 << 20},
	}
}

// ParseRoute reads a route as it is written on a command line: a prefix, "=", and servers
// separated by commas.
func ParseRoute(text string) (Route, error) {
	prefix, servers, ok := strings.Cut(text, "=")
	r := Route{Prefix: prefix, Servers: strings.Split(servers, ",")}
	if !ok {
		r.Servers = nil
	}
	return r, r.validate()
}

func (r Route) validate() error {
	var errs []error
	if len(r.Prefix) < 2 || r.Prefix[0] != '/' || strings.HasSuffix(r.Prefix, "/") || !clean([]byte(r.Prefix)) || strings.ContainsAny(r.Prefix, "%?#") {
		errs = append(errs, fmt.Errorf("the prefix is %.80q: write a path such as /api/reviews", r.Prefix))
	}
	for _, own := range []string{Path, PagePath, route.HealthPath, route.ReadyPath} {
		if r.Prefix == own || strings.HasPrefix(r.Prefix, own+"/") {
			errs = append(errs, fmt.Errorf("%s belongs to the proxy: write another path", r.Prefix))
		}
	}
	if len(r.Servers) == 0 {
		errs = append(errs, errors.New("there is no server: write one as http://host:port"))
	}
	for _, server := range r.Servers {
		_, err := hostOf(server)
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("route %.80q: %w", r.Prefix, err)
	}
	return nil
}

// Validate returns all problems of the configuration, joined, or nil.
func (c Config) Validate() error {
	var errs []error
	if c.Ready == nil || c.Logger == nil || c.Registerer == nil {
		errs = append(errs, errors.New("proxy: a logger, a registerer, or the function Ready is missing"))
	}
	if len(c.Servers) == 0 {
		errs = append(errs, errors.New("proxy: there is no menu server: write one as http://host:port"))
	}
	for _, server := range c.Servers {
		_, err := hostOf(server)
		errs = append(errs, err)
	}
	seen := make(map[string]bool)
	for _, r := range c.Routes {
		errs = append(errs, r.validate())
		if seen[r.Prefix] {
			errs = append(errs, fmt.Errorf("route %.80q is there twice: name all its servers in one", r.Prefix))
		}
		seen[r.Prefix] = true
	}
	for _, l := range []Limits{c.Limits, c.RouteLimits} {
		if l.Timeout <= 0 || l.Conns < 1 || l.BodyBytes < menu.MaxBodyBytes {
			errs = append(errs, fmt.Errorf("proxy: limits are %v, %d connections and %d bytes: write a positive time, at least 1, and at least %d", l.Timeout, l.Conns, l.BodyBytes, menu.MaxBodyBytes))
		}
	}
	return errors.Join(errs...)
}

// Proxy answers requests. It is safe for concurrent use.
type Proxy struct {
	*route.Routes

	cfg    Config
	menus  *servers
	groups []*servers // with menus, to close
	cache  *lookaside.Cache
	texts  dcz.Texts
	errors route.Errors // those that are written before a handler is found
}

// New returns a proxy and registers its metrics. Neither Redis nor a server need answer yet.
// The caller must Close it.
func New(ctx context.Context, cfg Config) (*Proxy, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	logger := cfg.Logger.With("component", "proxy")
	p := &Proxy{
		Routes: route.New(route.Config{Table: answers, Ready: cfg.Ready, Logger: logger, Registerer: cfg.Registerer}),
		cfg:    cfg, errors: route.Prepare(answers), texts: dcz.Texts{Path: Path, Known: cfg.Dictionaries},
	}
	m := newMetrics(cfg.Registerer)
	p.menus = newServers("menus", cfg.Servers, cfg.Limits, m, logger)
	p.groups = append(p.groups, p.menus)
	if cfg.Cache != nil {
		shared := *cfg.Cache
		Filling(&shared, cfg.Dictionaries, func(ctx context.Context, id int64) (menu.Page, []byte, error) {
			return p.menus.lookup(ctx, id, cfg.Dictionaries.First())
		})
		var err error
		if p.cache, err = lookaside.New(ctx, shared); err != nil {
			return nil, err
		}
	}
	p.addMenus() //nolint:contextcheck // requests have their own
	routes := slices.Clone(cfg.Routes)
	slices.SortFunc(routes, func(a, b Route) int { return len(b.Prefix) - len(a.Prefix) }) // the longest is asked first
	for _, r := range routes {
		group := newServers(r.Prefix, r.Servers, cfg.RouteLimits, m, logger)
		group.stream = true
		p.groups = append(p.groups, group)
		for _, method := range forwarded {
			p.Add(method, r.Prefix, p.pass(group, 0, ""))
			p.Add(method, r.Prefix+"/", p.pass(group, 0, ""))
		}
	}
	return p, nil
}

// forwarded are the methods that are sent on.
var forwarded = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions,
}

// addMenus adds what is the proxy's own.
func (p *Proxy) addMenus() {
	pass := p.pass(p.menus, len(Path), serversPath)
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		p.Add(method, Path+dcz.Below, p.texts.Serve) // before what is below Path
	}
	for _, method := range forwarded {
		p.Add(method, Path, pass)
		p.Add(method, Path+"/", pass)
	}
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		p.Add(method, Path+"/", func(ctx *fasthttp.RequestCtx) error {
			text := ctx.URI().PathOriginal()[len(Path)+1:]
			if bytes.IndexByte(text, '/') >= 0 {
				return pass(ctx)
			}
			return p.get(ctx, text)
		})
		if p.cfg.Page != nil {
			p.Add(method, PagePath+"/", p.cfg.Page)
		}
	}
}

// Handle answers one request. It does not panic.
func (p *Proxy) Handle(ctx *fasthttp.RequestCtx) {
	if twoLengths(&ctx.Request.Header) {
		p.errors[route.BadRequest].Write(ctx, 0)
		ctx.SetConnectionClose() // whatever follows may be part of this body
		return
	}
	p.Routes.Handle(ctx)
}

// get answers for one menu.
func (p *Proxy) get(ctx *fasthttp.RequestCtx, text []byte) error {
	id, ok := dataset.ParseID(text)
	if !ok {
		return &route.Error{Code: of(menu.ErrMalformedID)}
	}
	// The cache and the servers bound their own time.
	v, err := p.find(context.Background(), id)
	if err == nil {
		err = p.answer(ctx, id, &v)
	}
	if v.Version > 0 || err == nil {
		var digits [20]byte
		ctx.Response.Header.SetCanonical(headerVersion, strconv.AppendInt(digits[:0], v.Version, 10))
	}
	if err != nil {
		return failed(err)
	}
	ctx.Response.Header.SetCanonical(headerCacheControl, cacheControl)
	return nil
}

// answer answers with what was found, in the form that the client takes.
func (p *Proxy) answer(ctx *fasthttp.RequestCtx, id int64, v *lookaside.Value) error {
	choice := p.texts.Choose(ctx)
	if stored, frame, _ := p.cfg.Dictionaries.Split(v.Bytes); choice.With != nil && stored == choice.With {
		choice.Write(ctx, frame, v.Tag)
		return nil
	}
	page, err := p.page(context.Background(), id, *v)
	if err != nil {
		return err
	}
	v.Version = page.Version
	if choice.With != nil {
		frame, err := choice.With.Compress(nil, page.Body)
		if err == nil {
			choice.Write(ctx, frame, page.Tag)
		}
		return err
	}
	choice.Describe(ctx)
	if !route.NotModified(ctx, page.Tag) {
		route.SetJSON(ctx, page.Body)
	}
	return nil
}

// Lookup finds a menu's page, in the cache or at a menu server. The error wraps
// menu.ErrNotFound, with the Version in the page if the menu was deleted,
// menu.ErrOverloaded or menu.ErrUnavailable.
func (p *Proxy) Lookup(ctx context.Context, id int64) (menu.Page, error) {
	v, err := p.find(ctx, id)
	if err != nil {
		return menu.Page{Version: v.Version}, err
	}
	return p.page(ctx, id, v)
}

// page is what was found as a page. What is not the menu after all, for it cannot be decompressed or
// is another menu, is looked up at a menu server.
func (p *Proxy) page(ctx context.Context, id int64, v lookaside.Value) (menu.Page, error) {
	stored, _, _ := p.cfg.Dictionaries.Split(v.Bytes)
	body, err := p.cfg.Dictionaries.Unpack(v.Bytes)
	if err != nil || stored != nil && menu.Tag(body) != v.Tag || !isOf(id, body) {
		page, _, err := p.menus.lookup(ctx, id, nil)
		return page, err
	}
	return menu.Page{Body: body, Tag: v.Tag, Version: v.Version}, nil
}

// isOf reports whether a menu's JSON is that of the id: whoever copied it in Redis under another key
// left it whole otherwise.
func isOf(id int64, body []byte) bool {
	var start [32]byte
	return bytes.HasPrefix(body, append(strconv.AppendInt(append(start[:0], `{"id":`...), id, 10), ','))
}

// find finds a menu as the cache has it. The errors are Lookup's.
func (p *Proxy) find(ctx context.Context, id int64) (lookaside.Value, error) {
	if p.cache == nil {
		page, _, err := p.menus.lookup(ctx, id, nil)
		return lookaside.Value{Bytes: page.Body, Tag: page.Tag, Version: page.Version}, err
	}
	v, err := p.cache.Get(ctx, Key(id))
	_, known := errors.AsType[*menu.Error](err)
	_, over := errors.AsType[*cache.OverloadError](err)
	switch {
	case over:
		return v, fmt.Errorf("%w: %w", menu.ErrOverloaded, err)
	case err != nil && !known:
		return v, fmt.Errorf("%w: %w", menu.ErrUnavailable, err)
	case err == nil && v.Absent:
		return v, menu.ErrNotFound
	}
	return v, err
}

// Availability is the JSON of a menu.Overlay, from a menu server. The error wraps
// menu.ErrNotFound if there is none.
func (p *Proxy) Availability(ctx context.Context, id int64) ([]byte, error) {
	page, _, err := p.menus.find(ctx, id, wanted{rest: "/availability", absent: codeNoAvailability})
	return page.Body, err
}

// Warm fills the cache with those of the menus that it lacks, see lookaside.Cache.Warm. Without a cache
// it does nothing.
func (p *Proxy) Warm(ctx context.Context, ids iter.Seq[int64], concurrent int, progress func(lookaside.Warmed)) (lookaside.Warmed, error) {
	if p.cache == nil {
		return lookaside.Warmed{}, nil
	}
	return p.cache.Warm(ctx, func(yield func(string) bool) {
		for id := range ids {
			if !yield(Key(id)) {
				return
			}
		}
	}, concurrent, progress)
}

// Switch turns the cache on or off, for cache.Switches; nil without one.
func (p *Proxy) Switch() func(on bool) {
	if p.cache == nil {
		return nil
	}
	return p.cache.Use
}

// Close ends the cache and closes connections to servers. Handlers must have returned.
func (p *Proxy) Close() error {
	var err error
	if p.cache != nil {
		err = p.cache.Close()
	}
	for _, group := range p.groups {
		group.close()
	}
	return err
}
