package menufile

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"loadstone/block/dataset"
	"loadstone/system/menu"
)

func FuzzCSV(f *testing.F) {
	fuzz(f, CSV, export(f, CSV, nasty("USD")[:3]), "id,dishType,subType,dish,price\n2,a,b,c,1\n1,a,b,c,2\n1,a,b,d,3\n", "\ufeffid,dishType\n\"")
}

func FuzzJSONLines(f *testing.F) {
	fuzz(f, JSONLines, export(f, JSONLines, nasty("USD")[:3]), "{\"id\":2,\"link\":\"https://a.example\"}\r\n\n{\"id\":1,\"link\":\"https://a.example\"}")
}

func FuzzPSV(f *testing.F) {
	fuzz(f, PSV, export(f, PSV, nasty("USD")[:3]), `2|[{"dishType":"a","subType":"b","dish":"c","price":"$5","ingredients":"a, b"}]|null`, "2|null|https://a.example\n1|null|https://b.example")
}

func FuzzSchemaOrg(f *testing.F) {
	fuzz(f, SchemaOrg, `{"@type":"Menu","@id":"1","hasMenuSection":[{"name":"a","hasMenuSection":{"name":"b","hasMenuItem":{"name":"c","image":{"url":"https://a.example/1"},"offers":{"price":"1.5","priceCurrency":"EUR"}}}}]}`,
		`[{"@type":"Menu","identifier":2,"url":"https://a.example"},{"@type":"Menu","identifier":1,"url":"https://a.example"}]`)
}

// fuzz opens whatever content: it is refused as input is, in a text that can be shown, or its
// menus are valid, in order, and come back from every format that is written.
func fuzz(f *testing.F, format Format, seeds ...string) {
	f.Helper()
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		path := filepath.Join(t.TempDir(), "menus")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := Open(t.Context(), path, Options{Format: format})
		if err != nil {
			shown := strings.ReplaceAll(err.Error(), "\n", "")
			if !errors.Is(err, menu.ErrInput) || len(shown) > 40<<10 || strings.ContainsFunc(shown, unicode.IsControl) {
				t.Fatalf("got %q", err)
			}
			return
		}
		var list menus
		err = dataset.Each(t.Context(), file, nil, func(m *menu.Menu) error {
			list = append(list, *m)
			return m.Validate()
		})
		if err != nil || !slices.IsSortedFunc(list, func(a, b menu.Menu) int { return int(a.ID - b.ID) }) {
			t.Fatalf("got %v, %v", err, list)
		}
		comesBack(t, list)
	})
}

// comesBack exports and imports in every format.
func comesBack(tb testing.TB, source menus) {
	tb.Helper()
	want := bodies(tb, source)
	mixed := slices.ContainsFunc(source, func(m menu.Menu) bool { return m.Currency != source[0].Currency })
	for _, format := range exported() {
		if mixed && format == PSV {
			continue
		}
		text := export(tb, format, source)
		f, err := Open(tb.Context(), write(tb, "menus", text), Options{Format: format, Currency: source[0].Currency})
		if err != nil {
			tb.Fatalf("%s: %q: %v", format, text, err)
		}
		if got := bodies(tb, f); !slices.Equal(got, want) {
			tb.Fatalf("%s: %q:\ngot  %q\nwant %q", format, text, got, want)
		}
	}
}

// FuzzExport makes menus of any texts.
func FuzzExport(f *testing.F) {
	for _, m := range nasty("USD") {
		if len(m.Dishes) > 0 {
			f.Add(m.Dishes[0].Name, "b", m.Dishes[0].Price, "USD", "https://a.example/?q="+m.Dishes[0].Name)
		}
	}
	f.Fuzz(func(t *testing.T, a, b string, price int64, currency, link string) {
		one := menu.Menu{ID: 1, Currency: currency, Dishes: []menu.Dish{
			{Type: a, SubType: b, Name: a, Price: price, Ingredients: []string{a, b}},
			{Type: b, SubType: a, Name: b, Price: price, Ingredients: []string{b + a}},
		}}
		if menu.CheckPhoto(link) == nil {
			one.Dishes[1].Photo = link
		}
		if one.Validate() == nil {
			comesBack(t, menus{one})
		}
		if one = (menu.Menu{ID: 1, Currency: currency, Link: link}); one.Validate() == nil {
			comesBack(t, menus{one})
		}
	})
}
