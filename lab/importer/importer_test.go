package importer

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"loadstone/lab/experiment"
)

var update = flag.Bool("update", false, "write what the tests produce as what they expect")

// golden compares a file that was made with the one that is expected.
func golden(t *testing.T, name string, made []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, made, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(made) != string(want) {
		t.Errorf("%s is made as\n%s\nwant\n%s", path, made, want)
	}
}

func open(t *testing.T, name string) *os.File {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func TestHAR(t *testing.T) {
	t.Parallel()
	_, made, err := HAR("shop.har", open(t, "shop.har"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "shop.har.yaml", made)
	for _, secret := range []string{"hunter2", "sid=77", "k-5512"} {
		if strings.Contains(string(made), secret) {
			t.Errorf("the file has the secret %s:\n%s", secret, made)
		}
	}
	_, made, err = HAR("shop.har", open(t, "shop.har"), Options{Secrets: true, Target: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, wanted := range []string{"hunter2", "sid=77", "k-5512", "target: \"http://127.0.0.1:1\""} {
		if !strings.Contains(string(made), wanted) {
			t.Errorf("with secrets, the file has no %s:\n%s", wanted, made)
		}
	}
}

func TestPostman(t *testing.T) {
	t.Parallel()
	_, made, err := Postman("shop.json", open(t, "shop.postman_collection.json"), Options{Variables: map[string]string{"baseUrl": "http://127.0.0.1:8080/v1"}})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "shop.postman.yaml", made)
	if strings.Contains(string(made), "hunter2") {
		t.Errorf("the file has a password:\n%s", made)
	}
}

func TestOpenAPI(t *testing.T) {
	t.Parallel()
	path := filepath.Join("testdata", "shop.openapi.yaml")
	_, made, err := OpenAPI(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "shop.openapi.reading.yaml", made)
	if _, made, err = OpenAPI(path, Options{Writing: true, Target: "http://127.0.0.1:8080"}); err != nil {
		t.Fatal(err)
	}
	golden(t, "shop.openapi.writing.yaml", made)
}

// The project's own descriptions become loads.
func TestOpenAPIOfTheProject(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("../../system/*/*/openapi.json")
	if err != nil || len(paths) < 4 {
		t.Fatalf("found %d descriptions (%v), want four", len(paths), err)
	}
	for _, path := range paths {
		for _, writing := range []bool{false, true} {
			l, made, err := OpenAPI(path, Options{Writing: writing})
			if err != nil {
				t.Errorf("%s: %v", path, err)
				continue
			}
			read, err := experiment.ParseLoad("x.yaml", made)
			if err != nil {
				t.Fatal(err)
			}
			if n := len(read.Plan().Scenarios[0].Steps); n != len(l.steps()) || n < 3 {
				t.Errorf("%s became %d steps, and the file has %d", path, len(l.steps()), n)
			}
		}
	}
}

func TestWhatIsNoneIsRefused(t *testing.T) {
	t.Parallel()
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	for text, want := range map[string]string{
		"":               "no OpenAPI description of version 3",
		"a: [":           "cannot be read as OpenAPI 3",
		"swagger: '2.0'": "no OpenAPI description of version 3",
		"openapi: 3.1.0\ninfo: {title: x, version: '1'}\npaths: {}":                                                         "has no request that a load can make",
		"openapi: 3.1.0\ninfo: {title: x, version: '1'}\npaths: {/x: {$ref: 'http://example.org/x.yaml'}}":                  "is not on this machine",
		"openapi: 3.1.0\ninfo: {title: x, version: '1'}\npaths: {/x: {$ref: '../../../../../../../../../../etc/hostname'}}": "escapes",
	} {
		if err := os.WriteFile(bad, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := OpenAPI(bad, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("OpenAPI of %q: %v, want %s", text, err, want)
		}
	}
	for text, want := range map[string]string{"": "no HAR", "[]": "no HAR", `{"log": {}}`: "no request that a load can make"} {
		if _, _, err := HAR("x.har", strings.NewReader(text), Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("HAR of %q: %v, want %s", text, err, want)
		}
	}
	for text, want := range map[string]string{
		"": "no Postman collection", `{"info": {"schema": "https://schema.getpostman.com/json/collection/v1.0.0/collection.json"}}`: "no Postman collection",
		`{"info": {"schema": "https://schema.getpostman.com/json/collection/v2.1.0/collection.json"}}`: "no request that a load can make",
	} {
		if _, _, err := Postman("x.json", strings.NewReader(text), Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Postman of %q: %v, want %s", text, err, want)
		}
	}
}

// recording is a HAR of requests that begin a millisecond after each other's end.
func recording(entries ...map[string]any) string {
	at := time.Date(2025, 8, 14, 8, 0, 0, 0, time.UTC)
	for i, e := range entries {
		e["startedDateTime"], e["time"] = at.Add(time.Duration(i)*time.Millisecond*2), 1
	}
	text, err := json.Marshal(map[string]any{"log": map[string]any{"entries": entries}})
	if err != nil {
		panic(err)
	}
	return string(text)
}

func entry(method, url, body, contentType, answer string) map[string]any {
	e := map[string]any{
		"request":  map[string]any{"method": method, "url": url, "headers": []any{}},
		"response": map[string]any{"status": 200, "content": map[string]any{"mimeType": "application/json", "text": answer}},
	}
	if body != "" {
		e["request"].(map[string]any)["postData"] = map[string]any{"mimeType": contentType, "text": body}
	}
	return e
}

// What a recording has in it is sent as it was, whatever it looks like.
func TestWhatLooksLikeAPlaceholderIsNone(t *testing.T) {
	t.Parallel()
	const url = "http://127.0.0.1:8080"
	_, made, err := HAR("x.har", strings.NewReader(recording(
		entry("GET", url+"/a{b}?q={c}%7Bd%7D&e=100%&f=é ü", "", "", ""),
		entry("POST", url+"/graphql", `{"query": "{me{name}}"}`, "application/json", ""),
		entry("POST", url+"/form", "a=%7Bb%7D&c=d", "application/x-www-form-urlencoded", ""),
	)), Options{})
	if err != nil {
		t.Fatal(err)
	}
	read, err := experiment.ParseLoad("x.yaml", made)
	if err != nil {
		t.Fatal(err)
	}
	steps := read.Plan().Scenarios[0].Steps
	if got, want := steps[0].Request.Path, "/a%7Bb%7D?q=%7Bc%7D%7Bd%7D&e=100%25&f=%C3%A9%20%C3%BC"; got != want {
		t.Errorf("the path is %s, want %s", got, want)
	}
	var query struct {
		Query string `json:"query"`
	}
	if err := json.Unmarshal([]byte(steps[1].Request.Body), &query); err != nil || query.Query != "{me{name}}" {
		t.Errorf("the query is %q, %v in %s", query.Query, err, steps[1].Request.Body)
	}
	if got := steps[2].Request; got.Body != "a=%7Bb%7D&c=d" || got.Header["Content-Type"] != "application/x-www-form-urlencoded" {
		t.Errorf("the form is %+v", got)
	}
}

// A hundred steps are what a load has: the others are left out, and so is what only they
// would have used.
func TestTooManyRequestsAreCut(t *testing.T) {
	t.Parallel()
	var entries []map[string]any
	for range experiment.MaxSteps {
		entries = append(entries, entry("GET", "http://127.0.0.1:8080/item", "", "", `{"id": "item-0123456789"}`))
	}
	entries = append(entries, entry("GET", "http://127.0.0.1:8080/item-0123456789", "", "", ""))
	l, made, err := HAR("x.har", strings.NewReader(recording(entries...)), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(l.steps()); n != experiment.MaxSteps || !strings.Contains(string(made), "it has 101 requests") || strings.Contains(string(made), "extract") {
		t.Errorf("%d steps:\n%.500s", n, made)
	}
}

func FuzzHAR(f *testing.F) {
	f.Add(recording(entry("POST", "http://h/{x}?token=a", `{"a": "{b}"}`, "application/json", `{"a": "token-12345"}`), entry("GET", "http://h/token-12345", "", "", "")))
	f.Add(recording(entry("PUT", "https://h:1/\x00", "a=b&a=c", "application/x-www-form-urlencoded", "")))
	f.Fuzz(func(t *testing.T, text string) {
		if _, _, err := HAR("x.har", strings.NewReader(text), Options{}); err != nil && strings.Contains(err.Error(), "make a load of") {
			t.Errorf("what was made does not read: %v", err)
		}
	})
}

func FuzzPostman(f *testing.F) {
	if data, err := os.ReadFile(filepath.Join("testdata", "shop.postman_collection.json")); err == nil {
		f.Add(string(data))
	}
	f.Fuzz(func(t *testing.T, text string) {
		if _, _, err := Postman("x.json", strings.NewReader(text), Options{}); err != nil && strings.Contains(err.Error(), "make a load of") {
			t.Errorf("what was made does not read: %v", err)
		}
	})
}
