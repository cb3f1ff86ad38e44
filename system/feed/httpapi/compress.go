package httpapi

import (
	"bytes"
	"fmt"
	"io"
	"math/bits"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/valyala/fasthttp"

	"loadstone/block/encode"
	"loadstone/block/route"
	"loadstone/system/feed"
)

// Codings are how answers are compressed for clients that take it, the preferred one first.
// None compresses nothing.
//
// What is compressed holds no secrets, and nothing of the request but ids and times, so its
// length tells nobody anything (BREACH).
type Codings []Coding

// Coding is a content coding with its level.
type Coding struct {
	Name  string
	Level int
}

// CodingForms are what to write for Codings, for people.
const CodingForms = "none, or zstd, br and gzip in the order of preference, each with a level if wanted, as in br:5,gzip"

// kinds are the codings that there are, with their levels.
var kinds = map[string]struct {
	usual, most int
	encoder     func(level int) encoder
}{
	"gzip": {6, 9, func(level int) encoder {
		w, err := gzip.NewWriterLevel(nil, level)
		return stream(w, err)
	}},
	"br": {4, 11, func(level int) encoder {
		return stream(brotli.NewWriterOptions(nil, brotli.WriterOptions{Quality: level, LGWin: bits.Len(window) - 1}), nil)
	}},
	"zstd": {2, 4, func(level int) encoder {
		w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.EncoderLevel(level)), zstd.WithWindowSize(window), zstd.WithEncoderConcurrency(1))
		if err != nil {
			panic(err)
		}
		return func(dst, src []byte) []byte { return w.EncodeAll(src, dst) }
	}},
}

// window is how far back an encoder looks, and what bounds its memory: the largest answer
// has little more.
const window = MaxBundleBytes

// encoder appends what it compressed. It serves one after the other.
type encoder func(dst, src []byte) []byte

// stream is the encoder of a writer, whose options are valid, see Config.Validate.
func stream(w interface {
	io.WriteCloser
	Reset(to io.Writer)
}, err error,
) encoder {
	if err != nil {
		panic(err)
	}
	return func(dst, src []byte) []byte {
		to := bytes.NewBuffer(dst)
		w.Reset(to)
		_, _ = w.Write(src) // a buffer takes everything
		_ = w.Close()
		return to.Bytes()
	}
}

// compressor is a coding with its encoders: as many as there are processors, for more would
// take memory and compress no faster. Nil ones are made when they are first needed.
type compressor struct {
	Coding
	encoders chan encoder
}

func newCompressors(codings Codings) []*compressor {
	var all []*compressor
	for _, coding := range codings {
		c := &compressor{coding, make(chan encoder, runtime.GOMAXPROCS(0))}
		for range cap(c.encoders) {
			c.encoders <- nil
		}
		all = append(all, c)
	}
	return all
}

// ParseCodings reads CodingForms.
func ParseCodings(text string) (Codings, error) {
	if text == "none" {
		return nil, nil
	}
	var all Codings
	for element := range strings.SplitSeq(text, ",") {
		name, digits, given := strings.Cut(strings.TrimSpace(element), ":")
		kind, ok := kinds[name]
		if !ok || slices.Contains(all.names(), name) {
			return nil, fmt.Errorf("compression is %q: write %s", text, CodingForms)
		}
		level := kind.usual
		if given {
			var err error
			if level, err = strconv.Atoi(digits); err != nil || level < 1 || level > kind.most {
				return nil, fmt.Errorf("the level of %s is %q: write 1 to %d", name, digits, kind.most)
			}
		}
		all = append(all, Coding{name, level})
	}
	return all, nil
}

// String is what ParseCodings reads.
func (c Codings) String() string {
	if len(c) == 0 {
		return "none"
	}
	var all []string
	for _, coding := range c {
		all = append(all, fmt.Sprintf("%s:%d", coding.Name, coding.Level))
	}
	return strings.Join(all, ",")
}

func (c Codings) names() []string {
	var names []string
	for _, coding := range c {
		names = append(names, coding.Name)
	}
	return names
}

// smallest is the least that is worth compressing: it fits into a packet anyway.
const smallest = 1000

// negotiate returns what the body is to be compressed with, nil for nothing.
func (a *API) negotiate(ctx *fasthttp.RequestCtx, body []byte) (*compressor, error) {
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
		tag = feed.Tag(fmt.Appendf(nil, "%s:%d %x", with.Name, with.Level, tag))
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

func (a *API) send(ctx *fasthttp.RequestCtx, with *compressor, body []byte) {
	if with == nil {
		route.SetJSON(ctx, body) // copies
		return
	}
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	compress := <-with.encoders
	defer func() { with.encoders <- compress }()
	if compress == nil {
		compress = kinds[with.Name].encoder(with.Level)
	}
	a.metrics.compress.Do(func() { *buffer = compress((*buffer)[:0], body) })
	ctx.Response.Header.SetContentEncoding(with.Name)
	route.SetJSON(ctx, *buffer) // copies
}
