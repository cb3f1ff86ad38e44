package menufile

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"loadstone/block/dataset"
	"loadstone/system/menu"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// menus is a source.
type menus []menu.Menu

func (m menus) Meta() dataset.Meta {
	return dataset.Meta{Origin: "test", Fingerprint: "test", Count: int64(len(m))}
}

func (m menus) All(context.Context) iter.Seq2[menu.Menu, error] {
	return func(yield func(menu.Menu, error) bool) {
		for i := range m {
			if !yield(m[i], nil) {
				return
			}
		}
	}
}

// nasty are valid menus of one currency whose texts are hard to write down.
func nasty(currency string) menus {
	var list menus
	for i, text := range []string{
		`=HYPERLINK("http://x.example";"y")`, "+1", "-1", "@x", "'", "''=1", "'=1", "=", "＝1", "''", "a'", "'a",
		`"`, `""`, `a"b`, "a,b", "a;b", "a|b", `a\;b`, `\`, `\\`, `a\`, `;`, `|`, `a;=1`, "a\\|b", "[]", "null", `],"link":`, `","link":null}`,
		"<script>", "&amp;", "ጥብስ", "e\u0301", "🍕", "id|dishes|link", "id", "#", "\\u0000", "a  b", "$1", "{", strings.Repeat("x", menu.MaxText),
	} {
		dish := menu.Dish{Type: text, SubType: text, Name: text, Price: int64(i)}
		full := dish
		full.Price, full.Ingredients = menu.MaxPrice, []string{text, "b", text}
		if photo := "https://a.example/?q=" + text; menu.CheckPhoto(photo) == nil {
			full.Photo = photo
		}
		list = append(list, menu.Menu{ID: int64(len(list) + 1), Currency: currency, Dishes: []menu.Dish{dish, full}})
	}
	for _, link := range []string{"https://a.example", "http://a.example/?a=b&c=d|e,f;g#h", "https://a.example/|null"} {
		list = append(list, menu.Menu{ID: int64(len(list) + 1), Currency: currency, Link: link})
	}
	return append(list, menu.Menu{ID: dataset.MaxID, Currency: currency, Dishes: slices.Repeat([]menu.Dish{{Type: "a", SubType: "b", Name: "c"}}, menu.MaxDishes)})
}

func write(tb testing.TB, name, content string) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}

// bodies are all menus of a source as JSON.
func bodies(tb testing.TB, source dataset.Source[menu.Menu]) []string {
	tb.Helper()
	var list []string
	err := dataset.Each(tb.Context(), source, nil, func(m *menu.Menu) error {
		list = append(list, string(m.AppendJSON(nil)))
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	return list
}

func export(tb testing.TB, format Format, source dataset.Source[menu.Menu]) string {
	tb.Helper()
	var out bytes.Buffer
	if err := Write(tb.Context(), &out, format, source, nil); err != nil {
		tb.Fatal(err)
	}
	return out.String()
}

func zipped(tb testing.TB, text string) string {
	tb.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write([]byte(text)); err != nil || z.Close() != nil {
		tb.Fatal(err)
	}
	return out.String()
}

func exported() []Format { return []Format{CSV, JSONLines, PSV} }

// What is exported is imported as it was, in any format, also compressed, with a byte order
// mark, or with the line ends of Windows.
func TestExportComesBack(t *testing.T) {
	t.Parallel()
	generator, err := menu.NewGenerator(7, 500)
	if err != nil {
		t.Fatal(err)
	}
	for name, source := range map[string]dataset.Source[menu.Menu]{"generated": generator, "nasty": nasty("USD"), "dinars": nasty("KWD"), "yen": nasty("JPY")} {
		want := bodies(t, source)
		options := Options{}
		for m := range source.All(t.Context()) {
			options.Currency = m.Currency
			break
		}
		for _, format := range exported() {
			text := export(t, format, source)
			for kind, content := range map[string]string{
				"": text, ".gz": zipped(t, text), ".bom": "\ufeff" + text, ".crlf": strings.ReplaceAll(text, "\n", "\r\n"),
			} {
				options.Format = format
				f, err := Open(t.Context(), write(t, "menus"+kind, content), options)
				if err != nil {
					t.Fatalf("%s, %s%s: %v", name, format, kind, err)
				}
				if got := bodies(t, f); !slices.Equal(got, want) {
					for i := range want {
						if i >= len(got) || got[i] != want[i] {
							t.Fatalf("%s, %s%s: menu %d\ngot  %s\nwant %s", name, format, kind, i, got[min(i, len(got)-1)], want[i])
						}
					}
				}
			}
		}
	}
}

// Menus come in ascending order, whatever order the file has; the content is the identity.
func TestMenusAreSorted(t *testing.T) {
	t.Parallel()
	sorted := nasty("USD")
	mixed := slices.Clone(sorted)
	slices.Reverse(mixed)
	mixed[0], mixed[9] = mixed[9], mixed[0]
	want := bodies(t, sorted)
	prints := map[string]bool{}
	for _, format := range exported() {
		for _, mark := range []string{"", "\ufeff"} {
			path := write(t, "m."+string(format), mark+export(t, format, mixed))
			f, err := Open(t.Context(), path, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if got := bodies(t, f); !slices.Equal(got, want) {
				t.Errorf("%s: got other menus, or another order", format)
			}
			if err := f.Meta().Check(); err != nil || f.Meta().Count != int64(len(want)) {
				t.Errorf("%s: got %+v and %v", format, f.Meta(), err)
			}
			prints[f.Meta().Fingerprint] = true
		}
	}
	if len(prints) != 6 {
		t.Errorf("six files have %d fingerprints", len(prints))
	}
}

func mistakes(tb testing.TB, path string, options Options) string {
	tb.Helper()
	_, err := Open(tb.Context(), path, options)
	if !errors.Is(err, menu.ErrInput) {
		tb.Fatalf("got %v, want ErrInput", err)
	}
	return strings.ReplaceAll(err.Error(), path, "F")
}

func TestWhatIsNoFileOfMenusIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe.csv")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ path, want string }{
		{dir, "is not a file"},
		{pipe, "is not a file"},
		{write(t, "a.csv", "\xff\xfei\x00d\x00"), "F is UTF-16: save it as UTF-8"},
		{write(t, "a.csv", "i\x00d\x00"), "F is UTF-16"},
		{write(t, "a.psv.gz", "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x00\x00"), "cut short or damaged"},
		{write(t, "a.psv.gz", zipped(t, strings.Repeat("1|null|https://a.example\n", 99))[:60]), "cut short or damaged"},
		{write(t, "a.psv.gz", zipped(t, "2|null|https://a.example\n1|null|https://a.example")), "uncompress it"},
		{write(t, "a.csv", ""), "holds no menus"},
		{write(t, "a.jsonl", "\n\r\n"), "holds no menus"},
		{write(t, "a.csv", "id,dishType,subType,dish,price\n"), "holds no menus"},
		{write(t, "a.csv", "id;dishType;subType;dish;price\n1;a;b;c;3\n"), `mistakes: 1; nothing was stored:
F:1:1: the columns are separated by ";": save the file with commas between them`},
		{write(t, "a.csv", "id\tdishType\n1\ta\n"), `separated by "\t"`},
	} {
		if got := mistakes(t, c.path, Options{Format: formatOr(c.path)}); !strings.Contains(got, c.want) {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
	if _, err := Open(t.Context(), filepath.Join(dir, "none.csv"), Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: got %v", err)
	}
	for _, options := range []Options{{}, {Format: "xml"}, {Format: CSV, Currency: "usd"}} {
		if got := mistakes(t, write(t, "menus", ""), options); !strings.Contains(got, "csv") && !strings.Contains(got, "USD") {
			t.Errorf("%+v: got %s", options, got)
		}
	}
}

func formatOr(path string) Format {
	format, err := FormatOf(path)
	if err != nil {
		return CSV
	}
	return format
}

// A bad file is listed whole, up to a bound, and nothing of it is given out.
func TestMistakesHaveAPlace(t *testing.T) {
	t.Parallel()
	const head = "id,dishType,subType,dish,price,link\n"
	const good = `{"id":1,"link":"https://a.example"}`
	for _, c := range []struct {
		name, content string
		want          []string
	}{
		{"a.csv", "id;dishType\n1;2\n", []string{`separated by ";"`}},
		{"a.csv", "id:dishType\n1:2\n", []string{"F:1:1: column id is missing", "write a header of id,"}},
		{"a.csv", strings.Repeat("x,", 500_000), []string{"mistakes: 1;", "the header has 500001 columns"}},
		{"a.csv", head + strings.Repeat(",", 1_000_000), []string{"the row has 1000001 fields"}},
		{"a.csv", head[:len(head)-1] + ",x,id\n", []string{`F:1:1: column "x" is unknown`, `column "id"`}},
		{"a.csv", head + "1,a,b,c,1,\n01,a,b,c,1,\n2,a,b,c\n", []string{`mistakes: 2;`, `F:3:1: id is "01"`, "F:4:1: the row has 4 fields, the header 6"}},
		{"a.csv", head + "1,a,b,c,1.234,\n1,a,,c,1,\n2,a,b,c,-1,\n", []string{"F:2:9: price", "F:4:9: price"}},
		{"a.csv", head + "1,a,b,c,1,\n1,a,,c,1,\n", []string{"mistakes: 1;", "F:3:1: subType is empty"}},
		{"a.csv", head + "1,a,b,c,1,\n2,a,b,c,1,\n1,a,b,c,1,\n", []string{"mistakes: 1;", "F:4:1: id is 1, as on line 2"}},
		{"a.csv", head + "1,a,b,c,1,https://a.example\n", []string{"F:2:11: there is a dish, or another row, beside a link"}},
		{"a.csv", head + "1,,,,,javascript:alert(1)\n", []string{"F:2:1: link is"}},
		{"a.csv", "photo," + head + ",1,a,b,c,1,\nhttp://a.example/1.jpg,1,a,b,c,1,\n", []string{"mistakes: 1;", `F:3:1: photo is "http://a.example/1.jpg": write an https address such as`}},
		{"a.csv", "photo," + head + "https://a.example/1.jpg,1,,,,,https://a.example\n", []string{"F:2:31: there is a dish, or another row, beside a link"}},
		{"a.csv", "photo," + head + "'https://a.example/1.jpg,1,a,b,c,1,\n" + strings.Repeat("x", 3000) + ",2,a,b,c,1,\n", []string{"mistakes: 2;", "photo is \"'https", "photo has 3000 bytes"}},
		{"a.jsonl", `{"id":1,"dishes":[{"dishType":"a","subType":"b","dish":"c","price":1,"photo":"javascript:alert(1)"}]}`, []string{`F:1:1: dishes[0]: photo is "javascript:`}},
		{"a.jsonl", `{"id":1,"dishes":[{"dishType":"a","subType":"b","dish":"c","price":1,"photo":["https://a.example"]}]}`, []string{`"/dishes/0/photo" has the wrong kind`}},
		{"a.psv", `1|[{"dishType":"a","subType":"b","dish":"c","price":"5","photo":"//a.example/1"}]|null`, []string{"F:1:1: dishes[0]: photo is"}},
		{"a.json", `{"@type":"Menu","identifier":1,"hasMenuItem":{"name":"x","image":"data:image/png;base64,x","offers":{"price":1}}}`, []string{`dishes[0]: photo is "data:`}},
		{"a.json", `{"@type":"Menu","identifier":1,"hasMenuItem":{"name":"x","image":` + strings.Repeat("[", 9999) + strings.Repeat("]", 9999) + `,"offers":{"price":1}}}`, []string{"F:1:"}},
		{"a.csv", head + "1,a,\"b\nc\",d,1,\n", []string{"F:2:", "F:3:2: ", "no line breaks"}},
		{"a.csv", head + "1,a,b\"c,d,1,\n", []string{"F:2:6: the quotes are wrong"}},
		{"a.csv", head + strings.Repeat("1,a,b,c,1,\n", menu.MaxDishes+1), []string{"mistakes: 1;", "F:502:1: the menu has more than 500"}},
		{"a.csv", head + strings.Repeat("x\n", 1000), []string{"mistakes: 1000;", "F:21:1: ", "and 980 more"}},
		{"a.csv", head + "1,a,b,\xff,1,\n", []string{"F:2:1: ", "not UTF-8"}},
		{"a.jsonl", good + "\n{\"id\":2,\n\n" + good + "\n", []string{"mistakes: 2;", "F:2:9: ", "F:4:1: id is 1, as on line 1"}},
		{"a.jsonl", good + "\n" + strings.Replace(good, "1", "0", 1) + "\n" + strings.Repeat("x", 3<<20) + "\n", []string{"mistakes: 2;", "F:2:1: id is 0", "F:3:1: the line has more than 1048576 bytes"}},
		{"a.jsonl", strings.Repeat("[", 1e6), []string{"F:1:1"}},
		{"a.jsonl", `{"id":1,"id":2}`, []string{"F:1:9", "duplicate"}},
		{"a.json", `{"@type":"Menu","identifier":1,` + strings.Repeat(`"hasMenuSection":{`, 9000) + strings.Repeat("}", 9001), []string{"write at most 8 levels"}},
		{"a.jsonl", `{"\u001b[31m":1}`, []string{`\x1b`}},
		{"a.jsonl", `{"id":1e999}`, []string{"F:1:1", `"/id" has the wrong kind`}},
		{"a.jsonl", `{"id":1,"link":"\ud800"}`, []string{"F:1:17"}},
		{"a.psv", "id|dishes|link\nx|null|null\n1|null|null\n2|[{]|null\n3|[]|https://a.example/a|b\n4|null\n5|null|javascript:x\n", []string{
			"mistakes: 5;", "F:2:1: ", "F:3:1: there are no dishes and no link", "F:4:5: ", "F:6:7: there is no bar", "F:7:1: link",
		}},
		{"a.psv", `1|[{"dishType":"a","subType":"b","dish":"c","price":"€5"}]|null`, []string{"F:1:3: ", "amount of USD"}},
		{"a.psv", `1|[{"name":"c"}]|null`, []string{"F:1:", `"/0/name" is not known`}},
		{"a.json", `[{"@type":"Menu","@id":"x","url":"https://a.example"}, {"@type":"Thing"}]`, []string{"F:1:2: identifier or @id is \"x\"", `F:1:56: @type is "Thing"`}},
		{"a.json", "{\"@type\":\"Menu\",\n \"identifier\":1,\n \"url\"}", []string{"F:3:7: ", "what follows was not read"}},
		{"a.json", `{"@type":"Menu","identifier":"` + strings.Repeat("9", 3<<20), []string{"F:1:1: the document has more than 1048576 bytes"}},
		{"a.json", strings.Repeat(" ", 3<<20) + "{}", []string{"the document has more than"}},
		{"a.json", `{"@type":"Menu","identifier":1,"hasMenuItem":{"name":"x","offers":[{"price":1},{"price":2}]}}`, []string{"has 2 offers"}},
		{"a.json", `{"@type":"Menu","identifier":1,"hasMenuItem":{"name":"x"}}`, []string{"has 0 offers"}},
	} {
		got := mistakes(t, write(t, c.name, c.content), Options{})
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%.200q:\ngot  %.2000s\nwant %s", c.content, got, want)
			}
		}
	}
}

func TestWhatOthersWrite(t *testing.T) {
	t.Parallel()
	const soup = `{"id":12,"dishes":[{"dishType":"dinner","subType":"main","dish":"Soup","price":12.50,"ingredients":["a","b"]}],"link":null,"currency":"EUR"}`
	photo := strings.Replace(soup, `"b"]`, `"b"],"photo":"https://a.example/1.jpg"`, 1)
	image := func(image string) string {
		return `{"@type":"Menu","identifier":12,"hasMenuSection":{"name":"dinner","hasMenuSection":{"name":"main","hasMenuItem":{"name":"Soup",
			"recipeIngredient":"a, b","offers":{"price":12.5},"image":` + image + `}}}}`
	}
	const link = `{"id":12,"dishes":[],"link":"https://a.example","currency":"EUR"}`
	for _, c := range []struct{ name, content, want string }{
		{"a.csv", "price,dish,subType,dishType,id,ingredients\n$12.5,Soup,main,dinner,12, a | b \n", soup},
		{"a.csv", "photo,price,dish,subType,dishType,id,ingredients\nhttps://a.example/1.jpg,$12.5,Soup,main,dinner,12, a | b \n", photo},
		{"a.csv", "photo,price,dish,subType,dishType,id,ingredients\n,$12.5,Soup,main,dinner,12, a | b \n", soup},
		{"a.psv", `12|[{"dishType":"dinner","subType":"main","dish":"Soup","price":"$12.50","ingredients":"a, b","photo":"https://a.example/1.jpg"}]|null`, photo},
		{"a.json", image(`"https://a.example/1.jpg"`), photo},
		{"a.json", image(`["https://a.example/1.jpg","https://a.example/2.jpg"]`), photo},
		{"a.json", image(`{"@type":"ImageObject","contentUrl":"https://a.example/1.jpg","url":"https://a.example/page"}`), photo},
		{"a.json", image(`[{"@type":"ImageObject","url":"https://a.example/1.jpg"}]`), photo},
		{"a.json", image(`null`), soup},
		{"a.json", image(`[]`), soup},
		{"a.psv", `12|[{"dishType":"dinner","subType":"main","dish":"Soup","price":"$12.50","ingredients":"a, b"}]|null`, soup},
		{"a.txt", `12|[{"dishType":"dinner","subType":"main","dish":"Soup","price":12.5,"ingredients":["a","b"]}]|null` + "\r\n", soup},
		{"a.txt", `12|null|https://a.example`, link},
		{"a.jsonl", `{"id":12,"link":"https://a.example"}`, link},
		{"a.jsonld", `{"@context":"https://schema.org","@type":"Menu","@id":"https://x.example/12","hasMenuSection":[{"@type":"MenuSection","name":"dinner",
			"hasMenuSection":{"name":"main","hasMenuItem":[{"@type":"MenuItem","name":"Soup","description":"x","recipeIngredient":["a","b"],
			"offers":{"@type":"Offer","price":"12.50","priceCurrency":"EUR"}}]}}]}`, soup},
		{"a.json", `[{"@type":["https://schema.org/Menu","Thing"],"identifier":"menu-12","url":"https://a.example"}]`, link},
	} {
		f, err := Open(t.Context(), write(t, c.name, c.content), Options{Currency: "EUR"})
		if err != nil {
			t.Errorf("%s: %v", c.content, err)
			continue
		}
		if got := bodies(t, f); len(got) != 1 || got[0] != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.content, got, c.want)
		}
	}
}

// A file that is changed behind the check does not pass for the one that was checked.
func TestChangedFileIsNoticed(t *testing.T) {
	t.Parallel()
	a, b := `{"id":1,"link":"https://a.example"}`, `{"id":2,"link":"https://b.example"}`
	for _, c := range []struct{ before, after string }{
		{a + "\n" + b, a + "\n" + strings.Replace(b, "b.", "c.", 1)},
		{b + "\n" + a, strings.Replace(b, "b.", "c.", 1) + "\n" + a},
		{b + "\n" + a, b},
		{a + "\n" + b, b + "\n" + a},
		{a, ""},
		{a, "nonsense"},
	} {
		path := write(t, "a.jsonl", c.before)
		f, err := Open(t.Context(), path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(c.after), 0o600); err != nil {
			t.Fatal(err)
		}
		var last error
		for _, last = range f.All(t.Context()) {
		}
		if last == nil || !strings.Contains(last.Error(), "has changed since it was checked") {
			t.Errorf("%q to %q: got %v", c.before, c.after, last)
		}
	}
}

func TestStopping(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for id := range 5000 {
		fmt.Fprintf(&text, "%d|null|https://a.example\n", id+1)
	}
	path := write(t, "a.psv", text.String())
	f, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for m, err := range f.All(t.Context()) {
		if err != nil || m.ID > 2 {
			t.Fatalf("menu %d after the end, and %v", m.ID, err)
		}
		if m.ID == 2 {
			break
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, path, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("check: got %v", err)
	}
	for _, last := range f.All(ctx) {
		err = last
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("all: got %v", err)
	}
}

func TestWriteRefuses(t *testing.T) {
	t.Parallel()
	mixed := menus{{ID: 1, Currency: "USD", Link: "https://a.example"}, {ID: 2, Currency: "EUR", Link: "https://a.example"}}
	for _, format := range []Format{PSV, SchemaOrg, ""} {
		if err := Write(t.Context(), &bytes.Buffer{}, format, mixed, nil); !errors.Is(err, menu.ErrInput) || !strings.Contains(err.Error(), "write csv") {
			t.Errorf("%s: got %v", format, err)
		}
	}
}
