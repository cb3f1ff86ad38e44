package web

import (
	"fmt"

	"github.com/valyala/fasthttp"
)

// How the waiting cookie's attribute Secure is chosen.
const (
	CookieAuto = "auto" // for those who came over HTTPS
	CookieOn   = "on"
	CookieOff  = "off"
)

// SecureCookie returns the Config.SecureCookie of that name. overHTTPS tells for
// CookieAuto whether a client came over HTTPS.
func SecureCookie(name string, overHTTPS func(ctx *fasthttp.RequestCtx) bool) (func(ctx *fasthttp.RequestCtx) bool, error) {
	switch name {
	case CookieAuto:
		return overHTTPS, nil
	case CookieOn, CookieOff:
		return func(*fasthttp.RequestCtx) bool { return name == CookieOn }, nil
	}
	return nil, fmt.Errorf("secure cookie is %q, must be %q, %q or %q", name, CookieAuto, CookieOn, CookieOff)
}
