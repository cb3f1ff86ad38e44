package menu

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func generator(tb testing.TB, seed uint64, count int64) *Generator {
	tb.Helper()
	g, err := NewGenerator(seed, count)
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

// A third are links, the others have 10 to 19 dishes, and bodies have the sizes of the
// system that this one reproduces: 1.1 kB on average, at most 2.25 kB.
func TestGeneratedMenusHaveTheShapeOfRealOnes(t *testing.T) {
	t.Parallel()
	const count = 30_000
	links, bytes, largest := 0, 0, 0
	for m, err := range generator(t, 1, count).All(t.Context()) {
		if err == nil {
			err = m.Validate()
		}
		if err != nil {
			t.Fatal(err)
		}
		if m.Link != "" {
			links++
		} else if n := len(m.Dishes); n < 10 || n > 19 {
			t.Errorf("menu %d has %d dishes", m.ID, n)
		}
		body := m.AppendJSON(nil)
		bytes += len(body)
		largest = max(largest, len(body))
		back, err := ParseJSON(body)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(back.AppendJSON(nil)); got != string(body) {
			t.Fatalf("menu %d: got %s, want %s", m.ID, got, body)
		}
	}
	if mean := bytes / count; links < count*3/10 || links > count*4/10 || mean < 1000 || mean > 1250 || largest > 2250 {
		t.Errorf("got %d links of %d, %d bytes on average, %d at most", links, count, mean, largest)
	}
}

// The same seed gives the same bytes, or generatorVersion must be raised.
func TestGeneratedMenuIsPinned(t *testing.T) {
	t.Parallel()
	m := generator(t, 1, 9).Menu(2)
	if got, want := fmt.Sprintf("%d %016x", len(m.Dishes), Tag(m.AppendJSON(nil))), "19 4a0a9803b9adc1a7"; got != want {
		t.Errorf("got %s, want %s: %s", got, want, m.AppendJSON(nil))
	}
}

func TestPrices(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		amount, currency string
		want             int64
		back             string
	}{
		{"12.5", "USD", 1250, "12.50"},
		{"0", "USD", 0, "0.00"},
		{"0.05", "EUR", 5, "0.05"},
		{"1200", "JPY", 1200, "1200"},
		{"1.005", "KWD", 1005, "1.005"},
		{"9999999999.99", "USD", MaxPrice, "9999999999.99"},
	} {
		got, err := ParsePrice(c.amount, c.currency)
		if err != nil || got != c.want || string(AppendPrice(nil, got, c.currency)) != c.back {
			t.Errorf("%s %s: got %d (%s) and %v, want %d (%s)", c.amount, c.currency, got, AppendPrice(nil, got, c.currency), err, c.want, c.back)
		}
	}
	for _, wrong := range []string{"", ".", "1.", ".5", "01", "-1", "+1", "1e3", "1e999", "1.234", "1,50", " 1", "0x1", "NaN", "10000000000.00", "٣", strings.Repeat("9", 400)} {
		if got, err := ParsePrice(wrong, "USD"); err == nil || len(err.Error()) > 300 {
			t.Errorf("%.40q: got %d and %v", wrong, got, err)
		}
	}
	for _, wrong := range []string{"", "usd", "US", "USDX", "U$D"} {
		if _, err := ParsePrice("1", wrong); err == nil {
			t.Errorf("currency %q was taken", wrong)
		}
	}
}

const dish = `{"dishType":"dinner","subType":"main","dish":"Shiro","price":12.5,"ingredients":["chickpeas"]}`

func TestJSONThatIsNoMenu(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"nothing":         ``,
		"no object":       `[]`,
		"unknown name":    `{"dishes":[` + dish + `],"more":1}`,
		"a name twice":    `{"id":1,"id":2}`,
		"a name twice in": `{"dishes":[{"dish":"a","dish":"b"}]}`,
		"a number so big": `{"dishes":[{"dish":"a","price":1e999}]}`,
		"an id so big":    `{"id":99999999999999999999}`,
		"a broken id":     `{"id":1.5}`,
		"lone surrogate":  `{"link":"\ud800"}`,
		"not UTF-8":       "{\"link\":\"\xff\"}",
		"no price":        `{"dishes":[{"dish":"a"}]}`,
		"price null":      `{"dishes":[{"dish":"a","price":null}]}`,
		"more behind":     `{"link":"https://a.example/"} {}`,
		"so deep":         `{"dishes":` + strings.Repeat("[", 1_000_000) + strings.Repeat("]", 1_000_000) + `}`,
		"deep unknown":    `{"x":` + strings.Repeat(`{"x":`, 1_000_000),
	} {
		_, err := ParseJSON([]byte(body))
		if !errors.Is(err, ErrInput) || len(err.Error()) > 400 || strings.Contains(err.Error(), "Go ") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestMenusThatAreNotValid(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(m *Menu){
		"id 0":                 func(m *Menu) { m.ID = 0 },
		"id too long":          func(m *Menu) { m.ID = 1_000_000_000_000_000_000 },
		"neither":              func(m *Menu) { m.Dishes = nil },
		"both":                 func(m *Menu) { m.Link = "https://a.example/" },
		"currency":             func(m *Menu) { m.Currency = "usd" },
		"a program as a link":  func(m *Menu) { m.Dishes, m.Link = nil, "javascript:alert(1)" },
		"with spaces before":   func(m *Menu) { m.Dishes, m.Link = nil, " javascript:alert(1)" },
		"data":                 func(m *Menu) { m.Dishes, m.Link = nil, "data:text/html,x" },
		"a link to nowhere":    func(m *Menu) { m.Dishes, m.Link = nil, "https:///menu" },
		"a link with a quote":  func(m *Menu) { m.Dishes, m.Link = nil, `https://a.example/"onclick=` },
		"a password":           func(m *Menu) { m.Dishes, m.Link = nil, "https://u:p@a.example/" },
		"a line break":         func(m *Menu) { m.Dishes[0].Name = "a\r\nSet-Cookie: b" },
		"text that turns":      func(m *Menu) { m.Dishes[0].Name = "a\u202eb" },
		"no name":              func(m *Menu) { m.Dishes[0].Name = "" },
		"long":                 func(m *Menu) { m.Dishes[0].SubType = strings.Repeat("a", MaxText+1) },
		"negative":             func(m *Menu) { m.Dishes[0].Price = -1 },
		"too dear":             func(m *Menu) { m.Dishes[0].Price = MaxPrice + 1 },
		"an empty ingredient":  func(m *Menu) { m.Dishes[0].Ingredients = []string{""} },
		"too many ingredients": func(m *Menu) { m.Dishes[0].Ingredients = make([]string, MaxIngredients+1) },
		"too many dishes":      func(m *Menu) { m.Dishes = make([]Dish, MaxDishes+1) },
		"too large": func(m *Menu) {
			m.Dishes = nil
			for range MaxDishes {
				m.Dishes = append(m.Dishes, Dish{Type: "a", SubType: "b", Name: strings.Repeat("c", MaxText)})
			}
		},
	} {
		m, err := ParseJSON([]byte(`{"id":7,"dishes":[` + dish + `]}`))
		if err != nil || m.Validate() != nil {
			t.Fatal(err, m.Validate())
		}
		if change(&m); m.Validate() == nil {
			t.Errorf("%s: %+v is valid", name, m)
		}
	}
}

func FuzzParseJSON(f *testing.F) {
	f.Add([]byte(`{"id":7,"dishes":[` + dish + `],"link":null,"currency":"KWD"}`))
	f.Add([]byte(`{"link":"https://a.example/"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		m, err := ParseJSON(body)
		if m.ID == 0 {
			m.ID = 1
		}
		if err != nil || m.Validate() != nil {
			return
		}
		written := m.AppendJSON(nil)
		back, err := ParseJSON(written)
		if err != nil || back.Validate() != nil || string(back.AppendJSON(nil)) != string(written) {
			t.Errorf("%q became %q, which is read as %+v (%v)", body, written, back, err)
		}
	})
}
