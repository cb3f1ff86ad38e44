package admin

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"loadstone/block/backoffice"
	"loadstone/system/menu"
)

// offer is a dish as it can be ordered.
type offer struct {
	Name, Section string // no section if the menu does not have the dish any more
	SoldOut       bool
	Until         time.Time // in the zone of the menu's hours; zero if somebody will say so
}

// served is what is said of a menu's availability, with what it could be said of.
type served struct {
	ID       int64
	Dishes   []offer
	Zone     *time.Location
	Overlay  *menu.Overlay // never nil
	Sections []string
	Hours    *hours // as they are, or as somebody is typing them
	May      bool   // change the hours
}

// served returns what there is. Sections are those of the draft as well: its hours are set before
// it is published.
func (r *request) served(id int64) (*served, error) {
	s, err := r.admin.look(r.Within, id)
	if err != nil {
		return nil, err
	}
	o, _, err := menu.FindOverlay(r.Within, r.admin.cfg.Desk, id)
	if err != nil {
		return nil, err
	}
	if o == nil {
		o = &menu.Overlay{}
	}
	v := &served{ID: id, Zone: time.UTC, Overlay: o, May: r.Account.Role == Publisher}
	if o.TimeZone != nil {
		v.Zone = o.TimeZone
	}
	if s.Published != nil {
		v.add(s.Published, o.At(time.Now()))
	}
	for _, sold := range o.SoldOut {
		i := v.dish(sold.Dish)
		if i < 0 {
			i = len(v.Dishes)
			v.Dishes = append(v.Dishes, offer{Name: sold.Dish, SoldOut: o.At(time.Now()).SoldOut(sold.Dish)})
		}
		if !sold.Until.IsZero() {
			v.Dishes[i].Until = sold.Until.In(v.Zone)
		}
	}
	if s.Draft != nil {
		v.addSections(s.Draft.Menu)
	}
	v.Hours = hoursOf(v)
	return v, nil
}

func (s *served) add(m *menu.Menu, now *menu.Now) {
	s.addSections(m)
	for i := range m.Dishes {
		if d := &m.Dishes[i]; s.dish(d.Name) < 0 {
			s.Dishes = append(s.Dishes, offer{Name: d.Name, Section: d.Type, SoldOut: now.SoldOut(d.Name)})
		}
	}
}

func (s *served) addSections(m *menu.Menu) {
	for i := range m.Dishes {
		if !has(s.Sections, m.Dishes[i].Type) {
			s.Sections = append(s.Sections, m.Dishes[i].Type)
		}
	}
}

// has reports whether a name is one of some, as an Overlay compares them.
func has(names []string, name string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
}

// dish is the place of a dish, -1 if there is none of the name.
func (s *served) dish(name string) int {
	return slices.IndexFunc(s.Dishes, func(o offer) bool { return strings.EqualFold(o.Name, name) })
}

func (r *request) availability(id int64) error {
	s, err := r.served(id)
	if err != nil {
		return err
	}
	return r.showServed(http.StatusOK, s, "")
}

func (r *request) showServed(status int, s *served, problem string) error {
	return r.Show(status, "availability", view{Title: title(s.ID) + ": availability", Done: r.Done(), Problem: problem, Page: s})
}

// soldOut says of one dish that it is sold out, or that there is more: each editor may.
func (r *request) soldOut(id int64) error {
	s, err := r.served(id)
	if err != nil {
		return err
	}
	args := r.PostArgs()
	name, out, done := backoffice.Line(args.Peek("out")), true, "out"
	if name == "" {
		name, out, done = backoffice.Line(args.Peek("more")), false, "more"
	}
	i := s.dish(name)
	if i < 0 {
		return r.showServed(http.StatusConflict, s, "Nothing was changed: the menu does not have this dish any more. Below is what it has now.")
	}
	dish := menu.SoldOut{Dish: s.Dishes[i].Name}
	if typed := backoffice.Line(args.Peek("until")); typed != "" && out {
		dish.Until, err = time.ParseInLocation("2006-01-02T15:04", typed, s.Zone)
		if err != nil || !dish.Until.After(time.Now()) {
			return r.showServed(http.StatusUnprocessableEntity, s, "Nothing was changed: write a time to come, or none, and mark the dish again.")
		}
	}
	d := menu.Document{ID: id, Editor: r.Account.Name}
	err = menu.ChangeOverlay(r.Within, r.admin.cfg.Desk, &d, menu.Condition{}, menu.SoldOutChange(dish, out))
	if errors.Is(err, menu.ErrInput) && !errors.Is(err, menu.ErrCorrupt) {
		return r.showServed(http.StatusUnprocessableEntity, s, "Nothing was changed: too much is sold out already.")
	}
	if err != nil {
		return err
	}
	return r.Redirect(menuPath(id) + "/availability?done=" + done + "#dish-" + strconv.Itoa(i+1))
}

// setHours takes the form of the hours: a button that changes the form alone, or the one that saves it.
func (r *request) setHours(id int64) error {
	if r.Account.Role != Publisher {
		return &refusal{Status: http.StatusForbidden, Text: "Your account may say what is sold out. Ask a publisher to change the hours."}
	}
	s, err := r.served(id)
	if err != nil {
		return err
	}
	current := s.Hours.Seen
	if s.Hours, err = readHours(r.PostArgs(), s.Sections); err != nil {
		return &refusal{Status: http.StatusBadRequest, Text: backoffice.Sentence(err)}
	}
	if button := string(r.PostArgs().Peek("do")); button != "save" {
		if !s.Hours.edit(button, s.Sections) {
			return &refusal{Status: http.StatusBadRequest, Text: "There is no such button."}
		}
		return r.showServed(http.StatusOK, s, "")
	}
	typed := s.Hours.overlay()
	if typed == nil {
		return r.showServed(http.StatusUnprocessableEntity, s, "Nothing is saved yet: see what is marked below.")
	}
	d := menu.Document{ID: id, Editor: r.Account.Name}
	err = menu.ChangeOverlay(r.Within, r.admin.cfg.Desk, &d, menu.Condition{}, func(there *menu.Overlay) error {
		if hoursTag(there) != s.Hours.Seen {
			return menu.ErrChanged
		}
		there.TimeZone, there.Dayparts = typed.TimeZone, typed.Dayparts
		return nil
	})
	switch {
	case errors.Is(err, menu.ErrChanged):
		s.Hours.Seen = current
		return r.showServed(http.StatusConflict, s, "Nothing is saved yet: the hours were changed while you wrote. Open this page in another window to compare; if you save again, yours take their place.")
	case errors.Is(err, menu.ErrInput) && !errors.Is(err, menu.ErrCorrupt):
		return r.showServed(http.StatusUnprocessableEntity, s, "Nothing is saved yet: "+plain(err)+".")
	case err != nil:
		return err
	}
	return r.Redirect(menuPath(id) + "/availability?done=hours")
}
