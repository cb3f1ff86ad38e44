// Package admin is where people sign in, find posts, write and edit them, take them and their
// comments down, and see who changed what:
//
//	/admin                   the newest posts, a box to find others
//	/admin/posts?q=          those with a word in their title, text or author's name
//	/admin/new               a post as a form
//	/admin/posts/{id}        a post, its comments, and its changes
//	/admin/posts/{id}/edit   it as a form
//	/admin/down              posts that are taken down
//	/admin/log               all changes, the latest first
//
// with POST to /new and to /edit, /take-down, /put-back and /comment of a post. Pages are plain HTML: they
// have no script and need none.
//
// It keeps nothing itself: posts and the log are the Desk's. Who signs in, and how forged
// requests are kept out, is package backoffice's business.
//
// # Who may do what
//
// A moderator sees everything, and takes posts and comments down and posts back up. An editor
// writes and edits posts, too. An edit is stored if the post still is what the editor saw; who
// comes second is told. Taking down needs no such thing: whatever it says by now, it is to go.
package admin

import (
	"context"
	"embed"
	"errors"
	"html/template"
	"net/http"
	"strconv"
	"time"

	"loadstone/block/account"
	"loadstone/block/backoffice"
	"loadstone/system/feed"
)

// Path is where the pages are.
const Path = backoffice.Path

// All roles. Each may do what those before it may.
const (
	// Moderator takes posts and comments down, and puts posts back.
	Moderator account.Role = "moderator"
	// Editor writes and edits posts.
	Editor account.Role = "editor"
)

// Roles are all of them.
func Roles() []account.Role { return []account.Role{Moderator, Editor} }

//go:embed *.gohtml
var pages embed.FS

//go:embed admin.css
var style string

// Config is what an Admin needs.
type Config struct {
	// Office is about those who sign in, see backoffice.Settings; New sets the rest of it.
	Office backoffice.Config
	Desk   feed.Desk
}

// Admin answers with pages. It is safe for concurrent use.
type Admin struct {
	*backoffice.Office

	desk feed.Desk
}

// New reads the templates and registers the metrics.
func New(cfg Config) (*Admin, error) {
	if cfg.Desk == nil {
		return nil, errors.New("admin: the desk is missing")
	}
	a := &Admin{desk: cfg.Desk}
	office := cfg.Office
	office.Name = "feed"
	office.Links = []backoffice.Link{{Path: Path, Name: "Posts"}, {Path: Path + "/down", Name: "Taken down"}, {Path: Path + "/log", Name: "Changes"}}
	office.Pages, office.Functions, office.Style, office.Done = pages, functions, style, done
	office.Explain = explain
	office.Answer = func(r *backoffice.Request) error { return (&request{r, a.desk}).answer() }
	var err error
	a.Office, err = backoffice.New(office)
	return a, err
}

// done are the sentences about what was just done, by their names in addresses.
var done = map[string]string{
	"saved":   "The post is saved, and in the feed.",
	"down":    "The post is taken down: this server shows it no more, and a publisher takes it out of what is published within seconds.",
	"back":    "The post is put back, in its old place.",
	"comment": "The comment is taken down.",
}

// request is one that is being answered, of who is signed in.
type request struct {
	*backoffice.Request

	desk feed.Desk
}

type (
	view    = backoffice.View
	refusal = backoffice.Refusal
	field   = backoffice.Field
)

// answer finds who answers.
func (r *request) answer() error {
	name, id, ok := r.Route("posts")
	h, there := handlers[name]
	if !ok || !there {
		return &refusal{Status: http.StatusNotFound, Text: "There is no such page."}
	}
	return h(r, id)
}

var handlers = map[string]func(r *request, id int64) error{
	"GET ":                    (*request).list,
	"GET posts":               (*request).list,
	"GET new":                 (*request).begin,
	"GET down":                (*request).down,
	"GET log":                 (*request).log,
	"GET posts/ID":            (*request).post,
	"GET posts/ID/edit":       (*request).edit,
	"POST new":                (*request).create,
	"POST posts/ID/edit":      (*request).save,
	"POST posts/ID/take-down": (*request).takeDown,
	"POST posts/ID/put-back":  (*request).putBack,
	"POST posts/ID/comment":   (*request).commentDown,
}

// explain is backoffice.Config's. What went wrong in the store is logged, and not shown.
func explain(r *backoffice.Request, err error) *refusal {
	switch {
	case errors.Is(err, feed.ErrNotFound):
		return &refusal{Status: http.StatusNotFound, Text: "There is no such post."}
	case errors.Is(err, feed.ErrOverloaded):
		return backoffice.Busy()
	case errors.Is(err, feed.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		return r.Unanswered(err)
	case errors.Is(err, feed.ErrBounds):
		return &refusal{Status: http.StatusBadRequest, Text: backoffice.Sentence(err)}
	}
	return nil
}

// functions are what templates call, beside those of package backoffice.
var functions = template.FuncMap{
	"time": time.UnixMilli,
	"did":  func(a feed.Action) string { return did[a] },
	"by": func(editor string) string {
		if editor == feed.EditorAPI {
			return "a program"
		}
		return editor
	},
}

// did is what somebody has done, for people.
var did = map[feed.Action]string{
	feed.Written: "written", feed.Edited: "edited", feed.TakenDown: "taken down", feed.PutBack: "put back",
	feed.CommentDown: "a comment taken down", feed.Erased: "erased",
}

func postPath(id int64) string { return "/posts/" + strconv.FormatInt(id, 10) }

// as is a change by who is signed in.
func (r *request) as(action feed.Action, id int64) feed.Change {
	return feed.Change{Action: action, Editor: r.Account.Name, Post: id}
}

func (r *request) mayWrite() bool { return r.Account.Role == Editor }

var errModerator = &refusal{Status: http.StatusForbidden, Text: "Your account may take posts and comments down. Ask an editor to write or edit."}
