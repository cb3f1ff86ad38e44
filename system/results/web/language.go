package web

import (
	"github.com/valyala/fasthttp"

	"loadstone/block/language"
)

// wanted finds the index in languageCodes for a request: ?lang= if it names
// one, else what the browser likes best of those, else the first.
func wanted(ctx *fasthttp.RequestCtx) int {
	if len(ctx.URI().QueryString()) > 0 {
		if i, ok := language.Find(string(ctx.QueryArgs().Peek("lang")), languageCodes[:]); ok {
			return i
		}
	}
	return language.Preferred(ctx.Request.Header.Peek(fasthttp.HeaderAcceptLanguage), languageCodes[:])
}
