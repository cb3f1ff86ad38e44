package admin

import (
	"fmt"
	"strings"
	"testing"

	"loadstone/system/menu"
)

func TestCompare(t *testing.T) {
	t.Parallel()
	was := menuOf(t, seven)
	for name, c := range map[string]struct {
		change func(m *menu.Menu)
		want   string
	}{
		"nothing":     {func(*menu.Menu) {}, ""},
		"a price":     {func(m *menu.Menu) { m.Dishes[0].Price++ }, "changed Shiro price 12.50 EUR>12.51 EUR"},
		"ingredients": {func(m *menu.Menu) { m.Dishes[0].Ingredients = nil }, "changed Shiro ingredients chickpeas, garlic, roasted>"},
		"a photo":     {func(m *menu.Menu) { m.Dishes[0].Photo = "https://a.example/1" }, "changed Shiro photo >https://a.example/1"},
		"a section":   {func(m *menu.Menu) { m.Dishes[2].Type = "lunch" }, "changed Genfo section breakfast, sweet>lunch, sweet"},
		"a name":      {func(m *menu.Menu) { m.Dishes[1].Name = "Gored" }, "changed Gored name Kitfo>Gored"},
		"removed":     {func(m *menu.Menu) { m.Dishes = m.Dishes[1:] }, "removed Shiro dinner, main 12.50 EUR>"},
		"added":       {func(m *menu.Menu) { m.Dishes = append(m.Dishes, menu.Dish{Type: "a", SubType: "b", Name: "c"}) }, "added c a, b >0.00 EUR"},
		"twice":       {func(m *menu.Menu) { m.Dishes = append(m.Dishes, m.Dishes[0]) }, "added Shiro dinner, main >12.50 EUR"},
		"order":       {func(m *menu.Menu) { m.Dishes[0], m.Dishes[1] = m.Dishes[1], m.Dishes[0] }, "changed Dishes order >"},
		"a link": {
			func(m *menu.Menu) { m.Link, m.Dishes = "https://a.example/", nil },
			"changed Menu link >https://a.example/; removed Shiro dinner, main 12.50 EUR>; removed Kitfo dinner, main 15.00 EUR>; removed Genfo breakfast, sweet 4.00 EUR>",
		},
		"a currency": {
			func(m *menu.Menu) { m.Currency, m.Dishes = "KWD", m.Dishes[:1] },
			"changed Menu currency EUR>KWD; removed Kitfo dinner, main 15.00 EUR>; removed Genfo breakfast, sweet 4.00 EUR>; changed Shiro price 12.50 EUR>1.250 KWD",
		},
	} {
		is := menuOf(t, seven)
		c.change(is)
		var all []string
		for _, d := range compare(was, is) {
			all = append(all, fmt.Sprintf("%s %s %s %s>%s", d.Kind, d.What, d.Part, d.Was, d.Is))
		}
		if got := strings.Join(all, "; "); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	if got := len(compare(nil, was)); got != 3 {
		t.Errorf("from nothing: got %d differences", got)
	}
	if got := len(compare(was, nil)); got != 3 {
		t.Errorf("to nothing: got %d differences", got)
	}
}

// The largest menus are compared in no time: matching is by table.
func TestCompareTheLargest(t *testing.T) {
	t.Parallel()
	was, is := &menu.Menu{Currency: "USD"}, &menu.Menu{Currency: "USD"}
	for i := range menu.MaxDishes {
		was.Dishes = append(was.Dishes, menu.Dish{Type: "a", SubType: "b", Name: fmt.Sprint(i)})
		is.Dishes = append(is.Dishes, menu.Dish{Type: "a", SubType: "b", Name: fmt.Sprint(-i), Price: 1})
	}
	if got := len(compare(was, is)); got != 2*menu.MaxDishes-1 {
		t.Errorf("got %d differences, want %d", got, 2*menu.MaxDishes-1)
	}
}
