package serve

import (
	_ "embed" // for the document

	"github.com/valyala/fasthttp"

	"loadstone/block/route"
)

// openAPI describes who may take part, and the streams. It is written by hand, and a test
// compares answers with it.
//
//go:embed openapi.json
var openAPI []byte

// document answers GET /openapi.json.
func document(ctx *fasthttp.RequestCtx) error {
	route.JSON(ctx, fasthttp.StatusOK, openAPI)
	return nil
}
