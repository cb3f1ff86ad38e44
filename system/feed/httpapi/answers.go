package httpapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"time"

	"loadstone/block/route"
	"loadstone/system/feed"
)

// Codes of this interface beside those of feed's errors and of package route.
const (
	codeLimit      route.Code = "bad_limit"
	codePosts      route.Code = "bad_posts"
	codeSeen       route.Code = "bad_seen"
	codeStream     route.Code = "bad_stream"
	codeBundleFull route.Code = "bundle_full"

	codeNotAcceptable route.Code = "not_acceptable"
)

// soon is when to try again after something failed that passes: soon enough for a store that
// is being replaced, and slow enough not to add load to one in trouble.
const soon = time.Second

// of is an error's code in the table.
func of(e *feed.Error) route.Code { return route.Code(e.Code) }

// answers is how each code is answered. Of a store that failed the client does not learn
// how: the text may name files or queries.
var answers = route.Table{
	route.Internal:           {Status: http.StatusInternalServerError, Text: "the server made a mistake"},
	route.NoSuchPath:         {Status: http.StatusNotFound, Text: "there is nothing at this path; posts are at /feed"},
	route.MethodNotAllowed:   {Status: http.StatusMethodNotAllowed, Text: "this path has other methods, which Allow lists"},
	route.NotReady:           {Status: http.StatusServiceUnavailable, Code: "draining", Text: "the server is stopping"},
	route.TooManyConnections: {Status: http.StatusServiceUnavailable, Text: "too many connections are open; connect again after as many seconds as Retry-After says", RetryAfter: soon},
	route.BadRequest:         {Status: http.StatusBadRequest, Text: "this is not a valid HTTP request"},
	route.RequestTimeout:     {Status: http.StatusRequestTimeout, Text: "the request took too long to arrive"},
	route.BodyTooLarge:       {Status: http.StatusRequestEntityTooLarge, Text: "the request has a body: send none, for nothing here takes one"},
	route.HeadersTooLarge:    {Status: http.StatusRequestHeaderFieldsTooLarge, Text: "the request's line and headers are too large"},

	codeLimit:         {Status: http.StatusBadRequest, Text: fmt.Sprintf("limit is not a number from 1 to %d: write one, as in /feed?limit=10", MaxPage)},
	codePosts:         {Status: http.StatusBadRequest, Text: fmt.Sprintf("write the ids of 1 to %d posts, each once, as in /bundle?posts=1,2,3", MaxBundle)},
	codeSeen:          {Status: http.StatusBadRequest, Text: "seen is not a time: write the published of the newest post that was seen, as in /notices?seen=1704067200000"},
	codeStream:        {Status: http.StatusBadRequest, Text: "stream is not jsonl: write stream=jsonl for a line for each part, or leave it out"},
	codeNotAcceptable: {Status: http.StatusNotAcceptable, Text: "Accept-Encoding refuses everything that there is: leave identity;q=0 out, or take zstd, br or gzip, in which no stream comes"},
	codeBundleFull:    {Status: http.StatusRequestEntityTooLarge, Text: "the bundle is full: ask for this part by itself"},

	of(feed.ErrNotFound):    {Status: http.StatusNotFound, Text: feed.ErrNotFound.Message},
	of(feed.ErrCursor):      {Status: http.StatusBadRequest, Text: feed.ErrCursor.Message},
	of(feed.ErrExpired):     {Status: http.StatusBadRequest, Text: feed.ErrExpired.Message},
	of(feed.ErrOverloaded):  {Status: http.StatusServiceUnavailable, Text: "too much is under way and nothing was tried; try again after as many seconds as Retry-After says", RetryAfter: soon},
	of(feed.ErrUnavailable): {Status: http.StatusServiceUnavailable, Text: "posts cannot be read now; try again after as many seconds as Retry-After says", RetryAfter: soon},
}

// Answers is how each code is answered, for what is served beside this interface: a system has one table.
func Answers() route.Table { return maps.Clone(answers) }

// failed is the answer to what could not be read, and counts it if the store is to blame.
func (a *API) failed(err error) error {
	code := route.Internal
	if e, ok := errors.AsType[*feed.Error](err); ok && answers[of(e)].Status != 0 {
		code = of(e)
	} else if errors.Is(err, context.DeadlineExceeded) {
		code = of(feed.ErrUnavailable)
	}
	if answers[code].Status >= http.StatusInternalServerError && code != of(feed.ErrOverloaded) {
		a.metrics.storeFailures.Inc()
		a.failures.Log("error", err)
	}
	return &route.Error{Code: code, Err: err}
}
