package serve

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/valyala/fasthttp"

	"loadstone/block/route"
	"loadstone/system/chat"
	"loadstone/system/chat/users"
)

// How often one may try to sign up or in, or be another name: so many times at once, and then
// once in a while. That of an account from everywhere is high, for who reaches it locks its
// owner out of signing in; sessions go on.
const (
	triesOfNetwork, networkAgain = 30, 10 * time.Second
	triesOfPair, pairAgain       = 5, time.Minute // an account from a network
	triesOfAccount, accountAgain = 100, 30 * time.Second
)

// cookie is where a browser keeps the refresh token: no script reads it, no other site has it
// sent, and only sessionPath is sent it.
const cookie, sessionPath = "chat_session", "/api/session"

// outcomes counts what became of attempts.
type outcomes struct{ signIns, refreshes *prometheus.CounterVec }

// newOutcomes registers
//
//	chat_sign_ins_total{outcome}   done, wrong or limited; by password and elsewhere
//	chat_refreshes_total{outcome}  done, wrong or reused
func newOutcomes(to prometheus.Registerer) outcomes {
	counter := func(name, help string, all ...string) *prometheus.CounterVec {
		v := promauto.With(to).NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"outcome"})
		for _, outcome := range all {
			v.WithLabelValues(outcome)
		}
		return v
	}
	return outcomes{
		counter("chat_sign_ins_total", "Attempts to sign in.", "done", "wrong", "limited"),
		counter("chat_refreshes_total", "Refresh tokens that were shown.", "done", "wrong", "reused"),
	}
}

// widerNetworks are those of one customer (RFC 6177), by the bits of their prefix, and how many
// times as much as a /64 each may try.
var widerNetworks = map[int]int{56: 4, 48: 16}

// mayTryFrom reports whether one more attempt from a network is within the bounds.
func (s *server) mayTryFrom(network netip.Addr) bool {
	may := s.tries.Take("network "+network.String(), triesOfNetwork, networkAgain)
	for bits, times := range widerNetworks {
		if network.Is6() {
			wider := netip.PrefixFrom(network, bits).Masked().String()
			may = may && s.tries.Take("network "+wider, triesOfNetwork*times, networkAgain/time.Duration(times))
		}
	}
	return may
}

// mayTry is mayTryFrom with an e-mail address, which is a key: what stands before each keeps
// those of different kinds apart, whatever is written.
func (s *server) mayTry(network netip.Addr, email string) bool {
	const longest = 254 // no account has a longer one
	return len(email) <= longest && s.mayTryFrom(network) &&
		s.tries.Take(pairKey(network, email), triesOfPair, pairAgain) && s.tries.Take("account "+strings.ToLower(email), triesOfAccount, accountAgain)
}

// pairKey is of an account from a network.
func pairKey(network netip.Addr, email string) string {
	return "pair " + network.String() + " " + strings.ToLower(email)
}

// signUp answers POST /api/users: the same, whether there is an account or not.
func (s *server) signUp(c context.Context, ctx *fasthttp.RequestCtx) error {
	var form struct{ Email, Password, Name string }
	if err := read(ctx, &form, `{"email":"...","password":"...","name":"..."}`); err != nil {
		return err
	}
	n := users.New{Email: form.Email, Password: form.Password, Name: form.Name, Role: chat.Member}
	err := s.ours(ctx)
	if err == nil {
		err = n.Check()
	}
	if err == nil && !s.mayTry(s.network(ctx), n.Email) {
		err = chat.ErrTooMany
	}
	if err == nil {
		err = s.people.SignUp(c, n)
	}
	if err != nil {
		return err
	}
	return answer(ctx, fasthttp.StatusAccepted, map[string]string{"next": "sign in with the e-mail address and the password"})
}

// signIn answers POST /api/session.
func (s *server) signIn(c context.Context, ctx *fasthttp.RequestCtx) error {
	var form struct {
		Email    string `json:"email"`
		Password string `json:"password"`
	}
	if err := read(ctx, &form, `{"email":"...","password":"..."}`); err != nil {
		return err
	}
	if err := s.ours(ctx); err != nil {
		return err
	}
	network := s.network(ctx)
	if !s.mayTry(network, form.Email) {
		s.outcomes.signIns.WithLabelValues("limited").Inc()
		return chat.ErrTooMany
	}
	u, err := s.people.SignIn(c, form.Email, form.Password)
	if err != nil {
		if errors.Is(err, chat.ErrSignIn) {
			s.outcomes.signIns.WithLabelValues("wrong").Inc()
		}
		return err
	}
	s.tries.Forget(pairKey(network, form.Email))
	if err := s.begin(c, ctx, u); err != nil {
		return err
	}
	return s.granted(ctx, fasthttp.StatusCreated, u)
}

// begin lets the browser have a session.
func (s *server) begin(c context.Context, ctx *fasthttp.RequestCtx, u *users.User) error {
	session, err := s.people.Begin(c, u)
	if err == nil {
		s.outcomes.signIns.WithLabelValues("done").Inc()
		remember(ctx, session)
	}
	return err
}

// remember lets the browser keep a session's refresh token.
func remember(ctx *fasthttp.RequestCtx, session users.Session) {
	setCookie(ctx, cookie, session.Refresh, sessionPath, time.Until(session.Until))
}

// granted answers with an access token.
func (s *server) granted(ctx *fasthttp.RequestCtx, status int, u *users.User) error {
	of := u.Token()
	token, err := s.access.Sign(&of)
	if err != nil {
		return err
	}
	return answer(ctx, status, map[string]any{
		"token": token, "user": u.ID, "name": u.Name, "role": u.Role, "picture": u.Picture, "expires": of.Until.UTC(),
	})
}

// refresh answers POST /api/session/refresh: another access token, and another refresh token in
// place of the cookie's; 204 where there is no cookie.
func (s *server) refresh(c context.Context, ctx *fasthttp.RequestCtx) error {
	if err := s.ours(ctx); err != nil {
		return err
	}
	if !within(s.guests, "refresh "+s.network(ctx).String(), s.cfg.GuestsPerNetwork) {
		return chat.ErrTooMany
	}
	token := string(ctx.Request.Header.Cookie(cookie))
	if token == "" { // a page asks without knowing whether it has one, and this is no mistake
		ctx.SetStatusCode(fasthttp.StatusNoContent)
		return nil
	}
	u, session, err := s.people.Refresh(c, token)
	switch {
	case errors.Is(err, users.ErrReused):
		s.outcomes.refreshes.WithLabelValues("reused").Inc()
		s.logger.Warn("a refresh token was used twice, and its session is ended", "user", u.ID, "from", s.network(ctx))
	case errors.Is(err, chat.ErrToken):
		s.outcomes.refreshes.WithLabelValues("wrong").Inc()
	case err == nil:
		s.outcomes.refreshes.WithLabelValues("done").Inc()
		remember(ctx, session)
		return s.granted(ctx, fasthttp.StatusOK, u)
	}
	if errors.Is(err, chat.ErrToken) {
		setCookie(ctx, cookie, "", sessionPath, -1)
	}
	return err
}

// signOut answers DELETE /api/session.
func (s *server) signOut(c context.Context, ctx *fasthttp.RequestCtx) error {
	if err := s.ours(ctx); err != nil {
		return err
	}
	// Each that has a cookie, whatever is in it, is a write for which all others that sign in wait.
	if token := string(ctx.Request.Header.Cookie(cookie)); token != "" {
		if !within(s.guests, "sign out "+s.network(ctx).String(), s.cfg.GuestsPerNetwork) {
			return chat.ErrTooMany
		}
		if err := s.people.End(c, token); err != nil {
			return err
		}
	}
	setCookie(ctx, cookie, "", sessionPath, -1)
	ctx.SetStatusCode(fasthttp.StatusNoContent)
	return nil
}

// me answers GET and POST /api/me: who one is, and what else one wants to be called.
func (s *server) me(c context.Context, ctx *fasthttp.RequestCtx) error {
	who, err := s.needs(c, ctx, chat.Member)
	if err != nil {
		return err
	}
	if ctx.IsPost() {
		var form struct{ Name, Picture string }
		if err := read(ctx, &form, `{"name":"...","picture":"https://..."}`); err != nil {
			return err
		}
		if !s.tries.Take("me "+who.ID, triesOfPair, pairAgain) {
			return chat.ErrTooMany
		}
		if err := s.people.SetProfile(c, who.ID, form.Name, form.Picture); err != nil {
			return err
		}
	}
	u, err := s.people.Find(c, who.ID)
	if err != nil {
		return err
	}
	return answer(ctx, fasthttp.StatusOK, map[string]any{"user": u.ID, "name": u.Name, "role": u.Role, "picture": u.Picture, "email": u.Email, "followers": u.Followers})
}

// ways answers GET /api/ways: how one may come in, and of which origins pictures are shown.
func (s *server) ways(ctx *fasthttp.RequestCtx) error {
	provider := ""
	if s.provider != nil {
		provider = s.cfg.OIDC.Name
	}
	return answer(ctx, fasthttp.StatusOK, map[string]any{
		"guests": s.cfg.Guests, "provider": provider, "pictures": append([]string{}, s.cfg.Pictures...),
	})
}

// setCookie lets the browser keep a text for so long, or forget it if that is below 0.
func setCookie(ctx *fasthttp.RequestCtx, name, value, path string, keep time.Duration) {
	c := fasthttp.AcquireCookie()
	defer fasthttp.ReleaseCookie(c)
	c.SetKey(name)
	c.SetValue(value)
	c.SetPath(path)
	c.SetHTTPOnly(true)
	c.SetSameSite(fasthttp.CookieSameSiteStrictMode)
	if path == providerPath { // its page leads here, from another site
		c.SetSameSite(fasthttp.CookieSameSiteLaxMode)
	}
	c.SetMaxAge(int(keep.Seconds()))
	if keep < 0 {
		c.SetExpire(fasthttp.CookieExpireDelete)
	}
	// Who says this falsely has a cookie that his own browser does not send.
	c.SetSecure(strings.EqualFold(string(ctx.Request.Header.Peek(fasthttp.HeaderXForwardedProto)), "https"))
	ctx.Response.Header.SetCookie(c)
}

// accounts adds what is about oneself and about hosts.
func (s *server) accounts(r *route.Routes) {
	signUp, signIn, signOut, refresh := timed(s.signUp), timed(s.signIn), timed(s.signOut), timed(s.refresh)
	if s.accountsElsewhere() {
		none := func(*fasthttp.RequestCtx) error { return failure(chat.ErrNotHere) }
		signUp, signIn, signOut = none, none, none
		refresh = func(ctx *fasthttp.RequestCtx) error { ctx.SetStatusCode(fasthttp.StatusNoContent); return nil }
	}
	r.Add(http.MethodPost, "/api/users", signUp)
	r.Add(http.MethodPost, sessionPath, signIn)
	r.Add(http.MethodDelete, sessionPath, signOut)
	r.Add(http.MethodPost, sessionPath+"/refresh", refresh)
	r.Add(http.MethodGet, "/api/me", timed(s.me))
	r.Add(http.MethodPost, "/api/me", timed(s.me))
	r.Add(http.MethodGet, "/api/ways", s.ways)
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete} {
		r.Add(method, "/api/hosts/", timed(s.host))
	}
	s.elsewhere(r)
}

// accountsElsewhere reports whether a server of their own has the accounts, see RunAccounts.
func (s *server) accountsElsewhere() bool { return s.own == nil && s.hub != nil }
