package accesslog

import (
	"strings"
	"testing"
	"time"
)

func TestTimes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"10/Oct/2026:13:55:36 -0700": "2026-10-10T20:55:36Z",
		"01/Jan/2026:00:30:00 +0530": "2025-12-31T19:00:00Z",
		"29/Feb/2024:23:59:59 +0000": "2024-02-29T23:59:59Z",
		"31/Dec/2016:23:59:60 +0000": "2017-01-01T00:00:00Z",
		"28/Feb/1969:12:00:00 +1400": "1969-02-27T22:00:00Z",
	} {
		got, ok := parseTime([]byte(text))
		if utc := time.Unix(got, 0).UTC().Format(time.RFC3339); !ok || utc != want {
			t.Errorf("%s is %s, %v, want %s", text, utc, ok, want)
		}
	}
	for _, bad := range []string{
		"29/Feb/2026:13:55:36 -0700", "00/Oct/2026:13:55:36 -0700", "10/oct/2026:13:55:36 -0700", "10/anF/2026:13:55:36 -0700",
		"10/Oct/2026:24:55:36 -0700", "10/Oct/2026:13:60:36 -0700", "10/Oct/2026:13:55:61 -0700", "10/Oct/2026:13:55:36 00700",
		"10/Oct/2026:13:55:36 -0760", "10/Oct/2026:13:55:36 -9900", "10/Oct/20x6:13:55:36 -0700", "10/Oct/2026 13:55:36 -0700",
		"2026-10-10T13:55:36+02:00 ", "+1/Oct/2026:13:55:36 -0700",
	} {
		if got, ok := parseTime([]byte(bad)); ok {
			t.Errorf("%s is taken for %d", bad, got)
		}
	}
}

func TestLines(t *testing.T) {
	t.Parallel()
	const before = `192.0.2.1 - - [10/Oct/2026:13:55:36 +0000] `
	tests := map[string]struct {
		text   string
		want   reason
		target string
	}{
		"common":                      {before + `"GET /a HTTP/1.1" 200 12`, fine, "/a"},
		"no size":                     {before + `"GET /a HTTP/1.1" 304 -`, fine, "/a"},
		"blanks in the target":        {before + `"GET /a b  c HTTP/1.1" 200 12`, fine, "/a%20b%20%20c"},
		"a quote, NGINX":              {before + `"GET /\x22 HTTP/1.1" 200 12`, fine, "/%22"},
		"a quote, Apache":             {before + `"GET /\" HTTP/1.1" 200 12`, fine, "/%22"},
		"a backslash at the end":      {before + `"GET /\\ HTTP/1.1" 200 12`, fine, "/%5C"},
		"control characters":          {before + `"GET /\r\n\t\x00\x7f HTTP/1.1" 200 12`, fine, "/%0D%0A%09%00%7F"},
		"an escape cut short":         {before + `"GET /\x2 HTTP/1.1" 200 12`, fine, "/%5Cx2"},
		"an unknown escape":           {before + `"GET /\q HTTP/1.1" 200 12`, fine, "/%5Cq"},
		"raw bytes":                   {before + "\"GET /\xc3\xbc\x01 HTTP/1.1\" 200 12", fine, "/%C3%BC%01"},
		"escapes of a URI stay":       {before + `"GET /%41%zz%?a=%2F HTTP/1.1" 200 12`, fine, "/%41%zz%?a=%2F"},
		"two slashes":                 {before + `"GET //x HTTP/1.1" 200 12`, fine, "//x"},
		"a user with a time":          {`192.0.2.1 - a [10/Oct/2020:13:55:36 +0000] [10/Oct/2026:13:55:36 +0000] "GET /a HTTP/1.1" 200 12`, fine, "/a"},
		"a virtual host before":       {`results.example:443 ` + before + `"GET /a HTTP/1.1" 200 12 "-" "-"`, fine, "/a"},
		"quotes in the agent":         {before + `"GET /a HTTP/1.1" 200 12 "-" "\"GET /b HTTP/1.1\" 200"`, fine, "/a"},
		"a cut agent":                 {before + `"GET /a HTTP/1.1" 200 12 "-" "Mozi`, fine, "/a"},
		"an asterisk":                 {before + `"GET * HTTP/1.1" 200 12`, otherForm, ""},
		"no target":                   {before + `"GET  HTTP/1.1" 200 12`, otherForm, ""},
		"an escaped first byte":       {before + `"GET \x2Fa HTTP/1.1" 200 12`, otherForm, ""},
		"a body":                      {before + `"PUT /a HTTP/1.1" 200 12`, otherMethod, ""},
		"a method of another case":    {before + `"get /a HTTP/1.1" 200 12`, noRequest, ""},
		"HTTP/0.9":                    {before + `"GET /a" 200 12`, noRequest, ""},
		"nothing but a protocol":      {before + `" HTTP/1.1" 400 12`, noRequest, ""},
		"a quote left open":           {before + `"GET /a HTTP/1.1 200 12`, notALine, ""},
		"an escaped quote at the end": {before + `"GET /a HTTP/1.1\" 200 12`, notALine, ""},
		"no status":                   {before + `"GET /a HTTP/1.1"`, notALine, ""},
		"a status of letters":         {before + `"GET /a HTTP/1.1" abc 12`, notALine, ""},
		"a size of letters":           {before + `"GET /a HTTP/1.1" 200 12x`, notALine, ""},
		"no size at all":              {before + `"GET /a HTTP/1.1" 200 `, notALine, ""},
		"JSON":                        {`{"time": "[10/Oct/2026:13:55:36 +0000]"}`, notALine, ""},
		"a time at the beginning":     {`[10/Oct/2026:13:55:36 +0000] "GET /a HTTP/1.1" 200 12`, notALine, ""},
		"a time cut short":            {`192.0.2.1 - - [10/Oct/2026:13:55`, notALine, ""},
		"a bracket at the end":        {`192.0.2.1 - - [`, notALine, ""},
	}
	for name, test := range tests {
		var r request
		if got := r.parse([]byte(test.text)); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		} else if string(r.target) != test.target {
			t.Errorf("%s: target %s, want %s", name, r.target, test.target)
		}
	}
}

func TestExamplesCanBePrinted(t *testing.T) {
	t.Parallel()
	if got, want := printable([]byte("a\x1b[31m\tü\xff\n")), "a\uFFFD[31m\uFFFDü\uFFFD"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	long := strings.Repeat("x", 199)
	if got, want := printable([]byte(long+"ü and more")), long+"\uFFFD…"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// FuzzLine: whatever a line is, what is taken from it can stand in the request
// line of HTTP/1.1 as it is.
func FuzzLine(f *testing.F) {
	f.Add([]byte(line(3, `/a?b=\x22c\"`)))
	f.Add([]byte(`192.0.2.1 - b [c] [10/Oct/2026:13:55:36 -0700] "HEAD / /\\ HTTP/1.0" 304 - "-" "\""`))
	f.Add([]byte(`192.0.2.1 - - [10/Oct/2026:13:55:36 +0000] "\x16\x03" 400 0`))
	f.Add([]byte("192.0.2.1 - - [10/Oct/2026:13:55:36 +0000] \"GET /\r\nX: y HTTP/1.1\" 200 0"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var r request
		why := r.parse(text)
		if why >= reasons || why != fine && why.String() == "" {
			t.Fatalf("reason %d", why)
		}
		if why != fine {
			return
		}
		if len(r.target) == 0 || r.target[0] != '/' {
			t.Errorf("target %q does not begin with /", r.target)
		}
		for _, c := range r.target {
			if c <= ' ' || c >= 0x7f {
				t.Errorf("target %q has byte %#x", r.target, c)
			}
		}
		if len(r.target) > 3*len(text) {
			t.Errorf("a target of %d bytes from a line of %d", len(r.target), len(text))
		}
		var again request
		if again.parse(text) != fine || again.second != r.second || string(again.target) != string(r.target) {
			t.Error("read again it is another request")
		}
	})
}
