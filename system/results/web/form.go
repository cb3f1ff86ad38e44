package web

import (
	"bytes"

	"github.com/valyala/fasthttp"

	"loadstone/system/results"
)

// Bounds of a form, in bytes. A code has at most 64 characters that count;
// people type spaces and hyphens between them, which an escape triples.
const (
	maxForm = 1 << 10
	maxID   = 64
	maxCode = 2 * results.MaxCodeBytes
)

// input is what was typed into the form.
type input struct {
	id     int64
	idText string // as it is shown again
	code   []byte // of the request
	save   bool   // as a file
	tries  int    // how often the browser has waited

	status int // for pageUnreadable
}

// readForm reads a POST. The page is pageForm if all is well, else the one that
// says what is wrong; never one that depends on whether there is such a student.
func readForm(ctx *fasthttp.RequestCtx) (input, page) {
	media, _, _ := bytes.Cut(ctx.Request.Header.ContentType(), []byte(";"))
	if !bytes.EqualFold(bytes.TrimSpace(media), []byte("application/x-www-form-urlencoded")) {
		return input{status: fasthttp.StatusUnsupportedMediaType}, pageUnreadable
	}
	body := ctx.PostBody()
	if len(body) > maxForm {
		return input{status: fasthttp.StatusRequestEntityTooLarge}, pageUnreadable
	}
	form := ctx.PostArgs()
	form.ParseBytes(body) // whatever the case of the media type
	in := input{save: len(form.Peek("save")) > 0}
	typed := trim(form.Peek("id"))
	if len(typed) <= maxID {
		in.idText = string(typed)
	}
	id, err := results.ParseID(typed)
	if err != nil {
		return in, pageBadID
	}
	in.id, in.code = id, trim(form.Peek("code"))
	if len(in.code) == 0 || len(in.code) > maxCode {
		return in, pageBadCode
	}
	return in, pageForm
}

// trim removes the spaces that come with copied text, also the one that does
// not break lines.
func trim(text []byte) []byte { return bytes.Trim(text, " \t\r\n\u00a0") }
