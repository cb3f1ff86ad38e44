package httpapi

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

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

// compressors are those that there are.
var compressors = map[string]struct {
	usual, most int
	compress    func(dst, src []byte, level int) []byte
}{
	"gzip": {6, 9, fasthttp.AppendGzipBytesLevel},
	"br":   {4, 11, fasthttp.AppendBrotliBytesLevel},
	"zstd": {2, 4, fasthttp.AppendZstdBytesLevel},
}

// ParseCodings reads CodingForms.
func ParseCodings(text string) (Codings, error) {
	if text == "none" {
		return nil, nil
	}
	var all Codings
	for element := range strings.SplitSeq(text, ",") {
		name, digits, given := strings.Cut(strings.TrimSpace(element), ":")
		kind, ok := compressors[name]
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

// answer answers with a body, or that the client has it, compressed if the client likes. The
// tag is that of the body as it is sent: a cache must not mix codings.
func (a *API) answer(ctx *fasthttp.RequestCtx, body []byte) error {
	var coding Coding
	if len(a.cfg.Codings) > 0 {
		name, ok := encode.Negotiate(ctx.Request.Header.Peek(fasthttp.HeaderAcceptEncoding), a.codings)
		if !ok {
			return &route.Error{Code: codeNotAcceptable}
		}
		if i := slices.Index(a.codings, name); i >= 0 && len(body) >= smallest {
			coding = a.cfg.Codings[i]
		}
		ctx.Response.Header.Set(fasthttp.HeaderVary, fasthttp.HeaderAcceptEncoding)
	}
	tag := feed.Tag(body)
	if coding.Name != "" {
		tag = feed.Tag(strconv.AppendUint([]byte(coding.Name), tag, 16))
	}
	known := route.NotModified(ctx, tag)
	ctx.Response.Header.Set(fasthttp.HeaderCacheControl, "public, no-cache")
	switch {
	case known:
	case coding.Name == "":
		route.SetJSON(ctx, body) // copies
	default:
		a.compress(ctx, coding, body)
	}
	return nil
}

func (a *API) compress(ctx *fasthttp.RequestCtx, coding Coding, body []byte) {
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	began := time.Now()
	*buffer = compressors[coding.Name].compress((*buffer)[:0], body, coding.Level)
	a.metrics.compress.Add(time.Since(began).Seconds())
	ctx.Response.Header.SetContentEncoding(coding.Name)
	route.SetJSON(ctx, *buffer) // copies
}
