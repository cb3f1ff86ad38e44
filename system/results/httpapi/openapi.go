package httpapi

import (
	_ "embed"

	"github.com/valyala/fasthttp"

	"loadstone/block/route"
)

const documentPath = "/openapi.json"

// openAPI describes what this package answers. It is written by hand, and tests
// compare every answer that they see with it.
//
//go:embed openapi.json
var openAPI []byte

// documentCache: the document changes with the program only.
var documentCache = []byte("public, max-age=300")

// document answers with the interface's description.
func document(ctx *fasthttp.RequestCtx) {
	if !ctx.IsGet() && !ctx.IsHead() {
		answers.NotAllowed(ctx, allowed)
		return
	}
	route.JSON(ctx, fasthttp.StatusOK, openAPI)
	ctx.Response.Header.SetCanonical(headerCacheControl, documentCache)
}
