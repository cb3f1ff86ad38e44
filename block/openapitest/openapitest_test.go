package openapitest

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const small = `{"openapi":"3.1.0","paths":{
"/a/{id}":{"get":{"operationId":"getA","responses":{"200":{"$ref":"#/components/responses/A"}}}},
"/a/{id}/b":{"get":{"operationId":"getB","responses":{"204":{"description":"nothing"}}}}},
"x-other-methods":{"405":{"description":"no"}},"x-other-paths":{"404":{"description":"no"}},"x-unreadable-requests":{"413":{"description":"no"}},
"components":{"headers":{"Tag":{"required":true,"schema":{"pattern":"^[0-9]$"}},"Maybe":{"schema":{"const":"x"}}},
"schemas":{"A":{"type":"object","required":["id"],"properties":{"id":{"type":"integer"}}}},
"responses":{"A":{"description":"one","headers":{"ETag":{"$ref":"#/components/headers/Tag"},"X-Maybe":{"$ref":"#/components/headers/Maybe"}},
"content":{"application/json":{"schema":{"$ref":"#/components/schemas/A"}},"application/jsonl":{"schema":{"$ref":"#/components/schemas/A"}}}}}}}`

func read(t *testing.T, text string) *Document {
	t.Helper()
	file := filepath.Join(t.TempDir(), "openapi.json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := Read(file)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func good() Answer {
	return Answer{200, http.Header{"Content-Type": {"application/json"}, "Etag": {"1"}}, `{"id":1}`}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	d := read(t, small)
	missing := d.Names()
	for _, c := range []struct {
		method, target string
		got            Answer
	}{
		{"GET", "/a/1?x", good()},
		{"GET", "http://elsewhere/a/1/2", good()},
		{"GET", "/a/1", Answer{200, http.Header{"Content-Type": {"application/jsonl"}, "Etag": {"1"}}, "{\"id\":1}\n{\"id\":2}\n"}},
		{"GET", "/a/1/b", Answer{Status: 204}},
		{"PUT", "/a/1", Answer{Status: 405}},
		{"get", "/a/1", Answer{Status: 405}},
		{"GET", "/", Answer{Status: 404}},
		{"POST", "/a/1", Answer{Status: 413}},
	} {
		name, err := d.Check(c.method, c.target, c.got)
		if err != nil {
			t.Errorf("%s %s: %v", c.method, c.target, err)
		}
		delete(missing, name)
	}
	if len(missing) > 0 {
		t.Errorf("not named: %v", missing)
	}
	for name, change := range map[string]func(a *Answer){
		"a status":              func(a *Answer) { a.Status = 418 },
		"a missing property":    func(a *Answer) { a.Body = "{}" },
		"a new property":        func(a *Answer) { a.Body = `{"id":1,"code":2}` },
		"a line":                func(a *Answer) { a.Header.Set("Content-Type", "application/jsonl"); a.Body += "\n{}\n" },
		"no JSON":               func(a *Answer) { a.Body = "ok" },
		"a content type":        func(a *Answer) { a.Header.Set("Content-Type", "text/plain") },
		"no content type":       func(a *Answer) { a.Header.Del("Content-Type") },
		"a missing header":      func(a *Answer) { a.Header.Del("ETag") },
		"a doubled header":      func(a *Answer) { a.Header.Add("ETag", "1") },
		"a header's value":      func(a *Answer) { a.Header.Set("ETag", "x") },
		"a header that may be":  func(a *Answer) { a.Header.Set("X-Maybe", "y") },
		"a header nobody knows": func(a *Answer) { a.Header.Set("X-Debug", "1") },
	} {
		bad := good()
		change(&bad)
		if _, err := d.Check("GET", "/a/1", bad); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
}

func TestWhole(t *testing.T) {
	t.Parallel()
	if err := read(t, small).Whole(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string][2]string{
		"a reference to nothing": {"responses/A\"", "responses/B\""},
		"two of an id":           {"getB", "getA"},
		"no id":                  {`"operationId":"getA",`, ""},
		"a schema of all":        {`"schemas":{`, `"schemas":{"B":{},`},
	} {
		if read(t, strings.Replace(small, change[0], change[1], 1)).Whole() == nil {
			t.Errorf("%s: got no error", name)
		}
	}
}
