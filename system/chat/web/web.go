// Package web is the page of the chat in a browser:
//
//	GET, HEAD /app            the streams
//	GET, HEAD /app?stream=    one of them, to read and to speak
//
// It is one answer with its style and its script inside, and loads nothing else but from this
// server's interface, and the pictures of users from where they are. Its policy allows that
// script and style and no other, so that nothing that anybody says can run.
package web

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // for the parts of the page
	"encoding/base64"

	"github.com/cespare/xxhash/v2"
	"github.com/valyala/fasthttp"

	"loadstone/block/route"
)

// Path is where the page is.
const Path = "/app"

//go:embed page.html
var layout []byte

//go:embed page.css
var style []byte

//go:embed page.js
var pageScript []byte

//go:embed room.js
var roomScript []byte

//go:embed host.js
var hostScript []byte

//go:embed people.js
var peopleScript []byte

// script is all: each part uses what those before it declare, and the last one starts it.
var script = bytes.Join([][]byte{pageScript, roomScript, hostScript, peopleScript}, nil)

// page is the parts together, and tag its hash.
var (
	page = bytes.Replace(bytes.Replace(layout, []byte("<style></style>"), tagged("style", style), 1),
		[]byte("<script></script>"), tagged("script", script), 1)
	tag    = xxhash.Sum64(page)
	policy = "default-src 'none'; connect-src 'self'; img-src https:; style-src " + source(style) + "; script-src " + source(script) +
		"; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

func tagged(name string, text []byte) []byte {
	return bytes.Join([][]byte{[]byte("<" + name + ">"), text, []byte("</" + name + ">")}, nil)
}

// source is how a policy names a text.
func source(text []byte) string {
	sum := sha256.Sum256(text)
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// Handle answers with the page.
func Handle(ctx *fasthttp.RequestCtx) error {
	h := &ctx.Response.Header
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-cache")
	if !route.NotModified(ctx, tag) {
		ctx.SetContentType("text/html; charset=utf-8")
		ctx.SetBody(page)
	}
	return nil
}
