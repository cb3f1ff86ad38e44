package backoffice

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/valyala/fasthttp"

	"loadstone/block/account"
	"loadstone/block/forwarded"
)

// maxSignInBytes bounds the form with which one signs in: anybody may send it.
const maxSignInBytes = 4 << 10

// showSignIn asks who it is. next is where to go on, a path of ours.
func (r *Request) showSignIn(status int, problem, next string) error {
	if r.IsPost() && problem == "" {
		next = Path // what was sent cannot be asked for again
	}
	return r.Show(status, "signin", View{Title: "Sign in", Problem: problem, Page: map[string]any{
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

func (r *Request) signIn() error {
	if len(r.PostBody()) > maxSignInBytes {
		return &Refusal{http.StatusRequestEntityTooLarge, "The form is too large."}
	}
	args := r.PostArgs()
	name, password, next := Line(args.Peek("name")), string(args.Peek("password")), string(args.Peek("next"))
	from := r.client()
	address := forwarded.Network(from).String()
	pair, tries := address+" "+name, r.office.tries
	if len(name) > account.MaxPassword || !tries.Take(address, triesOfAddress, addressAgain) || !tries.Take(pair, triesOfName, nameAgain) {
		r.office.signIns.WithLabelValues("limited").Inc()
		r.office.wrong.Log("account", fmt.Sprintf("%.64q", name), "from", from, "limited", true)
		return r.showSignIn(http.StatusTooManyRequests, "These were too many attempts. Wait for a minute.", next)
	}
	var who *account.Account
	if r.office.hashing.Do(r.Within, func() { who = r.office.cfg.Accounts().Check(name, password) }) != nil {
		return errBusy
	}
	if who == nil {
		r.office.signIns.WithLabelValues("wrong").Inc()
		r.office.wrong.Log("account", fmt.Sprintf("%.64q", name), "from", from)
		return r.showSignIn(http.StatusUnauthorized, "There is no account with this name and password.", next)
	}
	tries.Forget(pair)
	r.office.signIns.WithLabelValues("done").Inc()
	r.office.cfg.Logger.Info("signed in", "account", who.Name, "from", from)
	r.office.begin(r.RequestCtx, who)
	return r.Redirect(strings.TrimPrefix(ours(next), Path))
}

// client is the address that the request came from, as far as proxies are believed.
func (r *Request) client() netip.Addr {
	peer, ok := r.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return r.office.cfg.Proxies.Client(peer.AddrPort().Addr(), r.Request.Header.PeekAll(fasthttp.HeaderXForwardedFor))
}

// signOut takes the session from this browser. One that was copied elsewhere lasts until its end.
func (r *Request) signOut() error {
	r.office.setCookie(r.RequestCtx, "", -1)
	return r.Redirect("")
}
