package admin

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"

	"loadstone/block/backoffice"
	"loadstone/block/text"
	"loadstone/system/menu"
)

// MaxFormBytes bounds a form: the largest menu as one, with text in which each byte takes
// three.
const MaxFormBytes = 4 * menu.MaxBodyBytes

// form is a menu as somebody is typing it, with what is wrong beside each field.
type form struct {
	ID             int64
	Currency, Link field
	Rows           []row
	// Problem is that of the whole menu.
	Problem string
	// Base and Draft are what the form was made from: a base, and the tag of a draft.
	Base  base
	Draft string
	// Focus is the row to go on at, -1 for none.
	Focus int
}

// row is a dish.
type row struct{ Type, SubType, Name, Price, Ingredients, Photo field }

// names of the fields, in the order of dishFields.
var dishNames = [...]string{"type", "subtype", "name", "price", "ingredients", "photo"}

func (r *row) fields() [len(dishNames)]*field {
	return [...]*field{&r.Type, &r.SubType, &r.Name, &r.Price, &r.Ingredients, &r.Photo}
}

// formOf is the form for what there is of a menu: its draft, else what is published.
func formOf(s *state) *form {
	f := &form{ID: s.ID, Currency: field{Value: menu.DefaultCurrency}, Base: base{s.Version, s.Tag}, Focus: -1}
	m := s.Published
	if s.Draft != nil {
		m, f.Base, f.Draft = s.Draft.Menu, s.Draft.Base, tagOf(s.Draft.Tag)
	}
	if m == nil {
		f.Rows = make([]row, 1)
		return f
	}
	f.Currency.Value, f.Link.Value = m.Currency, m.Link
	for i := range m.Dishes {
		d := &m.Dishes[i]
		f.Rows = append(f.Rows, row{
			field{Value: d.Type}, field{Value: d.SubType}, field{Value: d.Name},
			field{Value: string(menu.AppendPrice(nil, d.Price, m.Currency))}, field{Value: strings.Join(d.Ingredients, "\n")}, field{Value: d.Photo},
		})
	}
	return f
}

// readForm reads what was typed. The error is that of a form that is none of ours.
func readForm(id int64, args *fasthttp.Args) (*form, error) {
	f := &form{ID: id, Focus: -1, Draft: string(args.Peek("draft"))}
	f.Base.Tag = string(args.Peek("base"))
	var err error
	if f.Base.Version, err = strconv.ParseInt(string(args.Peek("version")), 10, 64); err != nil {
		return nil, backoffice.ErrForm
	}
	f.Currency.Value, f.Link.Value = backoffice.Line(args.Peek("currency")), backoffice.Line(args.Peek("link"))
	f.Rows = make([]row, len(args.PeekMulti(dishNames[0])))
	if len(f.Rows) > menu.MaxDishes+1 {
		return nil, backoffice.ErrForm
	}
	for at, name := range dishNames {
		values := args.PeekMulti(name)
		if len(values) != len(f.Rows) {
			return nil, backoffice.ErrForm
		}
		for i, value := range values {
			f.Rows[i].fields()[at].Value = backoffice.Line(value)
		}
	}
	return f, nil
}

// empty reports whether no dish was typed: sections are there before anybody types.
func (r *row) empty() bool {
	return r.Name.Value == "" && r.Price.Value == "" && r.Ingredients.Value == "" && r.Photo.Value == ""
}

// edit does what a button without script does: "add" a dish at the end, or "below", "up",
// "down" or "remove" and the number of a dish. It reports false if there is no such button.
func (f *form) edit(button string) bool {
	if button == "add" {
		f.insert(len(f.Rows))
		return true
	}
	what, number, _ := strings.Cut(button, " ")
	i, err := strconv.Atoi(number)
	if err != nil || i < 0 || i >= len(f.Rows) {
		return false
	}
	switch what {
	case "below":
		f.insert(i + 1)
	case "up":
		f.swap(i, max(i-1, 0))
	case "down":
		f.swap(i, min(i+1, len(f.Rows)-1))
	case "remove":
		f.Rows = slices.Delete(f.Rows, i, i+1)
		f.Focus = min(i, len(f.Rows)-1)
	default:
		return false
	}
	return true
}

func (f *form) swap(i, to int) {
	f.Rows[i], f.Rows[to] = f.Rows[to], f.Rows[i]
	f.Focus = to
}

// insert makes room for a dish, in the section of the one above.
func (f *form) insert(at int) {
	if len(f.Rows) >= menu.MaxDishes {
		f.Problem = fmt.Sprintf("There are %d dishes, and a menu has no more.", len(f.Rows))
		return
	}
	var fresh row
	if at > 0 {
		fresh.Type.Value, fresh.SubType.Value = f.Rows[at-1].Type.Value, f.Rows[at-1].SubType.Value
	}
	f.Rows = slices.Insert(f.Rows, at, fresh)
	f.Focus = at
}

// menu is what was typed as a menu, nil if that is none; then the problems stand beside the
// fields. Rows in which no dish was typed do not count.
func (f *form) menu() *menu.Menu {
	f.Currency.Value = strings.ToUpper(f.Currency.Value)
	m := &menu.Menu{ID: f.ID, Currency: f.Currency.Value, Link: f.Link.Value}
	good := f.Currency.Check((&menu.Menu{ID: f.ID, Currency: m.Currency, Link: "https://example.com/"}).Validate())
	if m.Link != "" {
		good = f.Link.Check((&menu.Menu{ID: f.ID, Currency: menu.DefaultCurrency, Link: m.Link}).Validate()) && good
	}
	known := f.Currency.Problem == ""
	for i := range f.Rows {
		r := &f.Rows[i]
		if r.empty() {
			continue
		}
		d := menu.Dish{Type: r.Type.Value, SubType: r.SubType.Value, Name: r.Name.Value, Photo: r.Photo.Value}
		good = r.Type.Check(text.Check("the section", d.Type, menu.MaxText)) && good
		good = r.SubType.Check(text.Check("the subsection", d.SubType, menu.MaxText)) && good
		good = r.Name.Check(text.Check("the name", d.Name, menu.MaxText)) && good
		if known { // else it is not known how prices are written
			var err error
			d.Price, err = menu.ParsePrice(r.Price.Value, m.Currency)
			good = r.Price.Check(err) && good
		}
		d.Ingredients = ingredients(r.Ingredients.Value)
		good = r.Ingredients.Check(checkIngredients(d.Ingredients)) && good
		good = r.Photo.Check(menu.CheckPhoto(d.Photo)) && good
		m.Dishes = append(m.Dishes, d)
	}
	if !good {
		f.Problem = "Nothing is saved yet: see what is marked below."
		return nil
	}
	if err := m.Validate(); err != nil {
		f.Problem = "Nothing is saved yet: " + err.Error() + "."
		return nil
	}
	return m
}

// ingredients are typed one a line.
func ingredients(typed string) (all []string) {
	for one := range strings.SplitSeq(typed, "\n") {
		if one = strings.TrimSpace(one); one != "" {
			all = append(all, one)
		}
	}
	return all
}

func checkIngredients(all []string) error {
	if len(all) > menu.MaxIngredients {
		return fmt.Errorf("there are %d ingredients: write at most %d", len(all), menu.MaxIngredients)
	}
	var problems []error
	for _, one := range all {
		problems = append(problems, text.Check("an ingredient", one, menu.MaxText))
	}
	return errors.Join(problems...)
}
