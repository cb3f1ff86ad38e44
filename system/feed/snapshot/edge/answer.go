package edge

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"

	"github.com/valyala/fasthttp"

	"loadstone/block/encode"
	"loadstone/block/route"
)

const (
	identity    = ""
	dcz         = "dcz"
	notModified = "not_modified"

	headerAvailable = "Available-Dictionary"
	headerUse       = "Use-As-Dictionary"
	// HeaderVersion says of which version an answer is whose address does not.
	HeaderVersion = "Snapshot-Version"
)

// Codes of errors beside those of package route.
const (
	// NotAcceptable is for who accepts no coding that there is, not even none. A route.Table has it as status 406.
	NotAcceptable route.Code = "not_acceptable"
	// Unavailable is for all while there is no version, or none that is fresh enough. A route.Table has it as status 503.
	Unavailable route.Code = "unavailable"
)

// Handle answers GET and HEAD of one address: it is the route.Handler of all below Config.Path. Its errors have the codes
// Unavailable, route.NoSuchPath and NotAcceptable.
func (e *Edge) Handle(ctx *fasthttp.RequestCtx) error {
	s := e.current()
	if s == nil {
		return &route.Error{Code: Unavailable}
	}
	r, found := s.resources[string(ctx.URI().PathOriginal())]
	if !found {
		return &route.Error{Code: route.NoSuchPath}
	}
	form, body, ok := r.choose(ctx)
	if !ok {
		return &route.Error{Code: NotAcceptable}
	}
	h := &ctx.Response.Header
	h.Set(fasthttp.HeaderCacheControl, r.caching)
	h.Set(fasthttp.HeaderVary, r.varies())
	if r.version != "" {
		h.Set(HeaderVersion, r.version)
	}
	tag := `"` + r.tag + `"`
	if form != identity {
		tag = `"` + r.tag + "-" + form + `"`
	}
	if form == dcz { // the same version made from another one is other bytes
		tag = `"` + r.tag + "-" + form + "-" + strings.Trim(string(ctx.Request.Header.Peek(headerAvailable)), ": ") + `"`
	}
	h.Set(fasthttp.HeaderETag, tag)
	if named(ctx.Request.Header.Peek(fasthttp.HeaderIfNoneMatch), tag) {
		e.metrics.answers.WithLabelValues(notModified).Inc()
		ctx.Response.SetStatusCode(fasthttp.StatusNotModified)
		return nil
	}
	if form != identity {
		h.Set(fasthttp.HeaderContentEncoding, form)
	}
	if r.matches != "" {
		h.Set(headerUse, r.matches)
	}
	h.SetContentType(r.kind)
	h.Set(fasthttp.HeaderAcceptRanges, "bytes")
	ctx.Response.SetBodyRaw(part(ctx, body, tag))
	e.metrics.answers.WithLabelValues(cmp.Or(form, "identity")).Inc()
	return nil
}

func (r resource) varies() string {
	if r.matches != "" || len(r.deltas) > 0 {
		return fasthttp.HeaderAcceptEncoding + ", " + headerAvailable
	}
	return fasthttp.HeaderAcceptEncoding
}

// choose is the form that a client gets: a delta if it has the dictionary, else the coding that it prefers, but for a
// text that does not become smaller.
func (r resource) choose(ctx *fasthttp.RequestCtx) (form string, body []byte, ok bool) {
	accept := ctx.Request.Header.Peek(fasthttp.HeaderAcceptEncoding)
	if available := ctx.Request.Header.Peek(headerAvailable); len(r.deltas) > 0 && len(available) > 0 {
		if delta := r.deltas[string(bytes.TrimSpace(available))]; delta != nil {
			if form, _ := encode.Negotiate(accept, []string{dcz}); form == dcz {
				return dcz, delta, true
			}
		}
	}
	form, ok = encode.Negotiate(accept, names)
	if !ok {
		return "", nil, false
	}
	body = r.in(form)
	if len(body) >= len(r.body) {
		if _, ok := encode.Negotiate(accept, nil); ok {
			return identity, r.body, true
		}
	}
	return form, body, true
}

// named reports whether an If-None-Match names the tag (RFC 9110, 13.1.2: the comparison is weak), or is *.
func named(header []byte, tag string) bool {
	return bytes.Contains(header, []byte(tag)) || string(bytes.TrimSpace(header)) == "*"
}

// part is what of the body is to be sent: all of it, or what a Range of one part asks for (RFC 9110, 14.2).
func part(ctx *fasthttp.RequestCtx, body []byte, tag string) []byte {
	asked := ctx.Request.Header.Peek(fasthttp.HeaderRange)
	if !ctx.IsGet() || !bytes.HasPrefix(asked, []byte("bytes=")) || bytes.IndexByte(asked, ',') >= 0 {
		return body
	}
	if same := ctx.Request.Header.Peek(fasthttp.HeaderIfRange); len(same) > 0 && string(same) != tag {
		return body
	}
	from, to, err := fasthttp.ParseByteRange(asked, len(body))
	if err != nil || from > to { // of bytes=-0
		h := &ctx.Response.Header
		for _, name := range []string{fasthttp.HeaderContentEncoding, fasthttp.HeaderETag, fasthttp.HeaderVary, headerUse, HeaderVersion} {
			h.Del(name) // they are of the text
		}
		h.Set(fasthttp.HeaderCacheControl, "no-store")
		h.Set(fasthttp.HeaderContentRange, fmt.Sprintf("bytes */%d", len(body)))
		ctx.Response.SetStatusCode(fasthttp.StatusRequestedRangeNotSatisfiable)
		return nil
	}
	ctx.Response.SetStatusCode(fasthttp.StatusPartialContent)
	ctx.Response.Header.SetContentRange(from, to, len(body))
	return body[from : to+1]
}
