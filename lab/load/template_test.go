package load

import (
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

func mustParse(tb testing.TB, raw string) *url.URL {
	tb.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		tb.Fatal(err)
	}
	return u
}

func TestTemplateFill(t *testing.T) {
	t.Parallel()
	count := func(lo, hi int64) Feed { return Feed{Sequential: &[2]int64{lo, hi}} }
	tests := []struct {
		name    string
		request Request
		feed    map[string]Feed
		base    string
		k       uint64
		want    string
	}{
		{
			"plain", Request{Method: "GET", Path: "/"}, nil, "http://127.0.0.1:8080", 0,
			"GET / HTTP/1.1|Host: 127.0.0.1:8080|User-Agent: loadstone||",
		},
		{
			"value in the path", Request{Method: "HEAD", Path: "/a/{id}/b?x={id}"}, map[string]Feed{"id": count(98, 200)}, "http://h", 3,
			"HEAD /a/101/b?x=101 HTTP/1.1|Host: h|User-Agent: loadstone||",
		},
		{
			"a base with a path", Request{Method: "GET", Path: "/x"}, nil, "http://h:1/api/", 0,
			"GET /api/x HTTP/1.1|Host: h:1|User-Agent: loadstone||",
		},
		{
			"headers in order", Request{Method: "GET", Path: "/", Header: map[string]string{"X-B": "2", "X-A": "v{n}w", "host": "example.org", "User-Agent": "me"}},
			map[string]Feed{"n": count(-5, 0)}, "http://h", 0,
			"GET / HTTP/1.1|Host: example.org|User-Agent: me|X-A: v-5w|X-B: 2||",
		},
		{
			"a JSON body keeps its braces", Request{Method: "POST", Path: "/", Body: `{"id":{id},"tags":{},"x":"{ id }"}`},
			map[string]Feed{"id": count(7, 700)}, "http://h", 93,
			"POST / HTTP/1.1|Host: h|User-Agent: loadstone|Content-Length: 33||" + `{"id":100,"tags":{},"x":"{ id }"}`,
		},
		{
			"the length follows the values", Request{Method: "PUT", Path: "/", Body: "{a}{b}{a}"},
			map[string]Feed{"a": count(1000, 2000), "b": count(1, 2)}, "http://h", 0,
			"PUT / HTTP/1.1|Host: h|User-Agent: loadstone|Content-Length: 9||100011000",
		},
		{
			"an empty POST", Request{Method: "POST", Path: "/"}, nil, "http://h", 0,
			"POST / HTTP/1.1|Host: h|User-Agent: loadstone|Content-Length: 0||",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var feeds []values
			for _, name := range sortedKeys(test.feed) {
				feeds = append(feeds, newValues(1, "s", name, test.feed[name]))
			}
			tmpl := compile(&test.request, feeds, mustParse(t, test.base))
			got := string(tmpl.fill(nil, test.k, make([][]byte, len(feeds))))
			want := strings.ReplaceAll(test.want, "|", "\r\n")
			if got != want {
				t.Errorf("got  %q\nwant %q", got, want)
			}
			if _, body, _ := strings.Cut(got, "\r\n\r\n"); test.request.Body != "" && !strings.Contains(got, "Content-Length: "+strconv.Itoa(len(body))+"\r\n") {
				t.Errorf("the length of %q is not that of its body, %d", got, len(body))
			}
		})
	}
}

func TestTemplateFillAllocatesNothing(t *testing.T) {
	feeds := []values{newValues(1, "s", "id", Feed{Uniform: &[2]int64{10000, 674823}})}
	tmpl := compile(&Request{Method: "POST", Path: "/student/{id}", Body: `{"id": {id}}`}, feeds, mustParse(t, "http://h"))
	out, texts, k := make([]byte, 0, 1000), [][]byte{make([]byte, 0, 20)}, uint64(0)
	if n := testing.AllocsPerRun(1000, func() { out = tmpl.fill(out[:0], k, texts); k++ }); n != 0 {
		t.Errorf("got %v allocations for a request, want 0", n)
	}
}

func TestSplitPlaceholders(t *testing.T) {
	t.Parallel()
	tests := map[string][]placeholder{
		"":          {{"", ""}},
		"abc":       {{"abc", ""}},
		"{a}":       {{"", "a"}, {"", ""}},
		"x{a_1}y":   {{"x", "a_1"}, {"y", ""}},
		"{{a}}":     {{"{", "a"}, {"}", ""}},
		"{1a}{}{ a": {{"{1a}{}{ a", ""}},
		"{a":        {{"{a", ""}},
		"{a}{b}":    {{"", "a"}, {"", "b"}, {"", ""}},
		"{é}":       {{"{é}", ""}},
	}
	for text, want := range tests {
		if got := splitPlaceholders(text); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}
