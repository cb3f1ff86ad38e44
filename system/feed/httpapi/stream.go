package httpapi

import (
	"bufio"
	"net/http"
	"slices"
	"strconv"
	"sync"

	"github.com/valyala/fasthttp"

	"loadstone/block/encode"
	"loadstone/block/route"
	"loadstone/system/feed"
)

// byLine is the stream of a bundle whose parts come as they are ready.
const byLine = "jsonl"

// stream answers for /bundle with a line for each part. It is not compressed: what waits in an
// encoder is not ready.
func (a *API) stream(ctx *fasthttp.RequestCtx, ids []int64) error {
	if _, plain := encode.Negotiate(ctx.Request.Header.Peek(fasthttp.HeaderAcceptEncoding), nil); !plain {
		return &route.Error{Code: codeNotAcceptable}
	}
	ctx.Response.Header.SetContentType("application/jsonl")
	ctx.Response.Header.Set(fasthttp.HeaderCacheControl, "no-store")
	ctx.Response.Header.Set("X-Accel-Buffering", "no") // NGINX is to pass on what it has
	if ctx.IsHead() {
		ctx.Response.SetBodyStream(http.NoBody, -1)
		return nil
	}
	ctx.Response.SetBodyStreamWriter(func(w *bufio.Writer) { a.writeLines(w, ids) })
	return nil
}

// line is a part that is ready.
type line struct {
	post  int64
	part  feed.Part
	found feed.Found
}

// writeLines reads all parts at once, and writes each when it has been read. A client that has gone
// is noticed at the next line; then what is still being read is given up.
func (a *API) writeLines(w *bufio.Writer, ids []int64) {
	within, cancel := bound()
	view, parts := a.cfg.Reader.View(within), feed.Parts()
	ready := make(chan line, len(parts)*len(ids)) // nobody waits for a slow client
	size := len(ids)
	if view.Each {
		size = 1
	}
	var reading sync.WaitGroup
	for _, part := range parts {
		reading.Go(func() {
			for few := range slices.Chunk(ids, size) {
				for i, found := range view.Details(within, part, few) {
					ready <- line{few[i], part, found}
				}
			}
		})
	}
	defer reading.Wait()
	defer cancel()
	b := bundle{api: a}
	for range cap(ready) {
		if len(ready) == 0 && w.Flush() != nil {
			return
		}
		next := <-ready
		b.before += len(b.body)
		b.body = strconv.AppendInt(append(b.body[:0], `{"post":`...), next.post, 10)
		b.body = append(append(append(b.body, `,"part":"`...), next.part...), `",`...)
		a.metrics.serialize.Do(func() { b.add(next.found) })
		b.body = append(b.body, '\n')
		if _, err := w.Write(b.body); err != nil {
			return
		}
	}
	_ = w.Flush() // nobody is left to tell
}
