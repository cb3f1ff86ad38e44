// Package dcz answers HTTP requests for texts that are compressed with a dictionary: the content
// coding dcz of RFC 9842.
//
// A client that has a dictionary says so (Available-Dictionary, with its hash) and gets frames of it.
// One that could have it is told where it is (Link), and fetches it once: the hash is in the path, so
// caches keep it for good. Everybody else gets the text.
//
// The entity tag of a frame is the text's as a weak one: it names the same text, in other bytes.
package dcz

import (
	"bytes"

	"github.com/valyala/fasthttp"

	"loadstone/block/dictionary"
	"loadstone/block/route"
)

// Below is where dictionaries are, behind the path of texts: at PATH/dictionary/HASH.
const Below = "/dictionary/"

var (
	headerVary      = []byte(fasthttp.HeaderVary)
	headerEncoding  = []byte(fasthttp.HeaderContentEncoding)
	headerAccept    = []byte(fasthttp.HeaderAcceptEncoding)
	headerAvailable = []byte("Available-Dictionary")
	vary            = []byte("Accept-Encoding, Available-Dictionary")
	coding, related = []byte("dcz"), []byte("zstd")
)

// Texts are those at PATH/..., and the dictionaries for them.
type Texts struct {
	// Path is where they are, such as /menu.
	Path string
	// Known are the dictionaries that frames can be made with; nil for none.
	Known *dictionary.Set
	// Stored is the one of frames that need not be made, nil at times; the function is nil if there never
	// is one.
	Stored func() *dictionary.Dictionary
}

// Offered is the dictionary for clients to fetch; nil if there is none.
func (t *Texts) Offered() *dictionary.Dictionary {
	if t.Stored != nil {
		if d := t.Stored(); d != nil {
			return d
		}
	}
	return t.Known.First()
}

// Choice is how a client gets a text.
type Choice struct {
	// With is the dictionary of the frame that it gets; nil for the text itself.
	With *dictionary.Dictionary

	varies bool
	link   string
}

// Choose reads what the client has and takes.
func (t *Texts) Choose(ctx *fasthttp.RequestCtx) (c Choice) {
	offered := t.Offered()
	if offered == nil {
		return c
	}
	c.varies = true
	accepted := ctx.Request.Header.PeekBytes(headerAccept)
	if len(accepted) == 0 {
		return c
	}
	takes := accepts(accepted, coding)
	available := ctx.Request.Header.PeekBytes(headerAvailable)
	switch {
	case takes && offered.Is(available):
		c.With = offered
		return c
	case takes:
		c.With = t.Known.Known(available)
	}
	// Browsers name dcz only once they have a dictionary; those that know it know zstd.
	if takes || accepts(accepted, related) {
		c.link = "<" + t.Path + Below + offered.Name() + `>; rel="compression-dictionary"`
	}
	return c
}

// Describe sets the headers of an answer of either form that a cache and the client need to know of.
func (c Choice) Describe(ctx *fasthttp.RequestCtx) {
	if c.varies {
		ctx.Response.Header.SetCanonical(headerVary, vary)
	}
	if c.link != "" {
		ctx.Response.Header.Set(fasthttp.HeaderLink, c.link)
	}
}

// accepts reports whether an Accept-Encoding names the coding, not with a weight of 0.
func accepts(header, coding []byte) bool {
	for element := range bytes.SplitSeq(header, []byte{','}) {
		name, weight, _ := bytes.Cut(element, []byte{';'})
		if bytes.EqualFold(bytes.TrimSpace(name), coding) {
			_, q, given := bytes.Cut(weight, []byte{'='})
			return !given || len(bytes.Trim(q, " \t0.")) > 0
		}
	}
	return false
}

// Write answers with a frame of the dictionary With, as JSON; or, with status 304, that the client has the
// text with the hash.
func (c Choice) Write(ctx *fasthttp.RequestCtx, frame []byte, hash uint64) {
	c.Describe(ctx)
	if route.NotModifiedWeak(ctx, hash) {
		return
	}
	ctx.Response.Header.SetCanonical(headerEncoding, coding)
	route.SetJSON(ctx, c.With.Header())
	ctx.Response.AppendBody(frame)
}

// Serve answers with the dictionary whose name is the end of the path. The error's code is
// route.NoSuchPath if it is not known.
func (t *Texts) Serve(ctx *fasthttp.RequestCtx) error {
	name := string(ctx.URI().PathOriginal()[len(t.Path)+len(Below):])
	d := t.Offered()
	if d == nil || d.Name() != name {
		d = t.Known.Named(name)
	}
	if d == nil {
		return &route.Error{Code: route.NoSuchPath}
	}
	ctx.Response.Header.Set(fasthttp.HeaderCacheControl, "public, max-age=31536000, immutable")
	ctx.Response.Header.Set("Use-As-Dictionary", `match="`+t.Path+`/*"`)
	ctx.Response.Header.SetContentType("application/octet-stream")
	ctx.Response.SetBody(d.Content()) // copies
	return nil
}
