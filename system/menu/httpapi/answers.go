package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"loadstone/block/route"
	"loadstone/system/menu"
)

// Codes of this interface beside those of menu's errors and of package route.
const (
	codeInvalid      route.Code = "invalid_menu" // JSON of a menu that has mistakes
	codeIDs          route.Code = "bad_ids"
	codeCondition    route.Code = "bad_condition"
	codeUnauthorized route.Code = "unauthorized"
	codeLocked       route.Code = "locked"
	codeReadOnly     route.Code = "read_only"
	codeMediaType    route.Code = "unsupported_media_type"
	codeNoOverlay    route.Code = "no_availability"
)

// soon is when to try again after something failed that passes: soon enough for a store that
// is being replaced, and slow enough not to add load to one in trouble.
const soon = time.Second

const unavailable = "menus cannot be looked up or changed now, and a change that was sent may or may not be stored; try again after as many seconds as Retry-After says"

// of is an error's code in the table.
func of(e *menu.Error) route.Code { return route.Code(e.Code) }

// answers is how each code is answered. Of a store that failed the client does not
// learn how: the text may name files or queries.
var answers = route.Table{
	route.Internal:           {Status: http.StatusInternalServerError, Text: "the server made a mistake"},
	route.NoSuchPath:         {Status: http.StatusNotFound, Text: "there is nothing at this path; menus are at /menu/{id}"},
	route.MethodNotAllowed:   {Status: http.StatusMethodNotAllowed, Text: "this path has other methods, which Allow lists"},
	route.NotReady:           {Status: http.StatusServiceUnavailable, Code: "draining", Text: "the server is stopping"},
	route.TooManyConnections: {Status: http.StatusServiceUnavailable, Text: "too many connections are open; connect again after as many seconds as Retry-After says", RetryAfter: soon},
	route.BadRequest:         {Status: http.StatusBadRequest, Text: "this is not a valid HTTP request"},
	route.RequestTimeout:     {Status: http.StatusRequestTimeout, Text: "the request took too long to arrive"},
	route.BodyTooLarge:       {Status: http.StatusRequestEntityTooLarge, Text: fmt.Sprintf("the body is too large: a menu has at most %d bytes, and GET and HEAD have none", menu.MaxBodyBytes)},
	route.HeadersTooLarge:    {Status: http.StatusRequestHeaderFieldsTooLarge, Text: "the request's line and headers are too large"},

	codeInvalid:        {Status: http.StatusUnprocessableEntity},
	codeIDs:            {Status: http.StatusBadRequest, Text: fmt.Sprintf("write the ids of 1 to %d menus, as in /menu?ids=1,2,3", MaxIDs)},
	codeCondition:      {Status: http.StatusBadRequest, Text: "write one If-Match with one ETag or *, or If-None-Match: * for a menu that must be new; POST always makes a new one"},
	codeUnauthorized:   {Status: http.StatusUnauthorized, Text: "to change menus, send Authorization: Bearer and the token that this server was started with"},
	codeLocked:         {Status: http.StatusForbidden, Text: "nobody may change menus here: start the server with a token for writers to allow it"},
	codeReadOnly:       {Status: http.StatusMethodNotAllowed, Text: "these menus are published and cannot be changed here: change them in the database that they come from, and publish again"},
	codeMediaType:      {Status: http.StatusUnsupportedMediaType, Text: "send the menu with Content-Type: application/json, in UTF-8 and not compressed"},
	codeNoOverlay:      {Status: http.StatusNotFound, Text: "nothing is said about when this menu is served: all of it is, at any time"},
	of(menu.ErrUntold): {Status: http.StatusServiceUnavailable, Text: "caches cannot be told of the change, so nothing was changed; send it again after as many seconds as Retry-After says", RetryAfter: soon},

	of(menu.ErrMalformedID): {Status: http.StatusBadRequest, Text: menu.ErrMalformedID.Message},
	of(menu.ErrInput):       {Status: http.StatusBadRequest, Text: menu.ErrInput.Message},
	of(menu.ErrBounds):      {Status: http.StatusBadRequest, Text: menu.ErrBounds.Message},
	of(menu.ErrNotFound):    {Status: http.StatusNotFound, Text: menu.ErrNotFound.Message},
	of(menu.ErrExists):      {Status: http.StatusConflict, Text: "a menu has this id already: use PUT to replace it, or leave the id out"},
	of(menu.ErrChanged):     {Status: http.StatusPreconditionFailed, Text: "the menu is not as the condition says; the header ETag tells what is there now, if there is a menu"},
	of(menu.ErrOverloaded):  {Status: http.StatusServiceUnavailable, Text: "too much is under way and nothing was tried; try again after as many seconds as Retry-After says", RetryAfter: soon},
	of(menu.ErrUnavailable): {Status: http.StatusServiceUnavailable, Text: unavailable, RetryAfter: soon},
	of(menu.ErrMissing):     {Status: http.StatusServiceUnavailable, Code: of(menu.ErrUnavailable), Text: "there are no menus here yet: seed, import or publish them first", RetryAfter: soon},
	of(menu.ErrOccupied):    {Status: http.StatusInternalServerError, Code: route.Internal, Text: broken},
	of(menu.ErrVersion):     {Status: http.StatusInternalServerError, Code: route.Internal, Text: broken},
	of(menu.ErrCorrupt):     {Status: http.StatusInternalServerError, Code: route.Internal, Text: broken},
}

const broken = "the data behind this server cannot be read"

// maxText bounds what is said about a menu, in bytes: a menu can have a mistake in each line.
const maxText = 4 << 10

// because is an answer with an error's own text, all its problems in one line.
func because(code route.Code, err error) error {
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "... and more"
	}
	return &route.Error{Code: code, Text: text, Err: err}
}

// failed is the answer to what the store did not do, and counts it if the store is to blame.
func (a *API) failed(err error) error {
	code := route.Internal
	if e, ok := errors.AsType[*menu.Error](err); ok {
		code = of(e)
	} else if errors.Is(err, context.DeadlineExceeded) {
		code = of(menu.ErrUnavailable)
	}
	if answers[code].Status >= http.StatusInternalServerError && code != of(menu.ErrOverloaded) && code != of(menu.ErrUntold) {
		a.metrics.storeFailures.Inc()
		a.failures.Log("error", err)
	}
	return &route.Error{Code: code, Err: err}
}

// notAllowed refuses a method with those that there are.
func notAllowed(ctx *fasthttp.RequestCtx, code route.Code, methods string) error {
	ctx.Response.Header.Set(fasthttp.HeaderAllow, methods)
	return &route.Error{Code: code}
}
