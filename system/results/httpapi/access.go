package httpapi

import (
	"crypto/subtle"
	"fmt"

	"github.com/valyala/fasthttp"

	"loadstone/system/results"
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

// maxCode bounds codes, in characters that count. Every comparison reads so many.
const maxCode = results.MaxCodeBytes

// nobodysCode stands for the stored code of an unknown id. It is as long as the
// codes that the system makes, and has a character that none of them has.
var nobodysCode = []byte("????????????")

// folded is a code in the form in which codes are compared: capitals, without
// spaces and dashes, filled up with zeros.
type folded struct {
	chars [maxCode]byte
	n     int  // characters
	long  bool // there were more than fit
}

func fold(code []byte) (f folded) {
	for _, c := range code {
		switch {
		case c == ' ' || c == '-':
			continue
		case f.n == maxCode:
			f.long = true
			return f
		case 'a' <= c && c <= 'z':
			c -= 'a' - 'A'
		}
		f.chars[f.n] = c
		f.n++
	}
	return f
}

// codeOpens reports whether the given code is the stored one. Its time does not
// depend on where they differ. A code that is empty or too long opens nothing, so
// a student stored without a code is not open to all.
func codeOpens(given, stored []byte) bool {
	g, s := fold(given), fold(stored)
	same := subtle.ConstantTimeCompare(g.chars[:], s.chars[:]) == 1
	return same && g.n > 0 && g.n == s.n && !g.long && !s.long
}

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
