// Package admin is where editors sign in, write drafts of menus, look at them as guests will,
// publish them, roll back, and see who changed what:
//
//	/admin                          drafts, the last changes, a box to find menus
//	/admin/menus?q=                 a menu by its id, or dishes by name
//	/admin/menus/{id}               what is published, and the draft beside it
//	/admin/menus/{id}/edit          the draft as a form
//	/admin/menus/{id}/preview       the draft as guests will see it
//	/admin/menus/{id}/history       what it was before, and what changed
//	/admin/menus/{id}/availability  what is sold out, and which sections are served when
//	/admin/log                      all changes, the newest first
//
// with POST to /edit, /publish, /discard, /roll-back, /sold-out and /availability of a menu,
// /admin/sign-in and /admin/sign-out. Pages are plain HTML: they have no script and need none.
//
// It keeps nothing itself: menus, drafts and the log are the Desk's, writes go through the
// Writer that the interface for programs has, and a session is a signed cookie, so that
// any of several servers with one key and one file of accounts knows it.
//
// # Who may do what
//
// What changes something must come from a page of this host (Sec-Fetch-Site or Origin), and
// cookies are SameSite=Strict. Signing in is limited by account and address, and few passwords are
// checked at a time. Drafts and published menus are replaced only if they are still what
// the editor saw; who comes second is shown both.
//
// An editor writes drafts and says what is sold out, which lies over a menu and changes many
// times a day. A publisher publishes, rolls back, and sets the hours of sections.
package admin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/valyala/fasthttp"

	"loadstone/block/dataset"
	"loadstone/block/forwarded"
	"loadstone/block/route"
	"loadstone/system/menu"
)

// Path is where the pages are.
const Path = "/admin"

// timeout bounds what a page waits for its data: a database that is asked a few times.
const timeout = 5 * time.Second

//go:embed *.gohtml
var pages embed.FS

//go:embed admin.css
var style string

// Config is what an Admin needs. All but Proxies and Search are required.
type Config struct {
	Desk menu.Desk
	// Writer changes the Desk's menus, and tells caches.
	Writer *menu.Writer
	// Accounts are who may sign in now. It must be fast and safe for concurrent use.
	Accounts func() *Accounts
	// Key signs sessions: MinKeyBytes at least, and the same wherever they are to be known.
	Key string
	// Proxies are those whose X-Forwarded-For is believed about who signs in.
	Proxies forwarded.Proxies
	// Preview answers with a menu as guests see it, under a banner that says what is shown
	// and leads to the path back.
	Preview func(ctx *fasthttp.RequestCtx, m *menu.Menu, banner, back string)
	// Search finds dishes; nil if only ids are found.
	Search menu.Searcher
	// Logger is told who signs in, and about failures of the store, at most one in ten seconds.
	Logger *slog.Logger
	// Registerer receives menu_admin_sign_ins_total, by outcome: done, wrong, limited.
	Registerer prometheus.Registerer
}

// Admin answers with pages. It is safe for concurrent use.
type Admin struct {
	cfg      Config
	key      []byte
	layout   *template.Template
	style    template.CSS
	policy   string // Content-Security-Policy
	tries    limiter
	hashing  turns
	signIns  *prometheus.CounterVec
	failures *route.ErrorLog
	wrong    *route.ErrorLog
}

// New reads the templates and registers the metrics.
func New(cfg Config) (*Admin, error) {
	if cfg.Desk == nil || cfg.Writer == nil || cfg.Accounts == nil || cfg.Preview == nil || cfg.Logger == nil || cfg.Registerer == nil {
		return nil, errors.New("admin: the desk, the writer, the accounts, the preview, the logger or the registerer is missing")
	}
	if len(cfg.Key) < MinKeyBytes {
		return nil, fmt.Errorf("admin: the key of sessions has %d bytes: write at least %d", len(cfg.Key), MinKeyBytes)
	}
	layout, err := template.New("").Funcs(functions).ParseFS(pages, "*.gohtml")
	if err != nil {
		return nil, fmt.Errorf("read the templates of the admin: %w", err)
	}
	trimmed := strings.TrimSpace(style)
	hash := sha256.Sum256([]byte(trimmed))
	logger := cfg.Logger.With("component", "admin")
	cfg.Logger = logger
	return &Admin{
		cfg: cfg, key: []byte(cfg.Key), layout: layout, style: template.CSS(trimmed), //nolint:gosec // our own file
		policy: "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(hash[:]) +
			"'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
		tries: limiter{keys: map[string]bucket{}}, hashing: newTurns(),
		signIns: promauto.With(cfg.Registerer).NewCounterVec(prometheus.CounterOpts{
			Name: "menu_admin_sign_ins_total", Help: "Attempts to sign in, by outcome.",
		}, []string{"outcome"}),
		failures: route.NewErrorLog(logger, "the store of menus failed"),
		wrong:    route.NewErrorLog(logger, "somebody failed to sign in"),
	}, nil
}

// request is one that is being answered, of who is signed in.
type request struct {
	*fasthttp.RequestCtx

	admin   *Admin
	account *Account
	within  context.Context //nolint:containedctx // it lives as long as the request
}

// view is what every template is given.
type view struct {
	Style   template.CSS
	Title   string
	Account *Account
	// Done says what was done before this page, Problem what was not.
	Done, Problem string
	// Page is what the page itself is about.
	Page any
}

// refusal is an answer in place of a page: a sentence for people.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return r.text }

// Handle answers whatever is at Path and below, for route.Routes. It always returns nil:
// editors see problems as pages.
func (a *Admin) Handle(ctx *fasthttp.RequestCtx) error {
	header := &ctx.Response.Header
	header.Set(fasthttp.HeaderContentSecurityPolicy, a.policy)
	header.Set(fasthttp.HeaderXContentTypeOptions, "nosniff")
	header.Set(fasthttp.HeaderCacheControl, "no-store")
	// With no-referrer browsers would send "Origin: null" with forms.
	header.Set(fasthttp.HeaderReferrerPolicy, "same-origin")
	within, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	r := &request{RequestCtx: ctx, admin: a, within: within}
	if err := r.answer(); err != nil {
		r.refuse(err)
	}
	return nil
}

// answer finds who answers. Paths are taken as they were sent: nothing in them is decoded.
func (r *request) answer() error {
	if r.IsPost() && !sameOrigin(r.RequestCtx) {
		return &refusal{http.StatusForbidden, "This did not come from a page of this address. Open the page again and send it from there."}
	}
	path := strings.Split(strings.TrimPrefix(string(r.URI().PathOriginal()), Path), "/")[1:]
	name := strings.Join(path, "/")
	if name == "sign-in" && r.IsPost() {
		return r.signIn()
	}
	if r.account = r.admin.signedIn(r.RequestCtx); r.account == nil {
		return r.showSignIn(http.StatusUnauthorized, "", string(r.RequestURI()))
	}
	id := int64(0)
	if len(path) > 1 && path[0] == "menus" {
		var ok bool
		if id, ok = dataset.ParseID(path[1]); !ok {
			return menu.ErrMalformedID
		}
		path[1] = "ID"
		name = strings.Join(path, "/")
	}
	method := "GET"
	if r.IsPost() {
		method = "POST"
	}
	if h, ok := handlers[method+" "+name]; ok {
		return h(r, id)
	}
	return &refusal{http.StatusNotFound, "There is no such page."}
}

var handlers = map[string]func(r *request, id int64) error{
	"GET ":                       (*request).home,
	"GET sign-in":                (*request).goHome,
	"GET log":                    (*request).log,
	"GET menus":                  (*request).find,
	"GET menus/ID":               (*request).overview,
	"GET menus/ID/edit":          (*request).edit,
	"GET menus/ID/preview":       (*request).preview,
	"GET menus/ID/history":       (*request).history,
	"GET menus/ID/availability":  (*request).availability,
	"POST sign-out":              (*request).signOut,
	"POST menus/ID/edit":         (*request).typed,
	"POST menus/ID/availability": (*request).setHours,
	"POST menus/ID/sold-out":     (*request).soldOut,
	"POST menus/ID/publish":      (*request).publish,
	"POST menus/ID/discard":      (*request).discard,
	"POST menus/ID/roll-back":    (*request).rollBack,
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

// show answers with the page of a template.
func (r *request) show(status int, page string, v view) error {
	v.Style, v.Account = r.admin.style, r.account
	var text bytes.Buffer
	if err := r.admin.layout.ExecuteTemplate(&text, page+".gohtml", v); err != nil {
		return fmt.Errorf("make the page %s: %w", page, err)
	}
	r.SetStatusCode(status)
	r.SetContentType("text/html; charset=utf-8")
	r.SetBody(text.Bytes())
	return nil
}

// refuse shows why a request was not done. What went wrong in the store is logged, and not shown.
func (r *request) refuse(err error) {
	shown := &refusal{http.StatusInternalServerError, "The server made a mistake, which is in its log."}
	switch {
	case errors.As(err, &shown):
	case errors.Is(err, menu.ErrMalformedID), errors.Is(err, menu.ErrNotFound):
		shown = &refusal{http.StatusNotFound, "There is no such menu. " + sentence(err)}
	case errors.Is(err, menu.ErrUntold):
		shown = &refusal{http.StatusServiceUnavailable, "Nothing was changed, for the caches of the proxies cannot be told. Go back and try again in a moment."}
	case errors.Is(err, menu.ErrOverloaded):
		shown = &refusal{http.StatusServiceUnavailable, "Nothing was changed: too much is under way. Go back and try again in a moment."}
	case errors.Is(err, menu.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		shown = &refusal{http.StatusServiceUnavailable, "The database does not answer. What you sent may or may not be stored: look before you send it again."}
		r.admin.failures.Log("error", err)
	case errors.Is(err, menu.ErrBounds):
		shown = &refusal{http.StatusBadRequest, sentence(err)}
	default:
		r.admin.failures.Log("error", err)
	}
	if shown.status == http.StatusServiceUnavailable || shown.status == http.StatusTooManyRequests {
		r.Response.Header.Set(fasthttp.HeaderRetryAfter, "1")
	}
	if err := r.show(shown.status, "refused", view{Title: "That did not work", Problem: shown.text}); err != nil {
		panic(err) // a mistake of ours
	}
}

// sentence is an error's text as one.
func sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// redirect leads to a page of ours, by GET.
func (r *request) redirect(path string) error {
	r.SetStatusCode(http.StatusSeeOther)
	r.Response.Header.Set(fasthttp.HeaderLocation, Path+path)
	return nil
}
