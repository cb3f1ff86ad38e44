package httpapi

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"loadstone/block/dataset"
	"loadstone/block/route"
	"loadstone/system/feed"
)

// Bounds of one request.
const (
	// MaxPage is the most posts of a page, DefaultPage how many there are unless asked
	// otherwise.
	MaxPage     = 100
	DefaultPage = 20
	// MaxBundle is the most posts of a bundle, MaxBundleBytes the most that its parts have
	// together. Any one part fits: ShownComments of the largest comments, written with six
	// bytes for each character, have half of it.
	MaxBundle      = 50
	MaxBundleBytes = 1 << 20
)

// readTimeout bounds what a request waits for a store: longer than one takes that is busy,
// and shorter than a reader waits.
const readTimeout = 2 * time.Second

func bound() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), readTimeout)
}

// list answers for /feed.
func (a *API) list(ctx *fasthttp.RequestCtx) error {
	limit := int64(DefaultPage)
	if text := ctx.QueryArgs().Peek("limit"); text != nil {
		var ok bool
		if limit, ok = dataset.ParseID(text); !ok || limit > MaxPage {
			return &route.Error{Code: codeLimit}
		}
	}
	within, cancel := bound()
	defer cancel()
	page, err := a.cfg.Reader.View(within).Page(within, ctx.QueryArgs().Peek("cursor"), int(limit))
	if err != nil {
		return a.failed(err)
	}
	return a.write(ctx, &page)
}

// notices answers for /notices.
func (a *API) notices(ctx *fasthttp.RequestCtx) error {
	var seen int64
	if text := ctx.QueryArgs().Peek("seen"); text != nil && string(text) != "0" {
		var ok bool
		if seen, ok = dataset.ParseID(text); !ok {
			return &route.Error{Code: codeSeen}
		}
	}
	within, cancel := bound()
	defer cancel()
	n, err := a.cfg.Reader.View(within).Notices(within, seen)
	if err != nil {
		return a.failed(err)
	}
	return a.write(ctx, &n)
}

// detail answers for /posts/{id}/{part}.
func (a *API) detail(ctx *fasthttp.RequestCtx) error {
	number, part, _ := bytes.Cut(bytes.TrimPrefix(ctx.URI().PathOriginal(), []byte("/posts/")), []byte("/"))
	id, ok := dataset.ParseID(number)
	if !ok || !slices.Contains(feed.Parts(), feed.Part(part)) {
		return &route.Error{Code: route.NoSuchPath}
	}
	within, cancel := bound()
	defer cancel()
	found := a.cfg.Reader.View(within).Details(within, feed.Part(part), []int64{id})[0]
	if found.Err != nil {
		return a.failed(found.Err)
	}
	return a.write(ctx, found.Detail)
}

// bundle answers for /bundle.
func (a *API) bundle(ctx *fasthttp.RequestCtx) error {
	ids, ok := parsePosts(ctx.QueryArgs().PeekMulti("posts"))
	if !ok {
		return &route.Error{Code: codePosts}
	}
	switch stream := ctx.QueryArgs().Peek("stream"); {
	case string(stream) == byLine:
		return a.stream(ctx, ids)
	case stream != nil:
		return &route.Error{Code: codeStream}
	}
	within, cancel := bound()
	defer cancel()
	view, found := a.cfg.Reader.View(within), make(map[feed.Part][]feed.Found, len(feed.Parts()))
	for _, part := range feed.Parts() {
		found[part] = view.Details(within, part, ids)
	}
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	b := bundle{api: a, body: append((*buffer)[:0], `{"bundles":[`...)}
	a.metrics.serialize.Do(func() {
		for i, id := range ids {
			b.begin(i, id)
			for _, part := range feed.Parts() {
				b.body = append(append(append(b.body, ",\""...), part...), "\":{"...)
				b.add(found[part][i])
			}
			b.body = append(b.body, '}')
		}
	})
	b.body = append(b.body, "]}"...)
	*buffer = b.body
	if b.read == 0 {
		return b.failed
	}
	if b.failed != nil {
		return a.answerOnce(ctx, b.body)
	}
	return a.answer(ctx, b.body)
}

// bundle is an answer that grows.
type bundle struct {
	api    *API
	before int // bytes that are not in body any more
	body   []byte
	read   int   // parts that could be read, or are known not to be there
	failed error // the last of the others
}

func (b *bundle) begin(i int, id int64) {
	if i > 0 {
		b.body = append(b.body, ',')
	}
	b.body = strconv.AppendInt(append(b.body, `{"post":`...), id, 10)
}

// add appends the status and body of the request that a part stands for, and ends an object.
func (b *bundle) add(found feed.Found) {
	b.body = append(b.body, `"status":`...)
	begun := len(b.body)
	err := found.Err
	if err == nil {
		b.body = append(b.body, `200,"body":`...)
		if b.body, err = b.api.cfg.Serializer.Append(b.body, found.Detail); err == nil && b.before+len(b.body) > MaxBundleBytes {
			err = &route.Error{Code: codeBundleFull}
		}
	}
	if err != nil {
		b.refuse(begun, err)
	} else {
		b.read++
	}
	b.body = append(b.body, '}')
}

// refuse replaces a part that was begun by why it is not there.
func (b *bundle) refuse(begun int, err error) {
	refused, ok := err.(*route.Error) //nolint:errorlint // one of ours, not wrapped
	if !ok {
		refused = b.api.failed(err).(*route.Error) //nolint:errorlint // as above
	}
	failure := b.api.inBundle[refused.Code]
	if failure.Status >= fasthttp.StatusInternalServerError {
		b.failed = refused
	} else {
		b.read++
	}
	b.body = strconv.AppendInt(b.body[:begun], int64(failure.Status), 10)
	b.body = append(append(b.body, `,"body":`...), route.Body(failure.Code, failure.Text)...)
}

// parsePosts reads the ids of 1 to MaxBundle posts, each once.
func parsePosts(lists [][]byte) ([]int64, bool) {
	if len(lists) != 1 || bytes.Count(lists[0], []byte(",")) >= MaxBundle {
		return nil, false
	}
	ids := make([]int64, 0, MaxBundle)
	for text := range bytes.SplitSeq(lists[0], []byte(",")) {
		id, ok := dataset.ParseID(text)
		if !ok || slices.Contains(ids, id) {
			return nil, false
		}
		ids = append(ids, id)
	}
	return ids, true
}

// buffers are for answers that are being written; those that grew large are kept, too, as
// bundles do.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// serialize appends the JSON of a value, and counts what that takes.
func (a *API) serialize(dst []byte, v feed.Value) (out []byte, err error) {
	a.metrics.serialize.Do(func() { out, err = a.cfg.Serializer.Append(dst, v) })
	return out, err
}

// write answers with a value.
func (a *API) write(ctx *fasthttp.RequestCtx, v feed.Value) error {
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	body, err := a.serialize((*buffer)[:0], v)
	if err != nil {
		return a.failed(err)
	}
	*buffer = body
	return a.answer(ctx, body)
}
