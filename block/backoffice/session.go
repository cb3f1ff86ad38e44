package backoffice

import (
	"crypto/hmac"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"loadstone/block/account"
)

// SessionTime is how long somebody stays signed in: a working day.
const SessionTime = 12 * time.Hour

// MinKeyBytes is the least length of the key that sessions are signed with.
const MinKeyBytes = 16

// A session's cookie is NAME:END:SIGNATURE, END in Unix seconds. No server keeps it, so that any
// of several that have the key and the accounts knows it.

// cookieName is that of the session's cookie.
func (o *Office) cookieName() string { return o.cfg.Name + "_admin" }

// sign is the signature of a session. It covers the hash of the account's password, so that
// a new password ends all sessions, and those of a removed account stay ended.
func (o *Office) sign(a *account.Account, end string) string {
	return a.Sign([]byte(o.cfg.Key), o.cfg.Name+" admin session\n"+a.Name+"\n"+end)
}

// begin lets the browser have a session.
func (o *Office) begin(ctx *fasthttp.RequestCtx, a *account.Account) {
	end := strconv.FormatInt(time.Now().Add(SessionTime).Unix(), 10)
	o.setCookie(ctx, strings.Join([]string{a.Name, end, o.sign(a, end)}, ":"), int(SessionTime.Seconds()))
}

// signedIn returns whose session the request is part of, nil if there is none.
func (o *Office) signedIn(ctx *fasthttp.RequestCtx) *account.Account {
	parts := strings.Split(string(ctx.Request.Header.Cookie(o.cookieName())), ":")
	if len(parts) != 3 {
		return nil
	}
	end, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil || time.Now().Unix() >= end {
		return nil
	}
	a := o.cfg.Accounts().Find(parts[0])
	if a == nil || !hmac.Equal([]byte(parts[2]), []byte(o.sign(a, parts[1]))) {
		return nil
	}
	return a
}

// setCookie sets the session's cookie, or removes it if seconds is below 0.
func (o *Office) setCookie(ctx *fasthttp.RequestCtx, value string, seconds int) {
	cookie := fasthttp.AcquireCookie()
	defer fasthttp.ReleaseCookie(cookie)
	cookie.SetKey(o.cookieName())
	cookie.SetValue(value)
	cookie.SetPath(Path)
	cookie.SetHTTPOnly(true)
	cookie.SetSameSite(fasthttp.CookieSameSiteStrictMode)
	cookie.SetMaxAge(seconds)
	if seconds < 0 {
		cookie.SetExpire(fasthttp.CookieExpireDelete)
	}
	// Who says this falsely has a cookie that his own browser does not send.
	proto := ctx.Request.Header.Peek(fasthttp.HeaderXForwardedProto)
	cookie.SetSecure(ctx.IsTLS() || strings.EqualFold(string(proto), "https"))
	ctx.Response.Header.SetCookie(cookie)
}
