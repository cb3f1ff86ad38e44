package httpapi

import (
	"fmt"
	"slices"

	"github.com/valyala/fasthttp"

	"loadstone/block/compress"
	"loadstone/block/encode"
	"loadstone/block/route"
	"loadstone/system/feed"
)

// What is compressed holds no secrets, and nothing of the request but ids and times, so its
// length tells nobody anything (BREACH).

// window is how far back an encoder looks, and what bounds its memory: the largest answer
// has little more.
const window = MaxBundleBytes

// smallest is the least that is worth compressing: it fits into a packet anyway.
const smallest = 1000

// negotiate returns what the body is to be compressed with, nil for nothing.
func (a *API) negotiate(ctx *fasthttp.RequestCtx, body []byte) (*compress.Pool, error) {
	if len(a.compressors) == 0 {
		return nil, nil
	}
	accept := ctx.Request.Header.Peek(fasthttp.HeaderAcceptEncoding)
	name, ok := encode.Negotiate(accept, a.codings)
	if !ok {
		return nil, &route.Error{Code: codeNotAcceptable}
	}
	ctx.Response.Header.Set(fasthttp.HeaderVary, fasthttp.HeaderAcceptEncoding)
	i := slices.Index(a.codings, name)
	if i < 0 {
		return nil, nil
	}
	if _, plain := encode.Negotiate(accept, nil); plain && len(body) < smallest {
		return nil, nil
	}
	return a.compressors[i], nil
}

// answer answers with a body, or that the client has it, compressed if the client likes. The
// tag is that of the body as it is sent: a cache must mix neither codings nor their levels,
// of which servers behind one address may have different ones.
func (a *API) answer(ctx *fasthttp.RequestCtx, body []byte) error {
	with, err := a.negotiate(ctx, body)
	if err != nil {
		return err
	}
	tag := feed.Tag(body)
	if with != nil {
		tag = feed.Tag(fmt.Appendf(nil, "%s %x", with, tag))
	}
	known := route.NotModified(ctx, tag)
	ctx.Response.Header.Set(fasthttp.HeaderCacheControl, "public, no-cache")
	if !known {
		a.send(ctx, with, body)
	}
	return nil
}

// answerOnce is answer for no cache.
func (a *API) answerOnce(ctx *fasthttp.RequestCtx, body []byte) error {
	with, err := a.negotiate(ctx, body)
	if err != nil {
		return err
	}
	ctx.Response.Header.Set(fasthttp.HeaderCacheControl, "no-store")
	a.send(ctx, with, body)
	return nil
}

func (a *API) send(ctx *fasthttp.RequestCtx, with *compress.Pool, body []byte) {
	if with == nil {
		route.SetJSON(ctx, body) // copies
		return
	}
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	with.Use(func(encode compress.Encoder) {
		a.metrics.compress.Do(func() { *buffer = encode((*buffer)[:0], body) })
	})
	ctx.Response.Header.SetContentEncoding(with.Name)
	route.SetJSON(ctx, *buffer) // copies
}
