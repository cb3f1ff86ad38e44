package httpapi

import (
	"bytes"
	"fmt"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"
)

// Header names, and values that do not change. Requests' names are in the form
// that fasthttp brings them into.
var (
	headerETag         = []byte("ETag")
	headerCacheControl = []byte("Cache-Control")
	headerIfNoneMatch  = []byte("If-None-Match")
	headerAccessCode   = []byte("X-Access-Code")
	headerAllow        = []byte("Allow")
	headerRetryAfter   = []byte("Retry-After")
	headerForwarded    = "X-Forwarded-For"

	headerForwardedProto = "X-Forwarded-Proto"
	https                = []byte("https")

	contentJSON = []byte("application/json; charset=utf-8")
	noStore     = []byte("no-store")
	allowed     = []byte("GET, HEAD")
)

// retryAfter is for a store that failed. It does while it is being replaced or
// its disk is in trouble: soon enough for the first, and slow enough not to add
// load to the second.
const retryAfter = time.Second

var (
	bodyOK          = []byte(`{"status":"ok"}`)
	bodyNoPath      = errorBody("no_such_path", "there is nothing at this path; results are at /student/{id}")
	bodyMethod      = errorBody("method_not_allowed", "use GET or HEAD")
	bodyUnavailable = errorBody("unavailable", "results cannot be looked up now; try again in a moment")
	bodyInternal    = errorBody("internal", "the server made a mistake")
	bodyDraining    = errorBody("draining", "the server is stopping")
	bodyBadRequest  = errorBody("bad_request", "this is not a valid HTTP request")
	bodyTooSlow     = errorBody("request_timeout", "the request took too long to arrive")
	bodyTooLarge    = errorBody("body_too_large", "a request needs no body")
	bodyRateLimited = errorBody(reasonNames[rateLimited], "too many requests come from this address; wait as many seconds as Retry-After says")
	bodyLockedOut   = errorBody(reasonNames[lockedOut], "too many wrong access codes for this id; wait as many seconds as Retry-After says")
	bodyCrowded     = errorBody("too_many_connections", "too many connections are open; connect again after as many seconds as Retry-After says")
	bodyHeaders     = errorBody("headers_too_large", "the request's line and headers are too large")
)

// errorBody is the one form of all errors. Both texts are ours: plain ASCII, for
// which Go's quoting is JSON's.
func errorBody(code, message string) []byte {
	return fmt.Appendf(nil, `{"error":{"code":%q,"message":%q}}`, code, message)
}

// unreadable is the body for a status that httpserver gives to a request that
// it could not read.
func unreadable(status int) []byte {
	switch status {
	case fasthttp.StatusServiceUnavailable:
		return bodyCrowded
	case fasthttp.StatusRequestTimeout:
		return bodyTooSlow
	case fasthttp.StatusRequestEntityTooLarge:
		return bodyTooLarge
	case fasthttp.StatusRequestHeaderFieldsTooLarge:
		return bodyHeaders
	default:
		return bodyBadRequest
	}
}

// answer writes a whole answer that caches must not keep.
func answer(ctx *fasthttp.RequestCtx, status int, body []byte) {
	ctx.Response.SetStatusCode(status)
	ctx.Response.Header.SetContentTypeBytes(contentJSON)
	ctx.Response.Header.SetCanonical(headerCacheControl, noStore)
	ctx.Response.SetBody(body)
}

// fail is answer for errors. All errors go through it, so that two of them with
// the same status and body cannot differ in a header.
func fail(ctx *fasthttp.RequestCtx, status int, body []byte) { answer(ctx, status, body) }

// failFor is fail for errors that pass by themselves.
func failFor(ctx *fasthttp.RequestCtx, status int, body []byte, wait time.Duration) {
	fail(ctx, status, body)
	var digits [20]byte
	ctx.Response.Header.SetCanonical(headerRetryAfter, strconv.AppendInt(digits[:0], seconds(wait), 10))
}

// seconds rounds up: who comes back after that many is not too early.
func seconds(wait time.Duration) int64 { return max(int64((wait+time.Second-1)/time.Second), 1) }

func notAllowed(ctx *fasthttp.RequestCtx) {
	fail(ctx, fasthttp.StatusMethodNotAllowed, bodyMethod)
	ctx.Response.Header.SetCanonical(headerAllow, allowed)
}

// tagLen is the length of an entity tag: 16 hexadecimal digits in quotes.
const tagLen = 18

// putTag writes the strong entity tag for a page's hash.
func putTag(dst *[tagLen]byte, tag uint64) {
	const digits = "0123456789abcdef"
	dst[0], dst[tagLen-1] = '"', '"'
	for i := tagLen - 2; i > 0; i-- {
		dst[i] = digits[tag&15]
		tag >>= 4
	}
}

// matches reports whether an If-None-Match header names the tag, alone, in a
// list, weak or not (RFC 9110, 13.1.2: the comparison is weak), or is *. The tag is
// looked for with its quotes, and holds none inside, so wherever it is found it
// is a whole element of the list.
func matches(header []byte, tag *[tagLen]byte) bool {
	return bytes.Contains(header, tag[:]) || string(bytes.TrimSpace(header)) == "*"
}
