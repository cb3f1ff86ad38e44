package admin

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/valyala/fasthttp"
)

// maxSignInBytes bounds the form with which one signs in: anybody may send it.
const maxSignInBytes = 4 << 10

// showSignIn asks who it is. next is where to go on, a path of ours.
func (r *request) showSignIn(status int, problem, next string) error {
	if r.IsPost() && problem == "" {
		next = Path // what was sent cannot be asked for again
	}
	return r.show(status, "signin", view{Title: "Sign in", Problem: problem, Page: map[string]any{
		"Next": ours(next), "Resend": r.IsPost() && problem == "",
	}})
}

// ours is the path of a page here, or Path for what is none: who signs in is not led elsewhere.
func ours(next string) string {
	address, err := url.Parse(next)
	if err != nil || address.Scheme != "" || address.Host != "" || strings.ContainsAny(next, "\\\r\n\t") || next != Path && !strings.HasPrefix(next, Path+"/") {
		return Path
	}
	return next
}

func (r *request) signIn() error {
	if len(r.PostBody()) > maxSignInBytes {
		return &refusal{http.StatusRequestEntityTooLarge, "The form is too large."}
	}
	args := r.PostArgs()
	name, password, next := line(args.Peek("name")), string(args.Peek("password")), string(args.Peek("next"))
	from := r.client()
	address, pair := network(from), network(from)+" "+name
	tries := &r.admin.tries
	if len(name) > MaxPassword || !tries.take(address, triesOfAddress, addressAgain) || !tries.take(pair, triesOfName, nameAgain) {
		r.admin.signIns.WithLabelValues("limited").Inc()
		r.admin.wrong.Log("account", fmt.Sprintf("%.64q", name), "from", from, "limited", true)
		return r.showSignIn(http.StatusTooManyRequests, "These were too many attempts. Wait for a minute.", next)
	}
	var account *Account
	if err := r.admin.hashing.do(r.within, func() { account = r.admin.cfg.Accounts().check(name, password) }); err != nil {
		return err
	}
	if account == nil {
		r.admin.signIns.WithLabelValues("wrong").Inc()
		r.admin.wrong.Log("account", fmt.Sprintf("%.64q", name), "from", from)
		return r.showSignIn(http.StatusUnauthorized, "There is no account with this name and password.", next)
	}
	tries.forget(pair)
	r.admin.signIns.WithLabelValues("done").Inc()
	r.admin.cfg.Logger.Info("signed in", "account", account.Name, "from", from)
	r.admin.begin(r.RequestCtx, account)
	return r.redirect(strings.TrimPrefix(ours(next), Path))
}

// client is the address that the request came from, as far as proxies are believed.
func (r *request) client() netip.Addr {
	peer, ok := r.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return r.admin.cfg.Proxies.Client(peer.AddrPort().Addr(), r.Request.Header.PeekAll(fasthttp.HeaderXForwardedFor))
}

// signOut takes the session from this browser. One that was copied elsewhere lasts until its end.
func (r *request) signOut(int64) error {
	setCookie(r.RequestCtx, "", -1)
	return r.redirect("")
}

func (r *request) goHome(int64) error { return r.redirect("") }
