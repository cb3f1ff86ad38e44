package activity

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

const good = `{"id":"order-4711","user":"abebe","kind":"order","at":"2026-05-31T21:30:00.25+03:00","details":"two \"coffees\""}`

func TestDecode(t *testing.T) {
	t.Parallel()
	got, err := Decode([]byte(good))
	want := Activity{"order-4711", "abebe", "order", time.Date(2026, 5, 31, 18, 30, 0, 250e6, time.UTC), `two "coffees"`}
	if err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	text, err := Encode(&got)
	if err != nil || string(text) != `{"id":"order-4711","user":"abebe","kind":"order","at":"2026-05-31T18:30:00.25Z","details":"two \"coffees\""}` {
		t.Errorf("got %s, %v", text, err)
	}
}

func TestWhatIsNoActivityIsSaid(t *testing.T) {
	t.Parallel()
	change := func(old, changed string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("%s is not in the example", old)
		}
		return strings.Replace(good, old, changed, 1)
	}
	for _, c := range []struct{ body, want string }{
		{"", "line 1, column 1: the JSON ends too early; write {"},
		{"{", "the JSON ends too early"},
		{"{\n  nonsense", "line 2, column 3: this is not JSON; write {"},
		{"[]", "line 1, column 1: this is a JSON array; write {"},
		{"null", "id is not 1 to 64"},
		{good + "{}", "there is more after the activity; write one JSON object"},
		{change(`"user"`, `"usr"`), `an activity has no "usr"; write {`},
		{change(`"abebe"`, `7`), "user is a JSON number; write a text in quotes"},
		{change("2026-05", "2026-5"), `at is no time; write it like "2026-05-31T18:30:00.250Z"`},
		{change(`"2026-05-31T21:30:00.25+03:00"`, `7`), "at is no time"},
		{change(".25+", ".2505+"), "at most three digits after the second"},
		{change(`"at":"2026-05-31T21:30:00.25+03:00",`, ""), "at is missing"},
		{change("order-4711", "a/b"), "id is not 1 to 64 letters"},
		{change("order-4711", ".."), "id is not 1 to 64 letters"},
		{change("order-4711", strings.Repeat("x", MaxID+1)), "id is not 1 to 64 letters"},
		{change(`"kind":"order"`, `"kind":""`), "kind is not 1 to 32 letters"},
		{change("abebe", ""), "user is not 1 to 128 bytes"},
		{change("abebe", `a\u0000`), "user is not 1 to 128 bytes of text without a zero character"},
		{change("abebe", "\xff"), "not UTF-8"},
		{change("two", strings.Repeat("x", MaxDetails)), "details is not at most 2048 bytes"},
		{change("two", strings.Repeat("x", MaxBody)), fmt.Sprint("write at most ", MaxBody)},
	} {
		if a, err := Decode([]byte(c.body)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.80s: got %+v, %v, want %q", c.body, a, err, c.want)
		}
	}
}

// The largest that is valid must fit, however its JSON is escaped.
func TestTheLargestFits(t *testing.T) {
	t.Parallel()
	escaped := func(n int) string { return strings.Repeat(`\u0041`, n) }
	body := fmt.Sprintf(`{"id":"%s","user":"%s","kind":"%s","at":"2026-05-31T18:30:00Z","details":"%s"}`,
		escaped(MaxID), escaped(MaxUser), escaped(MaxKind), escaped(MaxDetails))
	if a, err := Decode([]byte(body)); err != nil || len(a.Details) != MaxDetails {
		t.Errorf("got %v for %d bytes of JSON", err, len(body))
	}
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{good, "{}", "null", `{"id":"a","user":"\ud800","kind":"k","at":"0000-01-01T00:00:00Z"}`, `{"at":"9999-12-31T23:59:59.999-23:59"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		a, err := Decode(body)
		if err != nil {
			return
		}
		text, err := Encode(&a)
		if err != nil {
			t.Fatalf("%+v: %v", a, err)
		}
		if again, err := Decode(text); err != nil || again != a {
			t.Errorf("got %+v, %v, want %+v", again, err, a)
		}
		if Time(a.Millis()) != a.At {
			t.Errorf("%v does not survive being stored", a.At)
		}
	})
}
