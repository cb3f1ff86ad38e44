package httpapi

import (
	"fmt"

	"github.com/valyala/fasthttp"
)

// Access is what opens a page.
type Access string

const (
	// Code asks for the student's access code. The default.
	Code Access = "code"
	// Open asks for nothing. It is for load tests, on made-up data.
	Open Access = "open"
)

// Validate tells what is wrong with a mode, or nil.
func (a Access) Validate() error {
	if a != Code && a != Open {
		return fmt.Errorf("access is %q, must be %q or %q", a, Code, Open)
	}
	return nil
}

// nobodysCode stands for the stored code of an unknown id. It is as long as the
// codes that the system makes, and has a character that none of them has.
var nobodysCode = []byte("????????????")

// givenCode finds the code in a request; nil if there is none.
func givenCode(ctx *fasthttp.RequestCtx) []byte {
	if code := ctx.Request.Header.PeekBytes(headerAccessCode); len(code) > 0 {
		return code
	}
	if len(ctx.URI().QueryString()) == 0 {
		return nil
	}
	return ctx.QueryArgs().Peek("code")
}
