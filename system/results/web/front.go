package web

import (
	"runtime"
	"strconv"

	"github.com/valyala/fasthttp"

	"loadstone/block/route"
	"loadstone/system/results"
)

// front answers for the first page and the form on it.
func (s *Site) front(ctx *fasthttp.RequestCtx, e *edition) {
	switch {
	case ctx.IsPost():
		s.posted(ctx, e)
	case ctx.IsGet() || ctx.IsHead():
		if p := s.cfg.Publication(); !p.Out && !p.At.IsZero() {
			s.embargo(ctx, e, p.At, p.Left)
			ctx.Response.SetStatusCode(fasthttp.StatusOK) // nothing was refused yet
			return
		}
		s.show(ctx, e, pageForm, &values{})
		// The form is the same for everybody who reads its language. Not for
		// long: it must not be seen in place of a later embargo.
		ctx.Response.Header.Set(fasthttp.HeaderCacheControl, "public, max-age=60")
	default:
		s.notAllowed(ctx, e, "GET, HEAD, POST")
	}
}

// posted answers a filled form.
func (s *Site) posted(ctx *fasthttp.RequestCtx, e *edition) {
	// Whoever fills in the form has not come to wait for what was in it before.
	s.forget(ctx)
	in, p := readForm(ctx)
	if p == pageUnreadable {
		s.show(ctx, e, p, &values{})
		ctx.Response.SetStatusCode(in.status)
		return
	}
	if p != pageForm {
		s.show(ctx, e, p, &values{holeID: in.idText})
		return
	}
	s.answer(ctx, e, &in)
}

// answer looks up what was asked for, in a form or by a browser that waited.
func (s *Site) answer(ctx *fasthttp.RequestCtx, e *edition, in *input) {
	d := s.cfg.Lookup(ctx, in.id, in.code)
	switch d.Err {
	case nil:
		s.result(ctx, e, in, &d.Page)
		// Body may lie in memory that goes when the page does.
		runtime.KeepAlive(d.Page.Owner)
	case results.ErrNotFound:
		s.show(ctx, e, pageUnknown, &values{holeID: strconv.FormatInt(in.id, 10)})
	case results.ErrEmbargoed:
		s.embargo(ctx, e, d.PublishAt, d.RetryAfter)
	case results.ErrOverloaded:
		s.later(ctx, e, in, d.RetryAfter, pageBusy)
	case results.ErrRateLimited, results.ErrLockedOut:
		s.later(ctx, e, in, d.RetryAfter, pageLimited)
	default:
		s.show(ctx, e, pageDown, &values{})
	}
}

// result shows a student's page.
func (s *Site) result(ctx *fasthttp.RequestCtx, e *edition, in *input, page *results.Page) {
	r, err := readResult(page.Body)
	if err != nil {
		// A store that holds something else is broken. The text may hold a
		// student's data, so only its number is told.
		s.metrics.damaged.Inc()
		s.show(ctx, e, pageDown, &values{})
		return
	}
	var v values
	r.fill(&v, &e.phrases)
	s.show(ctx, e, resultPage(r.stream, r.Passed, in.save), &v)
	if in.save {
		ctx.Response.Header.Set(fasthttp.HeaderContentDisposition,
			`attachment; filename="result-`+strconv.FormatInt(in.id, 10)+`.html"`)
	}
}

// show writes a page and what all pages have in common. Nobody may keep it.
func (s *Site) show(ctx *fasthttp.RequestCtx, e *edition, p page, v *values) {
	s.metrics.pages[p].Inc()
	ctx.Response.SetStatusCode(designs[p].status)
	h := &ctx.Response.Header
	h.SetContentType("text/html; charset=utf-8")
	h.Set(fasthttp.HeaderContentLanguage, e.code)
	h.Set(fasthttp.HeaderVary, "Accept-Language")
	h.Set(fasthttp.HeaderCacheControl, "no-store")
	route.Confine(ctx, s.policy)
	h.Set(fasthttp.HeaderXFrameOptions, "DENY") // for browsers before frame-ancestors
	if p == pageDown {
		h.Set(fasthttp.HeaderRetryAfter, s.downRetry())
	}
	e.sheets[p].write(&ctx.Response, v)
}

func (s *Site) notAllowed(ctx *fasthttp.RequestCtx, e *edition, methods string) {
	s.show(ctx, e, pageMethod, &values{})
	ctx.Response.Header.Set(fasthttp.HeaderAllow, methods)
}
