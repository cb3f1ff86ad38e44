package httpapi

import (
	"net/http"
	"time"

	"github.com/valyala/fasthttp"

	"loadstone/block/route"
	"loadstone/system/results"
)

// Header names, and values that do not change. Requests' names are in the form
// that fasthttp brings them into.
var (
	headerCacheControl = []byte("Cache-Control")
	headerAccessCode   = []byte("X-Access-Code")
	headerForwarded    = "X-Forwarded-For"

	headerForwardedProto = "X-Forwarded-Proto"
	https                = []byte("https")
)

// allowed are the methods that all paths have.
const allowed = "GET, HEAD"

// soon is when to try again after a store failed. It does while it is being replaced
// or its disk is in trouble: soon enough for the first, and slow enough not to add
// load to the second.
const soon = time.Second

// code is an error's in the table.
func code(e *results.Error) route.Code { return route.Code(e.Code) }

// answers is how each code is answered, that of the system's errors and of requests
// that go wrong. Of a store that failed the client does not learn how: the text may name
// files or queries.
var answers = route.Prepare(route.Table{
	route.Internal:           {Status: http.StatusInternalServerError, Text: "the server made a mistake"},
	route.NoSuchPath:         {Status: http.StatusNotFound, Text: "there is nothing at this path; results are at /student/{id}"},
	route.MethodNotAllowed:   {Status: http.StatusMethodNotAllowed, Text: "use GET or HEAD"},
	route.NotReady:           {Status: http.StatusServiceUnavailable, Code: "draining", Text: "the server is stopping"},
	route.TooManyConnections: {Status: http.StatusServiceUnavailable, Text: "too many connections are open; connect again after as many seconds as Retry-After says", RetryAfter: soon},
	route.BadRequest:         {Status: http.StatusBadRequest, Text: "this is not a valid HTTP request"},
	route.RequestTimeout:     {Status: http.StatusRequestTimeout, Text: "the request took too long to arrive"},
	route.BodyTooLarge:       {Status: http.StatusRequestEntityTooLarge, Text: "a request needs no body"},
	route.HeadersTooLarge:    {Status: http.StatusRequestHeaderFieldsTooLarge, Text: "the request's line and headers are too large"},

	code(results.ErrMalformedID): {Status: http.StatusBadRequest, Text: results.ErrMalformedID.Message},
	code(results.ErrNotFound):    {Status: http.StatusNotFound, Text: results.ErrNotFound.Message},
	code(results.ErrEmbargoed):   {Status: http.StatusForbidden}, // its text says when it ends
	code(results.ErrRateLimited): {Status: http.StatusTooManyRequests, Text: "too many requests come from this address; wait as many seconds as Retry-After says"},
	code(results.ErrLockedOut):   {Status: http.StatusTooManyRequests, Text: "too many wrong access codes for this id; wait as many seconds as Retry-After says"},
	code(results.ErrOverloaded):  {Status: http.StatusServiceUnavailable, Code: code(results.ErrUnavailable), Text: unavailable, RetryAfter: soon},
	code(results.ErrUnavailable): {Status: http.StatusServiceUnavailable, Text: unavailable, RetryAfter: soon},
})

const unavailable = "results cannot be looked up now; try again in a moment"

// prepareFailures makes the answers to decisions that show nothing.
func (a *API) prepareFailures() {
	a.byError = make(map[*results.Error]*route.Failure)
	for _, e := range []*results.Error{
		results.ErrNotFound, results.ErrEmbargoed, results.ErrRateLimited, results.ErrLockedOut, results.ErrOverloaded, results.ErrUnavailable,
	} {
		a.byError[e] = answers[code(e)]
	}
	if a.locked {
		a.byError[results.ErrNotFound] = route.Answer{
			Status: http.StatusNotFound, Code: code(results.ErrNotFound), Text: "no student has this id and access code",
		}.Prepare()
	}
}

// refuse answers with a decision that shows nothing.
func (a *API) refuse(ctx *fasthttp.RequestCtx, d *results.Decision) {
	if failure := a.byError[d.Err]; d.Err == results.ErrEmbargoed {
		failure.WithBody(embargoBody(d.PublishAt)).Write(ctx, d.RetryAfter)
	} else {
		failure.Write(ctx, d.RetryAfter)
	}
}

// embargoBody tells programs when results come out.
func embargoBody(at time.Time) []byte {
	text := at.UTC().Format(time.RFC3339Nano)
	return []byte(`{"error":{"code":"` + results.ErrEmbargoed.Code +
		`","message":"results are published at ` + text + `","publish_at":"` + text + `"}}`)
}
