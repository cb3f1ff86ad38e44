package menu

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
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

// Menus without photos have the bytes that they had before dishes could have any, and with them
// their tags and published files: this is the digest that JSON lines exported then have.
func TestMenusWithoutPhotosAreWhatTheyWere(t *testing.T) {
	t.Parallel()
	const want = "766ad551cb401b353b0dc3d6ed42dfdcc5410129c97e12d883daf743dbf0b86c"
	digest, line := sha256.New(), []byte(nil)
	for m, err := range generator(t, 1, 3000).All(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		line = append(m.AppendJSON(line[:0]), '\n')
		digest.Write(line)
	}
	if got := hex.EncodeToString(digest.Sum(nil)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A dish has a photo or does not have the name; whoever writes may say in three ways that
// there is none.
func TestPhotos(t *testing.T) {
	t.Parallel()
	const none = `{"id":7,"dishes":[{"dishType":"dinner","subType":"main","dish":"Shiro","price":12.50,"ingredients":["chickpeas"]}],"link":null,"currency":"USD"}`
	const one = `{"id":7,"dishes":[{"dishType":"dinner","subType":"main","dish":"Shiro","price":12.50,"ingredients":["chickpeas"],"photo":"https://a.example/1?a=b\u0026c"}],"link":null,"currency":"USD"}`
	for photo, want := range map[string]string{``: none, `,"photo":null`: none, `,"photo":""`: none, `,"photo":"https://a.example/1?a=b&c"`: one} {
		m, err := ParseJSON([]byte(`{"id":7,"dishes":[` + strings.TrimSuffix(dish, "}") + photo + `}]}`))
		if err != nil || m.Validate() != nil {
			t.Fatal(photo, err, m.Validate())
		}
		if got := string(m.AppendJSON(nil)); got != want {
			t.Errorf("%s: got %s, want %s", photo, got, want)
		}
	}
	for _, good := range []string{"", "https://a.example", "HTTPS://a.example:8443/%3Cb%3E.jpg#x", "https://a.example/ሽሮ.jpg", "https://a.example/" + strings.Repeat("a", MaxLink-18)} {
		if err := CheckPhoto(good); err != nil {
			t.Errorf("%s: got %v", good, err)
		}
	}
	for _, bad := range []string{
		"http://a.example/1.jpg", "//a.example/1.jpg", "1.jpg", "/1.jpg", "https:1.jpg", "https:///1.jpg", "https://", "https://:443/",
		"javascript:alert(1)", "JavaScript:alert(1)", "\tjavascript:alert(1)", " https://a.example", "data:image/svg+xml,<svg onload=alert(1)>", "blob:https://a.example/1",
		`https://a.example/"><script>alert(1)</script>`, `https://a.example/'onerror='x`, "https://a.example/`", `https:\\a.example\1`, "https://a.example/1 2x",
		"https://u:p@a.example/", "https://a.example@b.example/", "https://a.example/\r\nX: y", "https://a.example/\x00", "https://a.example/\u202egpj.exe",
		"https://a.example/\xff", "https://a.example/" + strings.Repeat("a", MaxLink-17), "https://a.example/%zz",
	} {
		if err := CheckPhoto(bad); err == nil || !strings.Contains(err.Error(), ": write ") && !strings.Contains(err.Error(), "save the data as UTF-8") {
			t.Errorf("%.80q: got %v, want what to write instead", bad, err)
		}
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
		"a photo that is none": func(m *Menu) { m.Dishes[0].Photo = "data:image/png;base64,x" },
		"too many long photos": func(m *Menu) {
			m.Dishes[0].Photo = "https://a.example/" + strings.Repeat("a", MaxLink-18)
			m.Dishes = slices.Repeat(m.Dishes, MaxBodyBytes/MaxLink)
		},
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
	f.Add([]byte(`{"dishes":[` + strings.Replace(dish, "}", `,"photo":"https://a.example/?a&b"}`, 1) + `]}`))
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
