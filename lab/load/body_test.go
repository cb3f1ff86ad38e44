package load_test

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/url"
	"strings"
	"testing"

	"loadstone/lab/load"
)

// written is a request's body with a value for each of its placeholders.
func written(t *testing.T, r load.Request, value string) (body, contentType string) {
	t.Helper()
	pieces, contentType, err := r.Pieces(func(path string) ([]byte, error) {
		if path != "photo.png" {
			return nil, errors.New("there is no " + path)
		}
		return []byte("\x89PNG {not} a placeholder"), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var out []byte
	length := 0
	for _, p := range pieces {
		out = append(out, p.Before...)
		length += len(p.Before)
		if p.Name != "" {
			out = p.Escape.Append(out, []byte(value))
			length += p.Escape.Length([]byte(value))
		}
	}
	if length != len(out) {
		t.Errorf("the lengths add up to %d, and %q has %d bytes", length, out, len(out))
	}
	return string(out), contentType
}

const awkward = "a\"b\\c\n\x01é {x} & = 100%+ "

func TestValuesInJSONAreEscaped(t *testing.T) {
	t.Parallel()
	body, contentType := written(t, load.Request{Body: `{"name": "\"{name}\\", "list": ["{name}"]}`}, awkward)
	var got struct {
		Name string   `json:"name"`
		List []string `json:"list"`
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	if got.Name != `"`+awkward+`\` || got.List[0] != awkward || contentType != "application/json" {
		t.Errorf("the server reads %+v of %s, want %q in it", got, contentType, awkward)
	}
	// What stands outside of strings is a value already.
	if body, _ := written(t, load.Request{Body: `{"n": {n}, "all": [{n}]}`}, "7"); body != `{"n": 7, "all": [7]}` {
		t.Errorf("a number became %s", body)
	}
}

func TestWhatIsTakenForJSON(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		body, header, want string
		escaped            bool
	}{
		{body: `{"a": "{x}"}`, want: "application/json", escaped: true},
		{body: " \n[\"{x}\", {y}]", want: "application/json", escaped: true},
		{body: `{"a": "{x}"`},
		{body: `"{x}"`},
		{body: `{x}`},
		{body: `a={x}`},
		{body: ``},
		{body: `{"a": "{x}"}`, header: "text/plain"},
		{body: `{"a": "{x}"}`, header: "application/problem+json; charset=utf-8", want: "application/json", escaped: true},
		{body: `"{x}"`, header: "application/json", want: "application/json", escaped: true},
	} {
		r := load.Request{Body: c.body}
		if c.header != "" {
			r.Header = map[string]string{"content-type": c.header}
		}
		body, got := written(t, r, `"`)
		if got != c.want || strings.Contains(body, `\"`) != c.escaped {
			t.Errorf("%s as %s is sent as %q, %s; want %q, escaped: %v", c.body, c.header, got, body, c.want, c.escaped)
		}
	}
}

func TestForms(t *testing.T) {
	t.Parallel()
	body, contentType := written(t, load.Request{Form: map[string]string{"b&": "1 {x}=2", "a": "{x}{x}", "none": ""}}, awkward)
	got, err := url.ParseQuery(body)
	if err != nil || contentType != "application/x-www-form-urlencoded" {
		t.Fatalf("%s, %v: %s", contentType, err, body)
	}
	if got.Get("b&") != "1 "+awkward+"=2" || got.Get("a") != awkward+awkward || !got.Has("none") || len(got) != 3 {
		t.Errorf("the server reads %q", got)
	}
}

func TestMultipart(t *testing.T) {
	t.Parallel()
	r := load.Request{Multipart: []load.FormField{
		{Name: "title", Value: "A {x}"}, {Name: "photo", File: "photo.png"},
		{Name: "more", Value: "{}", Type: "application/json"}, {Name: "again", File: "photo.png", FileName: "a\"b.bin", Type: "image/x"},
	}}
	body, contentType := written(t, r, awkward)
	_, parameters, err := mime.ParseMediaType(contentType)
	if err != nil {
		t.Fatal(err)
	}
	parts := multipart.NewReader(strings.NewReader(body), parameters["boundary"])
	for _, want := range [][4]string{
		{"title", "", "", "A " + awkward}, {"photo", "photo.png", "image/png", "\x89PNG {not} a placeholder"},
		{"more", "", "application/json", "{}"}, {"again", "a%22b.bin", "image/x", "\x89PNG {not} a placeholder"},
	} {
		part, err := parts.NextPart()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(part)
		if got := [4]string{part.FormName(), part.FileName(), part.Header.Get("Content-Type"), string(content)}; err != nil || got != want {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
	}
	if _, err := parts.NextPart(); !errors.Is(err, io.EOF) {
		t.Errorf("another part: %v", err)
	}
	r.Multipart[1].File = "nothing.png"
	if _, _, err := r.Pieces(func(path string) ([]byte, error) { return nil, errors.New("no " + path) }); err == nil || !strings.Contains(err.Error(), `field "photo" of the form: no nothing.png`) {
		t.Errorf("a missing file: %v", err)
	}
}

// A boundary that is in what is sent is not used.
func TestBoundaryIsInNoField(t *testing.T) {
	t.Parallel()
	r := load.Request{Multipart: []load.FormField{{Name: "a", Value: "x"}}}
	_, contentType := written(t, r, "")
	_, mark, _ := strings.Cut(contentType, "boundary=")
	if _, again := written(t, r, ""); again != contentType {
		t.Errorf("the same form has the boundaries %s and %s", contentType, again)
	}
	body, _ := written(t, load.Request{Multipart: []load.FormField{{Name: "a", Value: mark}}}, "")
	if n := strings.Count(body, mark); n != 1 {
		t.Errorf("%s is %d times in %s", mark, n, body)
	}
}

func FuzzEscape(f *testing.F) {
	f.Add([]byte(awkward))
	f.Fuzz(func(t *testing.T, value []byte) {
		for _, e := range []load.Escape{load.AsItIs, load.InJSONText, load.InForm} {
			if got := e.Append(nil, value); len(got) != e.Length(value) {
				t.Errorf("escape %d of %q has %d bytes, want %d", e, value, len(got), e.Length(value))
			}
		}
		if got := string(load.InForm.Append(nil, value)); got != url.QueryEscape(string(value)) {
			t.Errorf("a form has %s of %q, want %s", got, value, url.QueryEscape(string(value)))
		}
		if text := `"` + string(load.InJSONText.Append(nil, value)) + `"`; !json.Valid([]byte(text)) {
			t.Errorf("%q became %s", value, text)
		}
	})
}
