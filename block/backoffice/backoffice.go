// Package backoffice is pages for people who have signed in, at Path of a server: it asks who
// they are, keeps forged requests out, and shows a system's own pages in one layout. Pages are
// plain HTML: they have no script and need none.
//
// It keeps nothing itself: accounts are a file's, and a session is a signed cookie, so that any
// of several servers with one key and one file of accounts knows it. What the pages do is the
// system's business.
//
// What changes something must come from a page of this host (Sec-Fetch-Site or Origin), and
// cookies are SameSite=Strict. Signing in is limited by account and address, and few passwords
// are checked at a time.
//
// # Templates
//
// Those of a system begin with {{template "top" .}} and end with {{template "end" .}}. There are
// "when", which shows a time.Time, "field", which shows an Input, and the functions of
// functions.
package backoffice

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/valyala/fasthttp"

	"loadstone/block/account"
	"loadstone/block/dataset"
	"loadstone/block/forwarded"
	"loadstone/block/ratelimit"
	"loadstone/block/route"
)

// Path is where the pages are.
const Path = "/admin"

// timeout bounds what a page waits for its data: a database that is asked a few times.
const timeout = 5 * time.Second

//go:embed *.gohtml
var pages embed.FS

//go:embed style.css
var style string

// Config is what an Office needs. All but Proxies, Style and Functions are required.
type Config struct {
	// Name is that of the system: cookies and metrics have names that begin with it.
	Name string
	// Links lead to the main pages, the first to Path.
	Links []Link
	// Pages are the system's templates, NAME.gohtml, and Functions what they call.
	Pages     fs.FS
	Functions template.FuncMap
	// Style is the system's style sheet, beside that of every office.
	Style string
	// Done are the sentences about what was just done, by their names in addresses.
	Done map[string]string
	// Answer answers with a page for who is signed in. What it returns is shown as Explain says.
	Answer func(r *Request) error
	// Explain says what an error means for people; nil for one that is logged, and not shown.
	Explain func(r *Request, err error) *Refusal

	// Accounts are who may sign in now. It must be fast and safe for concurrent use.
	Accounts func() *account.Accounts
	// Key signs sessions: MinKeyBytes at least, and the same wherever they are to be known.
	Key string
	// Proxies are those whose X-Forwarded-For is believed about who signs in.
	Proxies forwarded.Proxies
	// Logger is told who signs in, and about failures, at most one in ten seconds.
	Logger *slog.Logger
	// Registerer receives {name}_admin_sign_ins_total, by outcome: done, wrong, limited.
	Registerer prometheus.Registerer
}

// Link is an address with its name.
type Link struct{ Path, Name string }

// Validate returns what is wrong with the configuration, or nil.
func (c Config) Validate() error {
	if c.Name == "" || len(c.Links) == 0 || c.Pages == nil || c.Answer == nil || c.Explain == nil || c.Accounts == nil || c.Logger == nil || c.Registerer == nil {
		return errors.New("backoffice: a name, links, pages, an answer, an explanation, the accounts, the logger or the registerer is missing")
	}
	if len(c.Key) < MinKeyBytes {
		return fmt.Errorf("backoffice: the key of sessions has %d bytes: write at least %d", len(c.Key), MinKeyBytes)
	}
	return nil
}

// Office answers with pages. It is safe for concurrent use.
type Office struct {
	cfg      Config
	layout   *template.Template
	style    template.CSS
	policy   string // Content-Security-Policy
	tries    *ratelimit.Limiter
	hashing  account.Turns
	signIns  *prometheus.CounterVec
	failures *route.ErrorLog
	wrong    *route.ErrorLog
}

// New reads the templates and registers the metrics.
func New(cfg Config) (*Office, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	layout, err := template.New("").Funcs(functions).Funcs(cfg.Functions).ParseFS(pages, "*.gohtml")
	if err == nil {
		layout, err = layout.ParseFS(cfg.Pages, "*.gohtml")
	}
	if err != nil {
		return nil, fmt.Errorf("read the templates of the admin: %w", err)
	}
	all := strings.TrimSpace(style + cfg.Style)
	cfg.Logger = cfg.Logger.With("component", "admin")
	return &Office{
		cfg: cfg, layout: layout, style: template.CSS(all), //nolint:gosec // our own files
		policy: "default-src 'none'; style-src " + route.Source(all) +
			"; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
		tries: ratelimit.New(maxKeys), hashing: account.NewTurns(),
		signIns: promauto.With(cfg.Registerer).NewCounterVec(prometheus.CounterOpts{
			Name: cfg.Name + "_admin_sign_ins_total", Help: "Attempts to sign in, by outcome.",
		}, []string{"outcome"}),
		failures: route.NewErrorLog(cfg.Logger, "a page of the admin failed"),
		wrong:    route.NewErrorLog(cfg.Logger, "somebody failed to sign in"),
	}, nil
}

// Request is one that is being answered, of who is signed in.
type Request struct {
	*fasthttp.RequestCtx

	Account *account.Account
	// Within ends when nobody waits for the answer any more.
	Within context.Context //nolint:containedctx // it lives as long as the request

	office *Office
	path   []string
}

// View is what a template is given.
type View struct {
	Title string
	// Done says what was done before this page, Problem what was not.
	Done, Problem string
	// Page is what the page itself is about.
	Page any

	// Those are set by Show.
	Style   template.CSS
	Links   []Link
	Account *account.Account
}

// Refusal is an answer in place of a page: a sentence for people.
type Refusal struct { //nolint:errname // it is shown as it is
	Status int
	Text   string
}

func (r *Refusal) Error() string { return r.Text }

// Handle answers whatever is at Path and below, for route.Routes. It always returns nil: people
// see problems as pages.
func (o *Office) Handle(ctx *fasthttp.RequestCtx) error {
	header := &ctx.Response.Header
	header.Set(fasthttp.HeaderContentSecurityPolicy, o.policy)
	header.Set(fasthttp.HeaderXContentTypeOptions, "nosniff")
	header.Set(fasthttp.HeaderCacheControl, "no-store")
	// With no-referrer browsers would send "Origin: null" with forms.
	header.Set(fasthttp.HeaderReferrerPolicy, "same-origin")
	within, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	// Paths are taken as they were sent: nothing in them is decoded.
	path := strings.Split(strings.TrimPrefix(string(ctx.URI().PathOriginal()), Path), "/")[1:]
	r := &Request{RequestCtx: ctx, Within: within, office: o, path: path}
	if err := r.answer(); err != nil {
		r.refuse(err)
	}
	return nil
}

func (r *Request) answer() error {
	if r.IsPost() && !sameOrigin(r.RequestCtx) {
		return &Refusal{http.StatusForbidden, "This did not come from a page of this address. Open the page again and send it from there."}
	}
	page := strings.Join(r.path, "/")
	if page == "sign-in" && r.IsPost() {
		return r.signIn()
	}
	r.Account = r.office.signedIn(r.RequestCtx)
	switch {
	case r.Account == nil:
		return r.showSignIn(http.StatusUnauthorized, "", string(r.RequestURI()))
	case page == "sign-in":
		return r.Redirect("")
	case page == "sign-out" && r.IsPost():
		return r.signOut()
	}
	return r.office.cfg.Answer(r)
}

// Route is the method, GET or POST, and the path below Path, such as "POST menus/ID/edit" for the
// collection menus, with the id that stands there, 0 if none does. It reports false for an id that
// is none.
func (r *Request) Route(collection string) (name string, id int64, ok bool) {
	name, ok = "GET ", true
	if r.IsPost() {
		name = "POST "
	}
	path := r.path
	if len(path) > 1 && path[0] == collection {
		id, ok = dataset.ParseID(path[1])
		path = append([]string{collection, "ID"}, path[2:]...)
	}
	return name + strings.Join(path, "/"), id, ok
}

// sameOrigin reports whether a browser sent this from a page of this host. Browsers say so in
// Sec-Fetch-Site over HTTPS and to the same machine, else in Origin.
func sameOrigin(ctx *fasthttp.RequestCtx) bool {
	if site := ctx.Request.Header.Peek("Sec-Fetch-Site"); len(site) > 0 {
		return string(site) == "same-origin"
	}
	origin, err := url.Parse(string(ctx.Request.Header.Peek(fasthttp.HeaderOrigin)))
	return err == nil && origin.Host != "" && strings.EqualFold(origin.Host, string(ctx.Host()))
}

// Done is what was done before this page, as its address says.
func (r *Request) Done() string { return r.office.cfg.Done[string(r.QueryArgs().Peek("done"))] }

// Show answers with the page of a template.
func (r *Request) Show(status int, page string, v View) error {
	v.Style, v.Links, v.Account = r.office.style, r.office.cfg.Links, r.Account
	var text bytes.Buffer
	if err := r.office.layout.ExecuteTemplate(&text, page+".gohtml", v); err != nil {
		return fmt.Errorf("make the page %s: %w", page, err)
	}
	r.SetStatusCode(status)
	r.SetContentType("text/html; charset=utf-8")
	r.SetBody(text.Bytes())
	return nil
}

// refuse shows why a request was not done.
func (r *Request) refuse(err error) {
	shown, ok := errors.AsType[*Refusal](err)
	if !ok {
		if shown = r.office.cfg.Explain(r, err); shown == nil {
			shown = &Refusal{http.StatusInternalServerError, "The server made a mistake, which is in its log."}
			r.Failed(err)
		}
	}
	if shown.Status == http.StatusServiceUnavailable || shown.Status == http.StatusTooManyRequests {
		r.Response.Header.Set(fasthttp.HeaderRetryAfter, "1")
	}
	if err := r.Show(shown.Status, "refused", View{Title: "That did not work", Problem: shown.Text}); err != nil {
		panic(err) // a mistake of ours
	}
}

// Failed logs what went wrong, and is not for who asked.
func (r *Request) Failed(err error) { r.office.failures.Log("error", err) }

// Unanswered is what people see who may have changed something: the database did not answer, which is
// logged.
func (r *Request) Unanswered(err error) *Refusal {
	r.Failed(err)
	return &Refusal{http.StatusServiceUnavailable, "The database does not answer. What you sent may or may not be stored: look before you send it again."}
}

// Busy is what people see who are not served, so that others are.
func Busy() *Refusal { return errBusy }

// Sentence is an error's text as one.
func Sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// Redirect leads to a page of ours, by GET.
func (r *Request) Redirect(path string) error {
	r.SetStatusCode(http.StatusSeeOther)
	r.Response.Header.Set(fasthttp.HeaderLocation, Path+path)
	return nil
}
