package route

import (
	"cmp"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"
)

// Code names one way in which requests fail, for programs, in lower_snake_case. It is
// what an answer's body says, and never changes once published.
type Code string

// The codes that this package answers with by itself. A Table needs all of them but
// for the last three, for which BadRequest stands in.
const (
	Internal           Code = "internal" // a handler panicked, or failed with something else than an Error
	NoSuchPath         Code = "no_such_path"
	MethodNotAllowed   Code = "method_not_allowed"
	NotReady           Code = "not_ready"
	TooManyConnections Code = "too_many_connections"
	BadRequest         Code = "bad_request" // it could not be read as a request
	RequestTimeout     Code = "request_timeout"
	BodyTooLarge       Code = "body_too_large"
	HeadersTooLarge    Code = "headers_too_large"
)

// Answer is how a code is answered.
type Answer struct {
	Status int
	// Text is the message for people. An Error may have a more exact one.
	Text string
	// RetryAfter is when to try again, 0 if that does not help.
	RetryAfter time.Duration
	// Code stands in the body; the table's own if empty.
	Code Code
}

// Table says how a system answers each of its codes. A system has one.
type Table map[Code]Answer

// Error is what a handler returns for a request that it did not do. Only Code is
// required.
type Error struct {
	Code Code
	// Text and RetryAfter stand in place of the table's.
	Text       string
	RetryAfter time.Duration
	// Err is the cause. A client is not told.
	Err error
}

// Error says what the client is told, and the cause.
func (e *Error) Error() string {
	text := string(e.Code)
	if e.Text != "" {
		text += ": " + e.Text
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errors are a table's answers with their bodies made.
type Errors map[Code]*Failure

// Failure is one of them.
type Failure struct {
	Answer
	body []byte
}

// Prepare makes the bodies of a table.
func Prepare(t Table) Errors {
	e := make(Errors, len(t))
	for code, a := range t {
		a.Code = cmp.Or(a.Code, code)
		e[code] = a.Prepare()
	}
	return e
}

// Prepare makes the body of one answer, whose Code is set.
func (a Answer) Prepare() *Failure { return &Failure{a, Body(a.Code, a.Text)} }

// WithBody returns the failure with another body, in the form of all errors.
func (f *Failure) WithBody(body []byte) *Failure { return &Failure{f.Answer, body} }

// Body is the one form of all errors. The text may be any.
func Body(code Code, text string) []byte {
	var form struct {
		Error struct {
			Code    Code   `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	form.Error.Code, form.Error.Message = code, text
	body, _ := json.Marshal(form) //nolint:errchkjson // two texts always have a form in JSON
	return body
}

// Write answers with the failure. wait is when to try again, 0 for what the table says.
func (f *Failure) Write(ctx *fasthttp.RequestCtx, wait time.Duration) {
	JSON(ctx, f.Status, f.body)
	if wait = cmp.Or(wait, f.RetryAfter); wait > 0 {
		var digits [20]byte
		ctx.Response.Header.SetCanonical(headerRetryAfter, strconv.AppendInt(digits[:0], Seconds(wait), 10))
	}
}

// Write answers for a handler that returned err, which is not nil.
func (e Errors) Write(ctx *fasthttp.RequestCtx, err error) {
	failed, ok := errors.AsType[*Error](err)
	if !ok || e[failed.Code] == nil {
		failed = &Error{Code: Internal}
	}
	f := e[failed.Code]
	if failed.Text != "" {
		f = f.WithBody(Body(f.Code, failed.Text))
	}
	f.Write(ctx, failed.RetryAfter)
}

// NotAllowed answers a method that a path does not have; methods are those that it
// has, as the header Allow lists them.
func (e Errors) NotAllowed(ctx *fasthttp.RequestCtx, methods string) {
	e[MethodNotAllowed].Write(ctx, 0)
	ctx.Response.Header.Set(fasthttp.HeaderAllow, methods)
}

// Unreadable answers what could not be read as a request, with the status that
// httpserver gives it, and who is one connection too many.
func (e Errors) Unreadable(ctx *fasthttp.RequestCtx, status int) {
	code := BadRequest
	switch status {
	case fasthttp.StatusServiceUnavailable:
		code = TooManyConnections
	case fasthttp.StatusRequestTimeout:
		code = RequestTimeout
	case fasthttp.StatusRequestEntityTooLarge:
		code = BodyTooLarge
	case fasthttp.StatusRequestHeaderFieldsTooLarge:
		code = HeadersTooLarge
	}
	f := e[code]
	if f == nil {
		f = e[BadRequest]
	}
	f.Write(ctx, 0)
	ctx.Response.SetStatusCode(status)
}
