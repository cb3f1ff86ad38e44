package httpapi

import (
	"bytes"

	"github.com/valyala/fasthttp"

	"loadstone/block/route"
)

// Before returns a handler that answers the paths of this interface, as they were
// sent, and leaves all others to the given one.
func (a *API) Before(others fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		if serves(ctx.URI().PathOriginal()) {
			a.Handle(ctx)
			return
		}
		others(ctx)
	}
}

func serves(path []byte) bool {
	if bytes.HasPrefix(path, studentPath) { // almost all
		return true
	}
	switch string(path) {
	case route.HealthPath, route.ReadyPath, documentPath:
		return true
	}
	return false
}
