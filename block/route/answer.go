package route

import (
	"bytes"
	"time"

	"github.com/valyala/fasthttp"
)

// Names and values of headers that do not change.
var (
	headerCacheControl = []byte(fasthttp.HeaderCacheControl)
	headerETag         = []byte("ETag")
	headerIfNoneMatch  = []byte(fasthttp.HeaderIfNoneMatch)
	headerRetryAfter   = []byte(fasthttp.HeaderRetryAfter)

	contentJSON = []byte("application/json; charset=utf-8")
	noStore     = []byte("no-store")
	bodyOK      = []byte(`{"status":"ok"}`)
)

// The addresses of probes.
const (
	// HealthPath is answered 200 while the process is alive.
	HealthPath = "/healthz"
	// ReadyPath is answered 200 while requests should be sent here, else 503.
	ReadyPath = "/readyz"
)

// JSON writes a whole answer in JSON that no cache may keep.
func JSON(ctx *fasthttp.RequestCtx, status int, body []byte) {
	ctx.Response.SetStatusCode(status)
	ctx.Response.Header.SetContentTypeBytes(contentJSON)
	ctx.Response.Header.SetCanonical(headerCacheControl, noStore)
	ctx.Response.SetBody(body) // copies
}

// SetJSON makes the body of an answer that the caller has described otherwise.
func SetJSON(ctx *fasthttp.RequestCtx, body []byte) {
	DescribeJSON(ctx)
	ctx.Response.SetBody(body) // copies
}

// DescribeJSON says that the body of an answer is JSON.
func DescribeJSON(ctx *fasthttp.RequestCtx) { ctx.Response.Header.SetContentTypeBytes(contentJSON) }

// Seconds is a time in whole seconds, at least one, rounded up: who comes back after
// that many is not too early.
func Seconds(d time.Duration) int64 { return max(int64((d+time.Second-1)/time.Second), 1) }

// Probe answers HealthPath and ReadyPath, and reports whether the path was one of them.
func (e Errors) Probe(ctx *fasthttp.RequestCtx, path []byte, ready func() bool) bool {
	if string(path) != HealthPath && string(path) != ReadyPath {
		return false
	}
	switch {
	case !ctx.IsGet() && !ctx.IsHead():
		e.NotAllowed(ctx, "GET, HEAD")
	case string(path) == ReadyPath && !ready():
		e[NotReady].Write(ctx, 0)
	default:
		JSON(ctx, fasthttp.StatusOK, bodyOK)
	}
	return true
}

// tagLen is the length of an entity tag: 16 hexadecimal digits in quotes.
const tagLen = 18

// NotModified sets the strong entity tag of a body with the given hash. It reports true,
// with status 304 set, if the client has that body already.
func NotModified(ctx *fasthttp.RequestCtx, hash uint64) bool {
	var tag [tagLen]byte
	putTag(&tag, hash)
	ctx.Response.Header.SetCanonical(headerETag, tag[:])
	return known(ctx, &tag)
}

// NotModifiedWeak is NotModified for other bytes that say the same as the body: the tag is
// weak.
func NotModifiedWeak(ctx *fasthttp.RequestCtx, hash uint64) bool {
	var tag [tagLen]byte
	putTag(&tag, hash)
	ctx.Response.Header.SetCanonical(headerETag, append([]byte("W/"), tag[:]...))
	return known(ctx, &tag)
}

func known(ctx *fasthttp.RequestCtx, tag *[tagLen]byte) bool {
	match := ctx.Request.Header.PeekBytes(headerIfNoneMatch)
	if len(match) == 0 || !matches(match, tag) {
		return false
	}
	ctx.Response.SetStatusCode(fasthttp.StatusNotModified)
	return true
}

func putTag(dst *[tagLen]byte, hash uint64) {
	const digits = "0123456789abcdef"
	dst[0], dst[tagLen-1] = '"', '"'
	for i := tagLen - 2; i > 0; i-- {
		dst[i] = digits[hash&15]
		hash >>= 4
	}
}

// matches reports whether an If-None-Match header names the tag, alone, in a
// list, weak or not (RFC 9110, 13.1.2: the comparison is weak), or is *. The tag is
// looked for with its quotes, and holds none inside, so wherever it is found it
// is a whole element of the list.
func matches(header []byte, tag *[tagLen]byte) bool {
	return bytes.Contains(header, tag[:]) || string(bytes.TrimSpace(header)) == "*"
}
