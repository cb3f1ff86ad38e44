// Package web is the page on which people read the feed in a browser:
//
//	GET, HEAD /app?cursor=
//
// It is plain HTML with its style inside: one answer, no script, nothing else to load.
// Pictures and films are links, so that reading tells no other place who reads.
package web

import (
	"bytes"
	"context"
	_ "embed" // for the template and the style sheet
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"time"

	"github.com/valyala/fasthttp"

	"loadstone/block/route"
	"loadstone/system/feed"
)

// Path is where the page is.
const Path = "/app"

// Shown is how many posts are on a page.
const Shown = 10

// readTimeout bounds what a page waits for its posts: somebody would wait for longer, but
// pages that wait fill the server.
const readTimeout = 2 * time.Second

//go:embed page.gohtml
var pageSource string

//go:embed page.css
var pageStyle []byte

// Config is what a Site needs. Both fields are required.
type Config struct {
	Reader *feed.Reader
	// Logger is told about pages that could not be shown, at most one in ten seconds.
	Logger *slog.Logger
}

// Site answers with the page. It is safe for concurrent use.
type Site struct {
	cfg      Config
	layout   *template.Template
	style    template.CSS
	policy   string // Content-Security-Policy
	failures *route.ErrorLog
}

// New reads the template.
func New(cfg Config) (*Site, error) {
	if cfg.Reader == nil || cfg.Logger == nil {
		return nil, errors.New("web: the reader or the logger is missing")
	}
	layout, err := template.New("page").Parse(pageSource)
	if err != nil {
		return nil, fmt.Errorf("read the page's template: %w", err)
	}
	style := bytes.TrimSpace(pageStyle)
	return &Site{
		cfg: cfg, layout: layout, style: template.CSS(style), //nolint:gosec // our own file
		policy: "default-src 'none'; style-src " + route.Source(style) +
			"; img-src data:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
		failures: route.NewErrorLog(cfg.Logger.With("component", "web"), "the feed could not be shown"),
	}, nil
}

// view is what the template is given.
type view struct {
	Style template.CSS
	// Problem is shown where there are no posts.
	Problem string
	Pinned  []feed.Notice
	Items   []item
	Next    string
	First   bool
}

// item is a post with its details; those that cannot be read now are nil.
type item struct {
	feed.Post
	Author    *feed.Author
	Media     []feed.Medium
	Responses *feed.Responses
}

// Time is when a post was published, for people.
func (i item) Time() string {
	return time.UnixMilli(i.Published).UTC().Format("2 January 2006, 15:04 UTC")
}

// Handle answers GET and HEAD, for route.Routes. It always returns nil: people see problems
// as pages.
func (s *Site) Handle(ctx *fasthttp.RequestCtx) error {
	within, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	v, err := s.view(within, ctx.QueryArgs().Peek("cursor"))
	switch {
	case err == nil:
	case errors.Is(err, feed.ErrCursor) || errors.Is(err, feed.ErrExpired):
		ctx.Response.SetStatusCode(http.StatusBadRequest)
		v = view{Problem: "This address of a page is too old, or not one of ours."}
	default:
		if !errors.Is(err, feed.ErrOverloaded) { // which says nothing new
			s.failures.Log("error", err)
		}
		ctx.Response.SetStatusCode(http.StatusServiceUnavailable)
		ctx.Response.Header.Set(fasthttp.HeaderRetryAfter, "1")
		v = view{Problem: "The feed cannot be shown now. Please try again in a moment."}
	}
	s.write(ctx, v)
	return nil
}

// view reads the page at a cursor. It needs the list; without some of the rest it still is
// a page.
func (s *Site) view(ctx context.Context, cursor []byte) (view, error) {
	reader := s.cfg.Reader.View(ctx)
	page, err := reader.Page(ctx, cursor, Shown)
	if err != nil {
		return view{}, err
	}
	v := view{Items: make([]item, len(page.Posts)), Next: page.Next, First: len(cursor) == 0}
	ids := make([]int64, len(page.Posts))
	for i := range page.Posts {
		v.Items[i].Post, ids[i] = page.Posts[i], page.Posts[i].ID
	}
	for _, part := range feed.Parts() {
		for i, found := range reader.Details(ctx, part, ids) {
			switch d := found.Detail.(type) {
			case *feed.Media:
				v.Items[i].Media = d.Media
			case *feed.Profile:
				v.Items[i].Author = &d.Author
			case *feed.Responses:
				v.Items[i].Responses = d
			}
		}
	}
	if v.First {
		if n, err := reader.Notices(ctx, 0); err == nil {
			v.Pinned = n.Pinned
		}
	}
	return v, nil
}

func (s *Site) write(ctx *fasthttp.RequestCtx, v view) {
	v.Style = s.style
	header := &ctx.Response.Header
	header.SetContentType("text/html; charset=utf-8")
	header.Set(fasthttp.HeaderCacheControl, "no-store")
	route.Confine(ctx, s.policy)
	if err := s.layout.Execute(ctx.Response.BodyWriter(), v); err != nil {
		panic(err) // the template does not fit its view: a mistake of ours
	}
}
