package admin

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"loadstone/system/menu"
)

func (r *request) edit(id int64) error {
	s, err := r.admin.look(r.within, id)
	if err != nil {
		return err
	}
	return r.showForm(http.StatusOK, formOf(&s), r.done())
}

func (r *request) showForm(status int, f *form, done string) error {
	return r.show(status, "edit", view{Title: "Edit menu " + strconv.FormatInt(f.ID, 10), Done: done, Problem: f.Problem, Page: f})
}

// typed takes the form: a button that changes the form alone, or one that saves the draft.
func (r *request) typed(id int64) error {
	args := r.PostArgs()
	f, err := readForm(id, args)
	if err != nil {
		return &refusal{http.StatusBadRequest, sentence(err)}
	}
	button := string(args.Peek("do"))
	next, saves := map[string]string{"save": "/edit?done=saved", "preview": "/preview", "review": "?done=saved"}[button]
	if !saves {
		if !f.edit(button) {
			return &refusal{http.StatusBadRequest, "There is no such button."}
		}
		return r.showForm(http.StatusOK, f, "")
	}
	m := f.menu()
	if m == nil {
		return r.showForm(http.StatusUnprocessableEntity, f, "")
	}
	err = r.admin.saveDraft(r.within, m, f.Base, f.Draft, r.account.Name)
	if errors.Is(err, menu.ErrChanged) {
		return r.otherDraft(f)
	}
	if err != nil {
		return err
	}
	return r.redirect(menuPath(id) + next)
}

// otherDraft shows what was typed again, and that the draft is another one now. Who saves
// after that has been told.
func (r *request) otherDraft(f *form) error {
	s, err := r.admin.look(r.within, f.ID)
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
	if r.account.Role != Publisher {
		return &refusal{http.StatusForbidden, "Your account may write drafts. Ask a publisher to publish them."}
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
	s, err := r.admin.look(r.within, id)
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
	if err := r.admin.dropDraft(r.within, id, tag, r.account.Name); err != nil && !errors.Is(err, menu.ErrChanged) {
		r.admin.failures.Log("error", err)
	}
	return r.redirect(menuPath(id) + "?done=published")
}

// writing is the context of a write, which has a deadline of its own.
func (r *request) writing() context.Context {
	return menu.WithEditor(context.Background(), r.account.Name)
}

func (r *request) discard(id int64) error {
	err := r.admin.dropDraft(r.within, id, string(r.PostArgs().Peek("draft")), r.account.Name)
	if errors.Is(err, menu.ErrChanged) {
		return r.showOverview(id, http.StatusConflict, "", "Nothing was discarded: the draft has changed since you opened the page. Below is what it is now.")
	}
	if err != nil {
		return err
	}
	return r.redirect(menuPath(id) + "?done=discarded")
}

// rollBack publishes a menu's old version as a new one.
func (r *request) rollBack(id int64) error {
	if err := r.mayPublish(); err != nil {
		return err
	}
	number, err := strconv.ParseInt(string(r.PostArgs().Peek("version")), 10, 64)
	if err != nil || number < 1 {
		return &refusal{http.StatusBadRequest, sentence(errForm)}
	}
	revisions, err := r.admin.cfg.Desk.Revisions(r.within, id, number+1, 1)
	if err != nil {
		return err
	}
	if len(revisions) != 1 || revisions[0].Version != number || revisions[0].Body == nil {
		return &refusal{http.StatusNotFound, "This version is not kept any more, or had no menu."}
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
	return r.redirect(menuPath(id) + "/history?done=back")
}
