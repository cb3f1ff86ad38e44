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
// with POST to /edit, /publish, /discard, /roll-back, /sold-out and /availability of a menu. Pages are plain HTML: they have no script and need none.
//
// It keeps nothing itself: menus, drafts and the log are the Desk's, and writes go through the
// Writer that the interface for programs has. Who signs in, and how forged requests are kept out, is
// package backoffice's business.
//
// # Who may do what
//
// Drafts and published menus are replaced only if they are still what the editor saw; who comes
// second is shown both.
//
// An editor writes drafts and says what is sold out, which lies over a menu and changes many
// times a day. A publisher publishes, rolls back, and sets the hours of sections.
package admin

import (
	"context"
	"embed"
	"errors"
	"net/http"

	"github.com/valyala/fasthttp"

	"loadstone/block/account"
	"loadstone/block/backoffice"
	"loadstone/system/menu"
)

// Path is where the pages are.
const Path = backoffice.Path

// All roles. Each may do what those before it may.
const (
	// Editor sees everything, writes drafts, and says what is sold out.
	Editor account.Role = "editor"
	// Publisher publishes drafts, rolls back, and sets the hours of sections.
	Publisher account.Role = "publisher"
)

// Roles are all of them.
func Roles() []account.Role { return []account.Role{Editor, Publisher} }

//go:embed *.gohtml
var pages embed.FS

//go:embed admin.css
var style string

// Config is what an Admin needs. All but Search are required.
type Config struct {
	// Office is about those who sign in, see backoffice.Settings; New sets the rest of it.
	Office backoffice.Config
	Desk   menu.Desk
	// Writer changes the Desk's menus, and tells caches.
	Writer *menu.Writer
	// Preview answers with a menu as guests see it, under a banner that says what is shown
	// and leads to the path back.
	Preview func(ctx *fasthttp.RequestCtx, m *menu.Menu, banner, back string)
	// Search finds dishes; nil if only ids are found.
	Search menu.Searcher
}

// Admin answers with pages. It is safe for concurrent use.
type Admin struct {
	*backoffice.Office

	cfg Config
}

// New reads the templates and registers the metrics.
func New(cfg Config) (*Admin, error) {
	if cfg.Desk == nil || cfg.Writer == nil || cfg.Preview == nil {
		return nil, errors.New("admin: the desk, the writer or the preview is missing")
	}
	a := &Admin{cfg: cfg}
	office := cfg.Office
	office.Name, office.Links = "menu", []backoffice.Link{{Path: Path, Name: "Menus"}, {Path: Path + "/log", Name: "Changes"}}
	office.Pages, office.Functions, office.Style, office.Done = pages, functions, style, done
	office.Explain = explain
	office.Answer = func(r *backoffice.Request) error { return (&request{r, a}).answer() }
	var err error
	a.Office, err = backoffice.New(office)
	return a, err
}

// request is one that is being answered, of who is signed in.
type request struct {
	*backoffice.Request

	admin *Admin
}

type (
	view    = backoffice.View
	refusal = backoffice.Refusal
	field   = backoffice.Field
)

// answer finds who answers.
func (r *request) answer() error {
	name, id, ok := r.Route("menus")
	if !ok {
		return menu.ErrMalformedID
	}
	if h, ok := handlers[name]; ok {
		return h(r, id)
	}
	return &refusal{Status: http.StatusNotFound, Text: "There is no such page."}
}

var handlers = map[string]func(r *request, id int64) error{
	"GET ":                       (*request).home,
	"GET log":                    (*request).log,
	"GET menus":                  (*request).find,
	"GET menus/ID":               (*request).overview,
	"GET menus/ID/edit":          (*request).edit,
	"GET menus/ID/preview":       (*request).preview,
	"GET menus/ID/history":       (*request).history,
	"GET menus/ID/availability":  (*request).availability,
	"POST menus/ID/edit":         (*request).typed,
	"POST menus/ID/availability": (*request).setHours,
	"POST menus/ID/sold-out":     (*request).soldOut,
	"POST menus/ID/publish":      (*request).publish,
	"POST menus/ID/discard":      (*request).discard,
	"POST menus/ID/roll-back":    (*request).rollBack,
}

// explain is backoffice.Config's. What went wrong in the store is logged, and not shown.
func explain(r *backoffice.Request, err error) *refusal {
	switch {
	case errors.Is(err, menu.ErrMalformedID), errors.Is(err, menu.ErrNotFound):
		return &refusal{Status: http.StatusNotFound, Text: "There is no such menu. " + backoffice.Sentence(err)}
	case errors.Is(err, menu.ErrUntold):
		return &refusal{Status: http.StatusServiceUnavailable, Text: "Nothing was changed, for the caches of the proxies cannot be told. Go back and try again in a moment."}
	case errors.Is(err, menu.ErrOverloaded):
		return backoffice.Busy()
	case errors.Is(err, menu.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		return r.Unanswered(err)
	case errors.Is(err, menu.ErrBounds):
		return &refusal{Status: http.StatusBadRequest, Text: backoffice.Sentence(err)}
	}
	return nil
}
