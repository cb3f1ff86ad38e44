package admin

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"loadstone/block/backoffice"
	"loadstone/system/menu"
)

func (r *request) edit(id int64) error {
	s, err := r.admin.look(r.Within, id)
	if err != nil {
		return err
	}
	return r.showForm(http.StatusOK, formOf(&s), r.Done())
}

func (r *request) showForm(status int, f *form, done string) error {
	return r.Show(status, "edit", view{Title: "Edit menu " + strconv.FormatInt(f.ID, 10), Done: done, Problem: f.Problem, Page: f})
}

// typed takes the form: a button that changes the form alone, or one that saves the draft.
func (r *request) typed(id int64) error {
	args := r.PostArgs()
	f, err := readForm(id, args)
	if err != nil {
		return &refusal{Status: http.StatusBadRequest, Text: backoffice.Sentence(err)}
	}
	button := string(args.Peek("do"))
	next, saves := map[string]string{"save": "/edit?done=saved", "preview": "/preview", "review": "?done=saved"}[button]
	if !saves {
		if !f.edit(button) {
			return &refusal{Status: http.StatusBadRequest, Text: "There is no such button."}
		}
		return r.showForm(http.StatusOK, f, "")
	}
	m := f.menu()
	if m == nil {
		return r.showForm(http.StatusUnprocessableEntity, f, "")
	}
	err = r.admin.saveDraft(r.Within, m, f.Base, f.Draft, r.Account.Name)
	if errors.Is(err, menu.ErrChanged) {
		return r.otherDraft(f)
	}
	if err != nil {
		return err
	}
	return r.Redirect(menuPath(id) + next)
}

// otherDraft shows what was typed again, and that the draft is another one now. Who saves
// after that has been told.
func (r *request) otherDraft(f *form) error {
	s, err := r.admin.look(r.Within, f.ID)
	if err != nil {
		return err
	}
	f.Problem, f.Draft = "Nothing is saved yet: the draft was published or discarded while you wrote. Save again to begin a new one.", ""
	if s.Draft != nil {
		f.Problem = "Nothing is saved yet: " + s.Draft.Editor + " has saved another draft while you wrote. Open it in another window to compare; if you save again, yours takes its place."
		f.Draft = tagOf(s.Draft.Tag)
	}
	return r.showForm(http.StatusConflict, f, "")
}

func (r *request) mayPublish() error {
	if r.Account.Role != Publisher {
		return &refusal{Status: http.StatusForbidden, Text: "Your account may write drafts. Ask a publisher to publish them."}
	}
	return nil
}

const meanwhile = "Nothing was published: the menu or its draft has changed since you opened the page. Below is what they are now."

// publish makes the draft the menu, if both are what the editor saw.
func (r *request) publish(id int64) error {
	if err := r.mayPublish(); err != nil {
		return err
	}
	args := r.PostArgs()
	tag, onto := string(args.Peek("draft")), string(args.Peek("onto"))
	s, err := r.admin.look(r.Within, id)
	if err != nil {
		return err
	}
	if s.Draft == nil || tagOf(s.Draft.Tag) != tag {
		return r.showOverview(id, http.StatusConflict, "", meanwhile)
	}
	_, _, err = r.admin.cfg.Writer.Replace(r.writing(), s.Draft.Menu, only(onto))
	if errors.Is(err, menu.ErrChanged) {
		return r.showOverview(id, http.StatusConflict, "", meanwhile)
	}
	if err != nil {
		return err
	}
	// A draft that stays says the same as the menu, and the page says so.
	if err := r.admin.dropDraft(r.Within, id, tag, r.Account.Name); err != nil && !errors.Is(err, menu.ErrChanged) {
		r.Failed(err)
	}
	return r.Redirect(menuPath(id) + "?done=published")
}

// writing is the context of a write, which has a deadline of its own.
func (r *request) writing() context.Context {
	return menu.WithEditor(context.Background(), r.Account.Name)
}

func (r *request) discard(id int64) error {
	err := r.admin.dropDraft(r.Within, id, string(r.PostArgs().Peek("draft")), r.Account.Name)
	if errors.Is(err, menu.ErrChanged) {
		return r.showOverview(id, http.StatusConflict, "", "Nothing was discarded: the draft has changed since you opened the page. Below is what it is now.")
	}
	if err != nil {
		return err
	}
	return r.Redirect(menuPath(id) + "?done=discarded")
}

// rollBack publishes a menu's old version as a new one.
func (r *request) rollBack(id int64) error {
	if err := r.mayPublish(); err != nil {
		return err
	}
	number, err := strconv.ParseInt(string(r.PostArgs().Peek("version")), 10, 64)
	if err != nil || number < 1 {
		return &refusal{Status: http.StatusBadRequest, Text: backoffice.Sentence(backoffice.ErrForm)}
	}
	revisions, err := r.admin.cfg.Desk.Revisions(r.Within, id, number+1, 1)
	if err != nil {
		return err
	}
	if len(revisions) != 1 || revisions[0].Version != number || revisions[0].Body == nil {
		return &refusal{Status: http.StatusNotFound, Text: "This version is not kept any more, or had no menu."}
	}
	m, err := stored(id, revisions[0].Body)
	if err != nil {
		return err
	}
	_, _, err = r.admin.cfg.Writer.Replace(r.writing(), m, only(string(r.PostArgs().Peek("onto"))))
	if errors.Is(err, menu.ErrChanged) {
		return r.showHistory(id, http.StatusConflict, strings.Replace(meanwhile, "or its draft ", "", 1))
	}
	if err != nil {
		return err
	}
	return r.Redirect(menuPath(id) + "/history?done=back")
}
