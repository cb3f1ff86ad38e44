package menu_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"loadstone/system/menu"
)

func overlay(tb testing.TB, body string) *menu.Overlay {
	tb.Helper()
	o, err := menu.ParseOverlay([]byte(body))
	if err != nil {
		tb.Fatalf("%s: %v", body, err)
	}
	return o
}

const full = `{"timeZone":"Europe/Berlin","dayparts":[` +
	`{"name":"breakfast","days":["mon","sat"],"from":"07:00","to":"11:00","sections":["Breakfast"]},` +
	`{"name":"late","days":["mon","tue","wed","thu","fri","sat","sun"],"from":"22:00","to":"24:00","sections":["bar","snacks"]}` +
	`],"soldOut":[{"dish":"Shiro"},{"dish":"Kitfo","until":"2026-11-23T22:00:00Z"}]}`

func TestOverlayIsReadAndWritten(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		full: full,
		`{}`: `{"dayparts":[],"soldOut":[]}`,
		`{"timeZone":"UTC","dayparts":null,"soldOut":[{"dish":"a","until":null},{"dish":"b","until":"2026-11-23T22:00:00.75+01:00"}]}`: `{"timeZone":"UTC","dayparts":[],"soldOut":[{"dish":"a"},{"dish":"b","until":"2026-11-23T21:00:00Z"}]}`,
		`{"timeZone":"UTC","dayparts":[{"name":"a","from":"00:00","to":"24:00","sections":["x"],"days":["sun","mon","sun"]}]}`:         `{"timeZone":"UTC","dayparts":[{"name":"a","days":["mon","sun"],"from":"00:00","to":"24:00","sections":["x"]}],"soldOut":[]}`,
	} {
		if got := string(overlay(t, body).JSON()); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", body, got, want)
		}
	}
}

func TestOverlaysThatAreRefused(t *testing.T) {
	t.Parallel()
	daypart := func(old, replacement string) string {
		return strings.Replace(`{"timeZone":"UTC","dayparts":[{"name":"a","from":"07:00","to":"11:00","sections":["x"]}]}`, old, replacement, 1)
	}
	for body, want := range map[string]string{
		``:                                 "write one JSON object",
		`[]`:                               "wrong kind of value",
		`{"soldOut":[],"soldOut":[]}`:      "duplicate",
		`{"soldout":[]}`:                   "write timeZone, dayparts and soldOut",
		`{} {}`:                            "write one JSON object",
		`{"soldOut":[{"dish":""}]}`:        "dish is empty",
		`{"soldOut":[{"dish":"a\u0000"}]}`: "control characters",
		`{"soldOut":[{"dish":"a"},{"dish":"A"}]}`:                                "a second time",
		`{"soldOut":[{"dish":"a","until":"tomorrow"}]}`:                          "wrong kind of value",
		`{"soldOut":[{"dish":"a","until":"9999-12-31T23:59:59-01:00"}]}`:         "write when there is more",
		`{"soldOut":[{"dish":"a","until":"0001-01-01T00:00:00Z"}]}`:              "write when there is more",
		`{"soldOut":[` + strings.Repeat(`{"dish":"a"},`, 500) + `{"dish":"a"}]}`: "at most 20 and 500",
		`{"timeZone":"UTC","dayparts":[` + strings.Repeat(`{},`, 20) + `{}]}`:    "at most 20 and 500",
		`{"timeZone":"Europe/Nowhere"}`:                                          "such as Europe/Berlin",
		`{"timeZone":"Local"}`:                                                   "such as Europe/Berlin",
		`{"timeZone":"../../etc/passwd"}`:                                        "such as Europe/Berlin",
		daypart(`"timeZone":"UTC",`, ``):                                         "timeZone is missing",
		daypart(`"a"`, `""`):                                                     "dayparts[0]: name is empty",
		daypart(`"07:00"`, `"7:00"`):                                             "from is \"7:00\": write a time",
		daypart(`"07:00"`, `"24:00"`):                                            "write 00:00, of the next day",
		daypart(`"07:00"`, `"11:00"`):                                            "write 00:00 and 24:00",
		daypart(`"11:00"`, `"24:01"`):                                            "to is",
		daypart(`"11:00"`, `"10:60"`):                                            "to is",
		daypart(`"11:00"`, `"-1:00"`):                                            "to is",
		daypart(`"11:00"`, `"١1:0"`):                                             "to is",
		daypart(`"11:00"`, `""`):                                                 "to is",
		daypart(`["x"]`, `[]`):                                                   "there are 0 sections",
		daypart(`["x"]`, `[""]`):                                                 "sections[0] is empty",
		daypart(`"name"`, `"days":["Mon"],"name"`):                               "write mon, tue",
	} {
		o, err := menu.ParseOverlay([]byte(body))
		if o != nil || !errors.Is(err, menu.ErrInput) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.100s: got %v and %v, want %q", body, o, err, want)
		}
	}
	var large []string
	for i := range 20 * 100 {
		large = append(large, strings.Repeat("x", 40)+string(rune('a'+i%26)))
	}
	sections := `["` + strings.Join(large[:100], `","`) + `"]`
	one := `{"name":"a","from":"07:00","to":"11:00","sections":` + sections + `},`
	body := `{"timeZone":"UTC","dayparts":[` + strings.TrimSuffix(strings.Repeat(one, 20), ",") + `]}`
	if _, err := menu.ParseOverlay([]byte(body)); err == nil || !strings.Contains(err.Error(), "write at most 65536") {
		t.Errorf("%d bytes: got %v", len(body), err)
	}
}

// at says when by the clock in a zone, or with its offset.
func at(tb testing.TB, text string) time.Time {
	tb.Helper()
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

func TestWhatIsServedNow(t *testing.T) {
	t.Parallel()
	late := `{"timeZone":"Europe/Berlin","dayparts":[{"name":"late","days":["fri"],"from":"22:00","to":"02:30","sections":["bar"]}]}`
	night := `{"timeZone":"Europe/Berlin","dayparts":[{"name":"night","from":"02:15","to":"02:45","sections":["bar"]}]}`
	twice := `{"timeZone":"Europe/Berlin","dayparts":[{"name":"a","from":"07:00","to":"11:00","sections":["bar"]},{"name":"b","from":"10:00","to":"12:00","sections":["BAR"]}]}`
	apia := `{"timeZone":"Pacific/Apia","dayparts":[{"name":"a","days":["fri"],"from":"07:00","to":"11:00","sections":["bar"]}]}`
	whole := `{"timeZone":"Europe/Berlin","dayparts":[{"name":"a","days":["sun"],"from":"00:00","to":"24:00","sections":["bar"]}]}`
	for _, c := range []struct {
		name, body, now string
		serves          bool
		changes         string
	}{
		{"before", late, "2026-11-20T21:59:59+01:00", false, "2026-11-20T22:00:00+01:00"},
		{"from the first second", late, "2026-11-20T22:00:00+01:00", true, "2026-11-21T02:30:00+01:00"},
		{"past midnight", late, "2026-11-21T02:29:59+01:00", true, "2026-11-21T02:30:00+01:00"},
		{"to the last second", late, "2026-11-21T02:30:00+01:00", false, "2026-11-27T22:00:00+01:00"},
		{"midnight of a day that is not named", late, "2026-11-20T01:00:00+01:00", false, "2026-11-20T22:00:00+01:00"},
		{"elsewhere it is another day", late, "2026-11-21T11:00:00+14:00", true, "2026-11-21T02:30:00+01:00"},
		// On 25 October 2026 clocks go back from 03:00 to 02:00: it is 02:15 twice.
		{"first time", night, "2026-10-25T02:20:00+02:00", true, "2026-10-25T02:45:00+02:00"},
		{"between", night, "2026-10-25T02:50:00+02:00", false, "2026-10-26T02:15:00+01:00"},
		{"second time", night, "2026-10-25T02:20:00+01:00", false, "2026-10-26T02:15:00+01:00"},
		// On 29 March 2026 they go on from 02:00 to 03:00: it is never 02:15.
		{"skipped", night, "2026-03-29T01:59:59+01:00", false, "2026-03-30T02:15:00+02:00"},
		{"after that", night, "2026-03-29T03:00:00+02:00", false, "2026-03-30T02:15:00+02:00"},
		{"23 hours", whole, "2026-03-29T23:59:59+02:00", true, "2026-03-30T00:00:00+02:00"},
		{"25 hours", whole, "2026-10-25T00:00:00+02:00", true, "2026-10-26T00:00:00+01:00"},
		{"the end of 25 hours", whole, "2026-10-26T00:00:00+01:00", false, "2026-11-01T00:00:00+01:00"},
		{"either of two", twice, "2026-11-20T09:00:00+01:00", true, "2026-11-20T10:00:00+01:00"},
		{"the second of two", twice, "2026-11-20T11:30:00+01:00", true, "2026-11-20T12:00:00+01:00"},
		{"neither of two", twice, "2026-11-20T12:00:00+01:00", false, "2026-11-21T07:00:00+01:00"},
		// Samoa had no 30 December 2011, a Friday.
		{"no such day", apia, "2011-12-30T08:00:00-10:00", false, "2012-01-06T07:00:00+14:00"},
	} {
		now := overlay(t, c.body).At(at(t, c.now))
		if got := now.Serves("Bar"); got != c.serves || !now.Changes.Equal(at(t, c.changes)) {
			t.Errorf("%s: at %s got %v until %v, want %v until %s", c.name, c.now, got, now.Changes, c.serves, c.changes)
		}
		if !now.Serves("dinner") || now.SoldOut("Shiro") {
			t.Errorf("%s: what is not named is not served", c.name)
		}
	}
	var none *menu.Overlay
	if now := none.At(time.Now()); !now.Serves("bar") || now.SoldOut("bar") || !now.Changes.IsZero() {
		t.Errorf("nothing said: got %+v", now)
	}
}

func TestSoldOut(t *testing.T) {
	t.Parallel()
	o := overlay(t, `{"soldOut":[{"dish":"Shiro"},{"dish":"Kitfo","until":"2026-11-23T22:00:00Z"}]}`)
	for now, want := range map[string][]bool{
		"2026-11-23T21:59:59Z": {true, true, false},
		"2026-11-23T22:00:00Z": {true, false, false},
	} {
		n := o.At(at(t, now))
		if got := []bool{n.SoldOut("SHIRO"), n.SoldOut("kitfo"), n.SoldOut("Genfo")}; !slices.Equal(got, want) {
			t.Errorf("at %s: got %v, want %v", now, got, want)
		}
		if n.Changes.IsZero() == want[1] {
			t.Errorf("at %s: it changes at %v", now, n.Changes)
		}
	}
}

// Whatever is accepted is written in a way that is read as the same, and changes when it says.
func FuzzOverlay(f *testing.F) {
	f.Add(full, int64(1_790_000_000))
	f.Add(`{"timeZone":"Pacific/Apia","dayparts":[{"name":"a","from":"23:59","to":"23:58","sections":["x"]}]}`, int64(1_325_239_200))
	f.Fuzz(func(t *testing.T, body string, second int64) {
		o, err := menu.ParseOverlay([]byte(body))
		if err != nil {
			return
		}
		text := o.JSON()
		if again := overlay(t, string(text)).JSON(); string(again) != string(text) {
			t.Fatalf("got %s, want %s", again, text)
		}
		now := time.Unix(second%(1<<33), 0)
		before := o.At(now)
		if before.Changes.IsZero() {
			return
		}
		last := o.At(before.Changes.Add(-time.Second))
		for _, d := range o.Dayparts {
			for _, s := range d.Sections {
				if last.Serves(s) != before.Serves(s) {
					t.Fatalf("%s: %s changes before %v", text, s, before.Changes)
				}
			}
		}
	})
}

func TestDaypartsAsPeopleReadThem(t *testing.T) {
	t.Parallel()
	for want, all := range map[string][]time.Weekday{
		"Sun": {0}, "Mon–Fri": {1, 2, 3, 4, 5}, "Mon, Wed, Fri–Sun": {1, 3, 5, 6, 0}, "Mon–Sun": {1, 2, 3, 4, 5, 6, 0},
	} {
		d := menu.Daypart{Name: "late", Days: all, From: 22 * 60, To: 90}
		if got := d.String(); got != "late: "+want+" 22:00–01:30" {
			t.Errorf("%v: got %q, want %s", all, got, want)
		}
	}
}
