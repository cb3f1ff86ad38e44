package admin

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
)

// SessionTime is how long somebody stays signed in: a working day.
const SessionTime = 12 * time.Hour

// MinKeyBytes is the least length of the key that sessions are signed with.
const MinKeyBytes = 16

// cookieName is the session's. What it holds is NAME:END:SIGNATURE, END in Unix seconds. No
// server keeps it, so that any of several that have the key and the accounts knows it.
const cookieName = "menu_admin"

// sign is the signature of a session. It covers the hash of the account's password, so that
// a new password ends all sessions, and those of a removed account stay ended.
func (a *Admin) sign(account *Account, end string) string {
	mac := hmac.New(sha256.New, a.key)
	mac.Write([]byte("menu admin session\n" + account.Name + "\n" + end + "\n" + account.hash))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// begin lets the browser have a session.
func (a *Admin) begin(ctx *fasthttp.RequestCtx, account *Account) {
	end := strconv.FormatInt(time.Now().Add(SessionTime).Unix(), 10)
	setCookie(ctx, strings.Join([]string{account.Name, end, a.sign(account, end)}, ":"), int(SessionTime.Seconds()))
}

// signedIn returns whose session the request is part of, nil if there is none.
func (a *Admin) signedIn(ctx *fasthttp.RequestCtx) *Account {
	parts := strings.Split(string(ctx.Request.Header.Cookie(cookieName)), ":")
	if len(parts) != 3 {
		return nil
	}
	end, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil || time.Now().Unix() >= end {
		return nil
	}
	account := a.cfg.Accounts().find(parts[0])
	if account == nil || !hmac.Equal([]byte(parts[2]), []byte(a.sign(account, parts[1]))) {
		return nil
	}
	return account
}

// setCookie sets the session's cookie, or removes it if seconds is below 0.
func setCookie(ctx *fasthttp.RequestCtx, value string, seconds int) {
	cookie := fasthttp.AcquireCookie()
	defer fasthttp.ReleaseCookie(cookie)
	cookie.SetKey(cookieName)
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
