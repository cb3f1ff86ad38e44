// Package web is the page on which guests see a restaurant's menu:
//
//	GET, HEAD /restaurants/{id}
//
// It asks a function for menus and reads no store: menu servers and proxies show the same
// page. A page is plain HTML with its style inside: one answer, no script, nothing else to
// load but the photos of dishes, which come from where their addresses say, without telling
// that place who asks for which menu. Prices are written in the manner of the visitor's language, see Accept-Language.
package web

import (
	"bytes"
	"context"
	_ "embed" // for the template and the style sheet
	"encoding/binary"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"loadstone/block/dataset"
	"loadstone/block/language"
	"loadstone/block/route"
	"loadstone/system/menu"
)

// Path is where pages are: a restaurant's is at Path/{id}.
const Path = "/restaurants"

// lookupTimeout bounds what a page waits for its menu: a guest would wait for longer, but
// pages that wait fill the server.
const lookupTimeout = 2 * time.Second

//go:embed page.gohtml
var pageSource string

//go:embed page.css
var pageStyle string

// Config is what a Site needs.
type Config struct {
	// Lookup finds a menu as menu.Store does. It must be safe for concurrent use.
	Lookup func(ctx context.Context, id int64) (menu.Page, error)
	// Overlay finds a menu's availability: nil if there is none, or none is known. It must not take
	// long, and be safe for concurrent use. Nil if there is none of any menu.
	Overlay func(ctx context.Context, id int64) *menu.Overlay
	// Logger is told about menus that could not be shown, at most one in ten seconds.
	Logger *slog.Logger
}

// Site answers with pages. It is safe for concurrent use.
type Site struct {
	cfg      Config
	layout   *template.Template
	style    template.CSS
	policy   string // Content-Security-Policy, with %s for where pictures may come from
	revision uint64 // of template and style, for tags
	failures *route.ErrorLog
}

// New reads the template.
func New(cfg Config) (*Site, error) {
	if cfg.Lookup == nil || cfg.Logger == nil {
		return nil, errors.New("web: the function Lookup or the logger is missing")
	}
	layout, err := template.New("page").Parse(pageSource)
	if err != nil {
		return nil, fmt.Errorf("read the page's template: %w", err)
	}
	style := strings.TrimSpace(pageStyle)
	return &Site{
		cfg: cfg, layout: layout, style: template.CSS(style), //nolint:gosec // our own file
		policy: "default-src 'none'; style-src " + route.Source(style) +
			"; img-src data:%s; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
		revision: menu.Tag([]byte(pageSource + style)),
		failures: route.NewErrorLog(cfg.Logger.With("component", "web"), "a menu could not be shown"),
	}, nil
}

// view is what the template is given.
type view struct {
	Style template.CSS
	Title string
	// Problem is shown where there is no menu.
	Problem  string
	Link     string
	Sections []section
	// Photos says that dishes have some.
	Photos bool
	// Banner stands above a menu that is not for guests yet, and leads to Back.
	Banner, Back string
}

// section is a dish type with its sub-types.
type section struct {
	Name  string
	Parts []part
	// Hours are those of a section that is not served now.
	Hours []string
}

type part struct {
	Name   string
	Dishes []line
}

// line is one dish.
type line struct {
	Name, Ingredients, Price, Photo string
	SoldOut                         bool
}

// Handle answers GET and HEAD of what is below Path, for route.Routes. It always returns nil:
// guests see problems as pages.
func (s *Site) Handle(ctx *fasthttp.RequestCtx) error {
	id, ok := dataset.ParseID(bytes.TrimPrefix(ctx.URI().PathOriginal(), []byte(Path+"/")))
	if !ok {
		s.problem(ctx, http.StatusNotFound, "There is no such restaurant: the number in the address is not one that a restaurant can have.")
		return nil
	}
	within, cancel := context.WithTimeout(context.Background(), lookupTimeout)
	defer cancel()
	page, err := s.cfg.Lookup(within, id)
	switch {
	case err == nil:
		defer runtime.KeepAlive(page.Owner)
		var o *menu.Overlay
		if s.cfg.Overlay != nil {
			o = s.cfg.Overlay(within, id)
		}
		s.show(ctx, id, &page, o)
	case errors.Is(err, menu.ErrNotFound):
		s.problem(ctx, http.StatusNotFound, "This restaurant has no menu here.")
	default:
		if !errors.Is(err, menu.ErrOverloaded) { // which says nothing new
			s.failures.Log("menu", id, "error", err)
		}
		s.problem(ctx, http.StatusServiceUnavailable, "Menus cannot be shown now. Please try again in a moment.")
		ctx.Response.Header.Set(fasthttp.HeaderRetryAfter, "1")
	}
	return nil
}

// show answers with a menu, or that the browser has it: the tag is that of the menu, the
// language, the page's own revision and what is served now, so that nothing is made to find
// that out.
func (s *Site) show(ctx *fasthttp.RequestCtx, id int64, page *menu.Page, o *menu.Overlay) {
	words := preferred(ctx)
	tag := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64([]byte(words.language), page.Tag), s.revision)
	now := o.At(time.Now())
	if o != nil {
		tag = binary.BigEndian.AppendUint64(tag, now.Tag)
	}
	known := route.NotModified(ctx, menu.Tag(tag))
	ctx.Response.Header.Set(fasthttp.HeaderCacheControl, "public, no-cache")
	ctx.Response.Header.Set(fasthttp.HeaderVary, fasthttp.HeaderAcceptLanguage)
	if known {
		return
	}
	m, err := menu.ParseJSON(page.Body)
	if err != nil {
		s.failures.Log("menu", id, "error", err)
		s.problem(ctx, http.StatusInternalServerError, "This menu cannot be read.")
		return
	}
	v := viewOf(&m, words)
	if o != nil {
		mark(v.Sections, o, now)
	}
	s.write(ctx, v)
}

// Preview answers with a menu that is not published, under a banner that leads to the path back.
func (s *Site) Preview(ctx *fasthttp.RequestCtx, m *menu.Menu, banner, back string) {
	v := viewOf(m, preferred(ctx))
	v.Banner, v.Back = banner, back
	ctx.Response.Header.Set(fasthttp.HeaderCacheControl, "no-store")
	s.write(ctx, v)
}

func viewOf(m *menu.Menu, words locale) view {
	photos := slices.ContainsFunc(m.Dishes, func(d menu.Dish) bool { return d.Photo != "" })
	return view{Title: fmt.Sprintf("Menu of restaurant %d", m.ID), Link: m.Link, Sections: sections(m, words), Photos: photos}
}

// preferred is the visitor's language among those that are known.
func preferred(ctx *fasthttp.RequestCtx) locale {
	return locales[language.Preferred(ctx.Request.Header.Peek(fasthttp.HeaderAcceptLanguage), languages)]
}

func (s *Site) problem(ctx *fasthttp.RequestCtx, status int, text string) {
	ctx.Response.Reset() // there may be the tag of a menu that cannot be read
	ctx.Response.SetStatusCode(status)
	ctx.Response.Header.Set(fasthttp.HeaderCacheControl, "no-store")
	s.write(ctx, view{Title: "No menu", Problem: text})
}

func (s *Site) write(ctx *fasthttp.RequestCtx, v view) {
	v.Style = s.style
	ctx.SetContentType("text/html; charset=utf-8")
	// Hosts are not named: what stands in a menu must not get into a header, nor must 500 hosts.
	pictures := ""
	if v.Photos {
		pictures = " https:"
	}
	route.Confine(ctx, fmt.Sprintf(s.policy, pictures))
	if err := s.layout.Execute(ctx.Response.BodyWriter(), v); err != nil {
		panic(err) // the template does not fit its view: a mistake of ours
	}
}

// sections sorts dishes by type and sub-type, in the order in which each first comes.
func sections(m *menu.Menu, words locale) (all []section) {
	type place struct{ typ, sub string }
	sectionOf := map[string]int{}
	partOf := map[place]int{}
	for i := range m.Dishes {
		d := &m.Dishes[i]
		at, ok := sectionOf[d.Type]
		if !ok {
			at = len(all)
			sectionOf[d.Type] = at
			all = append(all, section{Name: d.Type})
		}
		parts := &all[at].Parts
		in, ok := partOf[place{d.Type, d.SubType}]
		if !ok {
			in = len(*parts)
			partOf[place{d.Type, d.SubType}] = in
			*parts = append(*parts, part{Name: d.SubType})
		}
		(*parts)[in].Dishes = append((*parts)[in].Dishes, line{
			Name: d.Name, Ingredients: strings.Join(d.Ingredients, ", "), Price: words.price(d.Price, m.Currency), Photo: d.Photo,
		})
	}
	return all
}

// mark says of sections and dishes that they are not to be had now.
func mark(all []section, o *menu.Overlay, now *menu.Now) {
	for i := range all {
		if !now.Serves(all[i].Name) {
			for _, d := range o.Hours(all[i].Name) {
				all[i].Hours = append(all[i].Hours, d.String())
			}
		}
		for _, p := range all[i].Parts {
			for j := range p.Dishes {
				p.Dishes[j].SoldOut = now.SoldOut(p.Dishes[j].Name)
			}
		}
	}
}
