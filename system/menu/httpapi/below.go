package httpapi

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"

	"loadstone/block/dataset"
	"loadstone/block/route"
	"loadstone/system/menu"
)

// below makes h answer for Path/{id} with the rest behind it, such as "/metadata".
func (a *API) below(rest, method string, h route.Handler) {
	if a.ofMenu[rest] == nil {
		a.ofMenu[rest] = make(map[string]route.Handler)
	}
	a.ofMenu[rest][method] = h
	a.Add(method, Path+"/", a.find)
}

// find answers a request for what is below Path with what was added there.
func (a *API) find(ctx *fasthttp.RequestCtx) error {
	_, rest := split(ctx)
	methods, ok := a.ofMenu[string(rest)]
	if !ok {
		return &route.Error{Code: of(menu.ErrMalformedID)}
	}
	if h, ok := methods[string(ctx.Method())]; ok {
		return h(ctx)
	}
	return notAllowed(ctx, route.MethodNotAllowed, strings.Join(slices.Sorted(maps.Keys(methods)), ", "))
}

// split cuts a request's path behind Path and a slash: the text of an id, and the rest.
func split(ctx *fasthttp.RequestCtx) (id, rest []byte) {
	text := ctx.URI().PathOriginal()[len(Path)+1:]
	if i := bytes.LastIndexByte(text, '/'); i >= 0 {
		return text[:i], text[i:]
	}
	return text, nil
}

// ofMenu is a handler that is given the id of the path.
func ofMenu(h func(ctx *fasthttp.RequestCtx, id int64) error) route.Handler {
	return func(ctx *fasthttp.RequestCtx) error {
		text, _ := split(ctx)
		id, ok := dataset.ParseID(text)
		if !ok {
			return &route.Error{Code: of(menu.ErrMalformedID)}
		}
		return h(ctx, id)
	}
}
