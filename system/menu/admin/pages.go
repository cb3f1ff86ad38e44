package admin

import (
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"loadstone/block/backoffice"
	"loadstone/block/dataset"
	"loadstone/system/menu"
)

// How many are listed at a time.
const (
	listed        = 50
	listedOnHome  = 10
	listedHistory = 10
	found         = 50
)

// maxQuery bounds what is searched for, in bytes.
const maxQuery = 200

// done are the sentences about what was just done, by their names in addresses.
var done = map[string]string{
	"saved":     "The draft is saved. Guests do not see it before it is published.",
	"published": "The menu is published.",
	"discarded": "The draft is discarded.",
	"back":      "The menu is rolled back: the old one is published as a new version.",
	"out":       "The dish is sold out. Guests see it within seconds.",
	"more":      "There is more of the dish. Guests see it within seconds.",
	"hours":     "The hours are saved. Guests see them within seconds.",
}

func (r *request) home(int64) error {
	after, _ := strconv.ParseInt(string(r.QueryArgs().Peek("after")), 10, 64) // 0 for what is no number
	desk := r.admin.cfg.Desk
	drafts, err := desk.Documents(r.Within, menu.Drafts, max(after, 0), listedOnHome+1)
	if err != nil {
		return err
	}
	changes, err := desk.LastChanges(r.Within, "", listedOnHome)
	if err != nil {
		return err
	}
	more := int64(0)
	if len(drafts) > listedOnHome {
		drafts = drafts[:listedOnHome]
		more = drafts[listedOnHome-1].ID
	}
	return r.Show(http.StatusOK, "home", view{Title: "Menus", Done: r.Done(), Page: map[string]any{
		"Drafts": drafts, "More": more, "Changes": changes, "Search": r.admin.cfg.Search != nil,
	}})
}

func (r *request) find(int64) error {
	query := backoffice.Line(r.QueryArgs().Peek("q"))
	if id, ok := dataset.ParseID(query); ok {
		return r.Redirect(menuPath(id))
	}
	v := view{Title: "Find a menu"}
	page := map[string]any{"Query": query, "Search": r.admin.cfg.Search != nil}
	v.Page = page
	switch {
	case query == "":
	case len(query) > maxQuery:
		v.Problem = "This is too long to search for."
	case r.admin.cfg.Search == nil:
		v.Problem = "Menus are found by their number here: write digits."
	default:
		dishes, err := r.admin.cfg.Search.Search(r.Within, query, found)
		if err != nil {
			return err
		}
		page["Found"] = dishes
	}
	return r.Show(http.StatusOK, "find", v)
}

func menuPath(id int64) string { return "/menus/" + strconv.FormatInt(id, 10) }

func (r *request) log(int64) error {
	before := menu.Cursor(r.QueryArgs().Peek("before"))
	changes, err := r.admin.cfg.Desk.LastChanges(r.Within, before, listed+1)
	if err != nil {
		return err
	}
	older := ""
	if len(changes) > listed {
		changes = changes[:listed]
		older = url.QueryEscape(string(changes[listed-1].Cursor))
	}
	return r.Show(http.StatusOK, "log", view{Title: "Changes", Page: map[string]any{"Changes": changes, "Older": older, "First": before == ""}})
}

// overview shows what is published and the draft beside it.
func (r *request) overview(id int64) error { return r.showOverview(id, http.StatusOK, r.Done(), "") }

func (r *request) showOverview(id int64, status int, done, problem string) error {
	s, err := r.admin.look(r.Within, id)
	if err != nil {
		return err
	}
	page := map[string]any{"State": &s, "May": r.Account.Role == Publisher}
	if d := s.Draft; d != nil {
		page["DraftTag"], page["Differences"] = tagOf(d.Tag), compare(s.Published, d.Menu)
		if d.Base.Tag != s.Tag {
			page["Meanwhile"], err = r.meanwhile(&s)
			if err != nil {
				return err
			}
		}
	}
	return r.Show(status, "overview", view{Title: title(id), Done: done, Problem: problem, Page: page})
}

func title(id int64) string { return "Menu " + strconv.FormatInt(id, 10) }

// meanwhile is what happened to a menu since its draft was begun.
func (r *request) meanwhile(s *state) (map[string]any, error) {
	revisions, err := r.admin.cfg.Desk.Revisions(r.Within, s.ID, 0, menu.KeptRevisions)
	if err != nil {
		return nil, err
	}
	told := map[string]any{}
	if len(revisions) > 0 {
		told["Last"] = revisions[0].Change
	}
	for i := range revisions {
		if revisions[i].Version == s.Draft.Base.Version && revisions[i].Body != nil {
			was, err := stored(s.ID, revisions[i].Body)
			if err != nil {
				return nil, err
			}
			told["Differences"] = compare(was, s.Published)
		}
	}
	return told, nil
}

func (r *request) preview(id int64) error {
	s, err := r.admin.look(r.Within, id)
	if err != nil {
		return err
	}
	if s.Draft == nil {
		return &refusal{Status: http.StatusNotFound, Text: "There is no draft of this menu to look at."}
	}
	r.admin.cfg.Preview(r.RequestCtx, s.Draft.Menu, "This is the draft by "+s.Draft.Editor+". Guests do not see it yet.", Path+menuPath(id))
	return nil
}

// version is one of a menu's history, with what it changed.
type version struct {
	menu.Revision

	Menu        *menu.Menu // nil if it has none
	Differences []difference
	// Known is whether the version before it is kept, or there was none.
	Known bool
	// May is whether this is one to roll back to.
	May bool
}

func (r *request) history(id int64) error { return r.showHistory(id, http.StatusOK, "") }

func (r *request) showHistory(id int64, status int, problem string) error {
	before, _ := strconv.ParseInt(string(r.QueryArgs().Peek("before")), 10, 64) // 0 for what is no number
	revisions, err := r.admin.cfg.Desk.Revisions(r.Within, id, max(before, 0), listedHistory+1)
	if err != nil {
		return err
	}
	s, err := r.admin.look(r.Within, id)
	if err != nil {
		return err
	}
	versions := make([]version, len(revisions))
	for i := range revisions {
		v := &versions[i]
		v.Revision = revisions[i]
		if v.Body != nil {
			if v.Menu, err = stored(id, v.Body); err != nil {
				return err
			}
		}
		v.May = r.Account.Role == Publisher && v.Menu != nil && v.Version != s.Version
	}
	for i := range versions {
		v := &versions[i]
		switch {
		case i+1 < len(versions):
			v.Known, v.Differences = true, compare(versions[i+1].Menu, v.Menu)
		case v.Version == 1:
			v.Known, v.Differences = true, compare(nil, v.Menu)
		}
	}
	older := int64(0)
	if len(versions) > listedHistory {
		versions = versions[:listedHistory]
		older = versions[listedHistory-1].Version
	}
	return r.Show(status, "history", view{Title: title(id) + ": history", Done: r.Done(), Problem: problem, Page: map[string]any{
		"ID": id, "Versions": versions, "Older": older, "Tag": s.Tag, "First": before == 0,
	}})
}

// by is the editor of a change as people read it.
func by(c menu.Change) string {
	switch c.Editor {
	case "":
		return "imported"
	case menu.EditorAPI:
		return "a program, through the interface"
	}
	return strings.TrimSpace(c.Editor)
}

// functions are what templates call, beside those of package backoffice.
var functions = template.FuncMap{
	"price": price, "by": by,
	"boxes": func(name, label string, all []tick) boxes { return boxes{name, label, all} },
}
