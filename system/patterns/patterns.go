// Package patterns is a service that shows six patterns for high load, each
// switched off and on by its configuration, so that an experiment can say what
// the pattern is worth, and when it is worth nothing.
//
//	refresh-ahead      movie      GET /getPopularMovies
//	do once            book       GET /getBook/{id}
//	worker pool        job        GET /handle
//	stateless scaling  job        GET /handle, by replicas of the whole service
//	sync to async      event      POST /handle
//	SQL to NoSQL       activity   POST /activities, GET /activities/{id}
//
// Each pattern is a package below this one that knows none of the others; package
// serve puts them together. The mechanisms are blocks: a pattern here only
// configures one and gives it something slow to do. This package holds what all
// patterns share, which is the form of an answer, and no data.
package patterns

import (
	"fmt"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"
)

// Answer writes a whole answer in JSON that no cache may keep.
func Answer(ctx *fasthttp.RequestCtx, status int, body []byte) {
	ctx.Response.SetStatusCode(status)
	ctx.Response.Header.SetContentType("application/json; charset=utf-8")
	ctx.Response.Header.Set("Cache-Control", "no-store")
	ctx.Response.SetBody(body)
}

// Fail writes the one form of all errors, {"error":{"code","message"}}. Both texts
// are plain ASCII, for which Go's quoting is JSON's.
func Fail(ctx *fasthttp.RequestCtx, status int, code, message string) {
	Answer(ctx, status, fmt.Appendf(nil, `{"error":{"code":%q,"message":%q}}`, code, message))
}

// Busy writes 503 with Retry-After, in whole seconds and never too early: for
// what passes by itself.
func Busy(ctx *fasthttp.RequestCtx, wait time.Duration, code, message string) {
	Fail(ctx, fasthttp.StatusServiceUnavailable, code, message)
	ctx.Response.Header.Set("Retry-After", strconv.FormatInt(Seconds(wait), 10))
}

// Seconds is a time in whole seconds, rounded up, and at least one.
func Seconds(d time.Duration) int64 { return max(int64((d+time.Second-1)/time.Second), 1) }
