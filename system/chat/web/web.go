// Package web is the pages of the chat in a browser:
//
//	GET, HEAD /app            the streams
//	GET, HEAD /app/replay?stream=  one that has ended, at the time of its video
//	GET, HEAD /app?stream=    one of them, to read and to speak
//
// Each is one answer with its style and its script inside, and loads nothing else but from this
// server's interface, and the pictures of users from where the operator lets them be. Its policy allows that
// script and style and no other, so that nothing that anybody says can run.
package web

import (
	"bytes"
	"embed"
	"strings"

	"github.com/cespare/xxhash/v2"
	"github.com/valyala/fasthttp"

	"loadstone/block/route"
)

// Where the pages are.
const (
	Path       = "/app"
	ReplayPath = "/app/replay"
)

//go:embed *.html *.css *.js
var files embed.FS

// The pages. What both need is in common.js. Each script uses what those before it declare, and the
// last one starts the page.
var (
	app    = assemble("page.html", "common.js", "page.js", "room.js", "host.js", "found.js", "people.js")
	replay = assemble("replay.html", "common.js", "replay.js")
)

// page is an answer, its hash and its policy.
type page struct {
	body   []byte
	tag    uint64
	policy string
}

func assemble(layout string, scripts ...string) *page {
	var script []byte
	for _, name := range scripts {
		script = append(script, read(name)...)
	}
	style := read("page.css")
	p := &page{body: read(layout)}
	p.body = bytes.Replace(p.body, []byte("<style></style>"), tagged("style", style), 1)
	p.body = bytes.Replace(p.body, []byte("<script></script>"), tagged("script", script), 1)
	p.tag = xxhash.Sum64(p.body)
	p.policy = "default-src 'none'; connect-src 'self'; img-src 'none'; style-src " + route.Source(style) + "; script-src " + route.Source(script) +
		"; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	return p
}

func read(name string) []byte {
	text, err := files.ReadFile(name)
	if err != nil {
		panic(err) // it is a part of the program
	}
	return text
}

func tagged(name string, text []byte) []byte {
	return bytes.Join([][]byte{[]byte("<" + name + ">"), text, []byte("</" + name + ">")}, nil)
}

// New answers with the page of streams and of one of them, which may show pictures of these
// origins, https://HOST each.
func New(pictures []string) route.Handler {
	p := *app
	if len(pictures) > 0 {
		p.policy = strings.Replace(p.policy, "img-src 'none'", "img-src "+strings.Join(pictures, " "), 1)
	}
	return p.answer
}

// HandleReplay answers with the page of a stream that has ended.
func HandleReplay(ctx *fasthttp.RequestCtx) error { return replay.answer(ctx) }

func (p *page) answer(ctx *fasthttp.RequestCtx) error {
	route.Confine(ctx, p.policy)
	ctx.Response.Header.Set("Cache-Control", "no-cache")
	if !route.NotModified(ctx, p.tag) {
		ctx.SetContentType("text/html; charset=utf-8")
		ctx.SetBody(p.body)
	}
	return nil
}
