package admin

import (
	"slices"
	"strings"

	"loadstone/system/menu"
)

// difference is a line of what makes one menu another.
type difference struct {
	// Kind is added, removed or changed.
	Kind string
	// What it is of: a dish, or a property of the menu; and which part of that changed.
	What, Part string
	// Was and Is are empty where there is nothing to say.
	Was, Is string
}

const (
	added   = "added"
	removed = "removed"
	changed = "changed"
)

// compare says what makes the menu was into the menu is; either may be nil, for none.
func compare(was, is *menu.Menu) (all []difference) {
	if was == nil {
		was = &menu.Menu{}
	}
	if is == nil {
		is = &menu.Menu{}
	}
	change := func(what, part, was, is string) {
		if was != is {
			all = append(all, difference{changed, what, part, was, is})
		}
	}
	change("Menu", "link", was.Link, is.Link)
	if was.Currency != "" && is.Currency != "" {
		change("Menu", "currency", was.Currency, is.Currency)
	}
	from := match(was.Dishes, is.Dishes)
	for i := range was.Dishes {
		if !slices.Contains(from, i) {
			d := &was.Dishes[i]
			all = append(all, difference{removed, d.Name, section(d), price(d.Price, was.Currency), ""})
		}
	}
	var order []int
	for j := range is.Dishes {
		d := &is.Dishes[j]
		if from[j] < 0 {
			all = append(all, difference{added, d.Name, section(d), "", price(d.Price, is.Currency)})
			continue
		}
		order = append(order, from[j])
		old := &was.Dishes[from[j]]
		change(d.Name, "name", old.Name, d.Name)
		change(d.Name, "section", section(old), section(d))
		change(d.Name, "price", price(old.Price, was.Currency), price(d.Price, is.Currency))
		change(d.Name, "ingredients", strings.Join(old.Ingredients, ", "), strings.Join(d.Ingredients, ", "))
		change(d.Name, "photo", old.Photo, d.Photo)
	}
	if !slices.IsSorted(order) {
		all = append(all, difference{changed, "Dishes", "order", "", ""})
	}
	return all
}

// match finds for each dish which of the old ones it was, or -1: first the one of its name in
// its section, then of its name, then, for what was renamed, of its section, price and
// ingredients. Each was one at most.
func match(was, is []menu.Dish) (from []int) {
	from = slices.Repeat([]int{-1}, len(is))
	taken := make([]bool, len(was))
	for _, key := range []func(d *menu.Dish) string{
		func(d *menu.Dish) string { return section(d) + "\n" + d.Name },
		func(d *menu.Dish) string { return d.Name },
		func(d *menu.Dish) string {
			return section(d) + "\n" + price(d.Price, "") + "\n" + strings.Join(d.Ingredients, "\n")
		},
	} {
		places := map[string][]int{}
		for i := range was {
			if !taken[i] {
				k := key(&was[i])
				places[k] = append(places[k], i)
			}
		}
		for j := range is {
			if from[j] >= 0 {
				continue
			}
			k := key(&is[j])
			if found := places[k]; len(found) > 0 {
				from[j], taken[found[0]], places[k] = found[0], true, found[1:]
			}
		}
	}
	return from
}

func section(d *menu.Dish) string { return d.Type + ", " + d.SubType }

// price is an amount as it is typed, and its currency.
func price(amount int64, currency string) string {
	return strings.TrimSpace(string(menu.AppendPrice(nil, amount, currency)) + " " + currency)
}
