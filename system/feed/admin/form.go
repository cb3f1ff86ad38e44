package admin

import (
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"loadstone/block/backoffice"
	"loadstone/block/dataset"
	"loadstone/system/feed"
)

// MaxFormBytes bounds a form: the texts of a post, of which each byte may take three, and its
// media.
const MaxFormBytes = 128 << 10

// maxNames bounds the authors that a form offers.
const maxNames = 300

// form is a post as somebody is typing it, with what is wrong beside each field.
type form struct {
	ID int64
	// Version is that of the post that the form was made from, 0 also of a new one.
	Version int64
	New     bool
	// AuthorID is the author whose profile is in the form, 0 for none, and Seen that profile as it was read, in JSON.
	AuthorID int64
	Seen     string

	Title, Text            field
	Author, Role, Team     field
	About, Photo           field
	Pinned                 bool
	Media                  []medium
	Problem, Action, Leave string
	Names                  []string
	Focus                  int // the medium to go on at, -1 for none
}

// medium is a picture or a film that is being typed.
type medium struct{ Kind, URL, Alt, Width, Height field }

// mediumNames are the names of its fields, in the order of fields.
var mediumNames = [...]string{"kind", "url", "alt", "width", "height"}

func (m *medium) fields() [len(mediumNames)]*field {
	return [...]*field{&m.Kind, &m.URL, &m.Alt, &m.Width, &m.Height}
}

// formOf is the form for a post.
func formOf(k *feed.Kept) *form {
	f := &form{
		ID: k.ID, Version: k.Version, AuthorID: k.Author.ID, Pinned: k.Pinned, Focus: -1,
		Title: field{Value: k.Title}, Text: field{Value: k.Text}, Author: field{Value: nameOf(&k.Author)},
	}
	f.profile(&k.Author)
	f.see(&k.Author)
	for _, m := range k.Media {
		f.Media = append(f.Media, medium{field{Value: m.Kind}, field{Value: m.URL}, field{Value: m.Alt}, side(m.Width), side(m.Height)})
	}
	return f
}

// profile puts what is known of an author into the form.
func (f *form) profile(a *feed.Author) {
	f.Role, f.Team, f.About, f.Photo = field{Value: a.Role}, field{Value: a.Team}, field{Value: a.About}, field{Value: a.Photo}
}

// see notes what is known of the author.
func (f *form) see(a *feed.Author) {
	raw, err := json.Marshal(a)
	if err != nil {
		panic(err) // texts and a number are JSON
	}
	f.Seen = string(raw)
}

// seen is what see noted, nil if it did not.
func (f *form) seen() *feed.Author {
	var a feed.Author
	if json.Unmarshal([]byte(f.Seen), &a) != nil || a.ID != f.AuthorID {
		return nil
	}
	return &a
}

// nameOf is how the form names an author: names may be alike.
func nameOf(a *feed.Author) string {
	if a.ID == 0 {
		return a.Name
	}
	return a.Name + " (" + strconv.FormatInt(a.ID, 10) + ")"
}

// side is a width or height in pixels.
func side(n int) field {
	if n == 0 {
		return field{}
	}
	return field{Value: strconv.Itoa(n)}
}

// readForm reads what was typed. The error is that of a form that is none of ours.
func readForm(args *fasthttp.Args) (*form, error) {
	f := &form{Pinned: args.Has("pinned"), Focus: -1}
	var ok bool
	if f.ID, ok = dataset.ParseID(args.Peek("post")); !ok {
		return nil, backoffice.ErrForm
	}
	f.Version, f.AuthorID = number(args.Peek("version")), number(args.Peek("author-id"))
	f.Seen = string(args.Peek("author-seen"))
	if f.AuthorID != 0 && f.seen() == nil {
		return nil, backoffice.ErrForm
	}
	for name, to := range map[string]*field{
		"title": &f.Title, "text": &f.Text, "author": &f.Author, "role": &f.Role, "team": &f.Team, "about": &f.About, "photo": &f.Photo,
	} {
		to.Value = backoffice.Line(args.Peek(name))
	}
	f.Media = make([]medium, len(args.PeekMulti(mediumNames[0])))
	if len(f.Media) > feed.MaxMedia {
		return nil, backoffice.ErrForm
	}
	for at, name := range mediumNames {
		values := args.PeekMulti(name)
		if len(values) != len(f.Media) {
			return nil, backoffice.ErrForm
		}
		for i, value := range values {
			f.Media[i].fields()[at].Value = backoffice.Line(value)
		}
	}
	return f, nil
}

// press does what a button without script does: "add" a medium, or "up" or "remove" and the number of
// one. It reports false if there is no such button.
func (f *form) press(button string) bool {
	what, text, _ := strings.Cut(button, " ")
	i, err := strconv.Atoi(text)
	switch {
	case what == "add" && len(f.Media) < feed.MaxMedia:
		f.Media = append(f.Media, medium{Kind: field{Value: "image"}})
		f.Focus = len(f.Media) - 1
	case what == "add":
		f.Problem = "A post has no more pictures and films."
	case err != nil || i < 0 || i >= len(f.Media):
		return false
	case what == "up":
		f.Focus = max(i-1, 0)
		f.Media[i], f.Media[f.Focus] = f.Media[f.Focus], f.Media[i]
	case what == "remove":
		f.Media = slices.Delete(f.Media, i, i+1)
	default:
		return false
	}
	return true
}

// entry is what was typed as a post, but for its author's id and when it was published. What is no number
// stands beside its field.
func (f *form) entry() (e feed.Entry, good bool) {
	good = true
	e.Post = feed.Post{ID: f.ID, Title: f.Title.Value, Text: f.Text.Value, Pinned: f.Pinned}
	for i := range f.Media {
		m := &f.Media[i]
		pixels := func(of *field) int {
			if of.Value == "" {
				return 0
			}
			n, err := strconv.Atoi(of.Value)
			if err != nil {
				of.Problem, good = "write a number of pixels, or nothing", false
			}
			return n
		}
		e.Media = append(e.Media, feed.Medium{Kind: m.Kind.Value, URL: m.URL.Value, Alt: m.Alt.Value, Width: pixels(&m.Width), Height: pixels(&m.Height)})
	}
	return e, good
}

// check puts what is wrong with an entry beside the fields, and reports whether nothing is.
func (f *form) check(e *feed.Entry) bool {
	err := e.Validate()
	if err == nil {
		return true
	}
	fields := map[string]*field{
		"title": &f.Title, "text": &f.Text, "author.name": &f.Author, "author.role": &f.Role, "author.team": &f.Team, "author.about": &f.About, "author.photo": &f.Photo,
	}
	for i := range f.Media {
		for at, name := range mediumNames {
			fields["media["+strconv.Itoa(i)+"]."+name] = f.Media[i].fields()[at]
		}
	}
	rest := []string{}
	all, ok := err.(interface{ Unwrap() []error })
	if !ok {
		rest = append(rest, err.Error())
	} else {
		for _, err := range all.Unwrap() {
			name, _, _ := strings.Cut(err.Error(), " ")
			if to := fields[name]; to != nil {
				to.Problem = strings.TrimSpace(err.Error()[strings.LastIndex(name, ".")+1:])
			} else {
				rest = append(rest, err.Error())
			}
		}
	}
	f.Problem = strings.Join(append([]string{unsaved}, rest...), " ")
	return false
}

var numbered = regexp.MustCompile(`^(?s)(.*) \((\d{1,18})\)$`)

// author is who was typed: one who is known, by name or number, whose profile is as in the form if that has it, or
// a new one.
func (r *request) author(f *form) (a feed.Author, good bool, err error) {
	name, id := f.Author.Value, int64(0)
	if m := numbered.FindStringSubmatch(name); m != nil {
		name, id = m[1], number([]byte(m[2]))
	}
	known, err := r.desk.Authors(r.Within, name, maxNames)
	if err != nil {
		return a, false, err
	}
	typed := feed.Author{Name: name, Role: f.Role.Value, Team: f.Team.Value, About: f.About.Value, Photo: f.Photo.Value}
	if id != 0 && id == f.AuthorID { // perhaps with another name
		typed.ID = id
		return typed, true, nil
	}
	if name == "" {
		return typed, true, nil // Validate says so
	}
	if id != 0 {
		known = slices.DeleteFunc(known, func(a feed.Author) bool { return a.ID != id })
	}
	switch {
	case len(known) == 1:
		return known[0], true, nil
	case len(known) > 1:
		f.Author.Problem = "there are several of this name: write one with its number, such as " + nameOf(&known[0])
		return a, false, nil
	case id != 0:
		f.Author.Problem = "there is nobody with this name and number: write a name alone for somebody new"
		return a, false, nil
	}
	return typed, true, nil
}

// begin shows the form of a new post. Its id is chosen now, so that a form that is sent twice makes one post.
func (r *request) begin(int64) error {
	if !r.mayWrite() {
		return errModerator
	}
	return r.showForm(http.StatusOK, &form{ID: time.Now().UnixMilli(), New: true, Focus: -1})
}

func (r *request) edit(id int64) error {
	if !r.mayWrite() {
		return errModerator
	}
	k, err := r.desk.Entry(r.Within, id)
	if err != nil {
		return err
	}
	return r.showForm(http.StatusOK, formOf(&k))
}

func (r *request) showForm(status int, f *form) error {
	title := "New post"
	f.Action, f.Leave = Path+"/new", Path
	if !f.New {
		title, f.Leave = "Edit post "+strconv.FormatInt(f.ID, 10), Path+postPath(f.ID)
		f.Action = f.Leave + "/edit"
	}
	names, err := r.desk.Authors(r.Within, "", maxNames)
	if err != nil {
		return err
	}
	for i := range names {
		f.Names = append(f.Names, nameOf(&names[i]))
	}
	return r.Show(status, "edit", view{Title: title, Problem: f.Problem, Page: f})
}

func (r *request) create(int64) error { return r.typed(0) }

func (r *request) save(id int64) error { return r.typed(id) }

// typed takes the form of a post, or of a new one if id is 0: a button that changes the form alone, or
// the one that saves.
func (r *request) typed(id int64) error {
	if !r.mayWrite() {
		return errModerator
	}
	f, err := readForm(r.PostArgs())
	if err != nil || id != 0 && id != f.ID {
		return &refusal{Status: http.StatusBadRequest, Text: backoffice.Sentence(backoffice.ErrForm)}
	}
	f.New = id == 0
	if button := string(r.PostArgs().Peek("do")); button != "save" {
		if !f.press(button) {
			return &refusal{Status: http.StatusBadRequest, Text: "There is no such button."}
		}
		return r.showForm(http.StatusOK, f)
	}
	e, good, err := r.whole(f)
	if errors.Is(err, feed.ErrNotFound) {
		return r.conflict(f, &e.Author)
	}
	if err != nil {
		return err
	}
	if !good {
		return r.showForm(http.StatusUnprocessableEntity, f)
	}
	only := feed.Condition{Version: f.Version, HasVersion: true}
	if f.New {
		only = feed.Condition{Absent: true}
	}
	if only.Author = f.seen(); e.Author.ID != f.AuthorID { // one who is known, and stays as is, or somebody new
		only.Author = &e.Author
	}
	_, err = r.desk.Apply(r.Within, r.as(feed.Written, f.ID), &e, only)
	switch {
	case errors.Is(err, feed.ErrChanged), errors.Is(err, feed.ErrDown):
		return r.conflict(f, &e.Author)
	case err != nil:
		return err
	}
	return r.Redirect(postPath(f.ID) + "?done=saved")
}

// whole is what was typed with all that belongs to it, and whether it is good. If not, the form says why.
func (r *request) whole(f *form) (e feed.Entry, good bool, err error) {
	e, good = f.entry()
	author, known, err := r.author(f)
	if err != nil {
		return e, false, err
	}
	e.Author, e.Published = author, time.Now().UnixMilli()
	if !f.New {
		k, err := r.desk.Entry(r.Within, f.ID)
		if err != nil {
			return e, false, err
		}
		e.Published, e.Reactions, e.Comments = k.Published, k.Reactions, k.Comments
	}
	checked := e
	if checked.Author.ID = max(author.ID, 1); !known { // the store gives a new one a number
		checked.Author.Name = "somebody" // what is wrong with the name is said already
	}
	valid := f.check(&checked)
	if good = good && known && valid; !good && f.Problem == "" {
		f.Problem = unsaved
	}
	return e, good, nil
}

const unsaved = "Nothing is saved yet: see what is marked below."

// conflict shows what was typed again, and that the post is another one now. Who saves after that
// has been told.
func (r *request) conflict(f *form, typed *feed.Author) error {
	k, err := r.desk.Entry(r.Within, f.ID)
	switch {
	case errors.Is(err, feed.ErrNotFound):
		f.Problem = "Nothing is saved: the post was erased while you wrote. Copy what you want to keep."
	case err != nil:
		return err
	case f.New:
		f.ID = time.Now().UnixMilli()
		f.Problem = "This form was saved before: look for the post in the list. If you save again, there will be a second one."
	case k.Down:
		f.Problem = "Nothing is saved: the post was taken down while you wrote. Put it back first, in another window."
	case k.Version == f.Version:
		f.see(&k.Author)
		f.Problem = "Nothing is saved yet: somebody has changed the author's profile while you wrote. Open the post in another window to compare; if you save again, yours takes its place."
	default:
		if f.Version = k.Version; k.Author.ID == f.AuthorID {
			if seen := f.seen(); seen != nil && *typed == *seen { // nor is it to be changed back
				f.Author.Value = nameOf(&k.Author)
				f.profile(&k.Author)
			}
			f.see(&k.Author)
		}
		f.Problem = "Nothing is saved yet: somebody has changed the post while you wrote. Open it in another window to compare; if you save again, yours takes its place."
	}
	return r.showForm(http.StatusConflict, f)
}
