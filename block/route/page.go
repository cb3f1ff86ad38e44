package route

import (
	"crypto/sha256"
	"encoding/base64"

	"github.com/valyala/fasthttp"
)

// Source is how a Content-Security-Policy allows one text as a style or a script, and no other.
func Source[T ~string | ~[]byte](text T) string {
	hash := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(hash[:]) + "'"
}

// Confine gives a page its Content-Security-Policy, has no browser guess what it is, and no other
// place learn its address.
func Confine(ctx *fasthttp.RequestCtx, policy string) {
	header := &ctx.Response.Header
	header.Set(fasthttp.HeaderContentSecurityPolicy, policy)
	header.Set(fasthttp.HeaderXContentTypeOptions, "nosniff")
	header.Set(fasthttp.HeaderReferrerPolicy, "no-referrer")
}
