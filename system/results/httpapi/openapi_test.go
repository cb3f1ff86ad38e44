package httpapi_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"loadstone/system/results/httpapi"
	"loadstone/system/results/httpapi/guard"
)

// document is openapi.json with its schemas ready to check with.
type document struct {
	root     map[string]any
	compiler *jsonschema.Compiler
	mu       sync.Mutex // Compile is for one goroutine at a time
}

const documentURL = "file:///openapi.json"

var theDocument = sync.OnceValues(func() (*document, error) {
	raw, err := os.ReadFile("openapi.json")
	if err != nil {
		return nil, err
	}
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	root, ok := parsed.(map[string]any)
	if !ok {
		return nil, errors.New("openapi.json is no object")
	}
	closeSchemas(root["components"].(map[string]any)["schemas"])
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	return &document{root: root, compiler: c}, c.AddResource(documentURL, root)
})

// closeSchemas makes schemas refuse properties that they do not list. Clients
// must bear new ones; here they are a mistake in the document.
func closeSchemas(node any) {
	object, ok := node.(map[string]any)
	if !ok {
		return
	}
	for _, child := range object {
		closeSchemas(child)
	}
	if _, ok := object["properties"].(map[string]any); ok && object["type"] == "object" {
		object["additionalProperties"] = false
	}
}

// at follows a pointer, and the reference that it may lead to.
func (d *document) at(pointer ...string) (node map[string]any, path string, ok bool) {
	node = d.root
	for _, key := range pointer {
		if node, ok = node[key].(map[string]any); !ok {
			return nil, "", false
		}
	}
	if ref, is := node["$ref"].(string); is {
		return d.at(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
	}
	escaped := make([]string, len(pointer))
	for i, key := range pointer {
		escaped[i] = strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
	}
	return node, strings.Join(escaped, "/"), true
}

func (d *document) validate(pointer string, value any) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	schema, err := d.compiler.Compile(documentURL + "#/" + pointer)
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

// response finds what the document says of an answer, under a name for it.
func (d *document) response(method, target string, got answer) (name string, pointer []string) {
	status := strconv.Itoa(got.status)
	path, _, _ := strings.Cut(strings.TrimPrefix(target, "http://elsewhere"), "?")
	if strings.HasPrefix(path, "/student/") {
		path = "/student/{id}"
	}
	_, _, known := d.at("paths", path)
	verb := strings.ToLower(method)
	_, _, documented := d.at("paths", path, verb)
	switch {
	case got.status == 400 && strings.Contains(got.body, "bad_request"), slices.Contains([]int{408, 413, 431}, got.status):
		return "unreadable " + status, []string{"x-unreadable-requests", status}
	case !known:
		return "other path " + status, []string{"x-other-paths", status}
	case !documented:
		return "other method " + status, []string{"x-other-methods", status}
	}
	return path + " " + verb + " " + status, []string{"paths", path, verb, "responses", status}
}

// check compares an answer with the document and returns the name of what it
// was compared with.
func (d *document) check(method, target string, got answer) (string, error) {
	name, pointer := d.response(method, target, got)
	response, at, ok := d.at(pointer...)
	if !ok {
		return name, fmt.Errorf("%s is not in the document", name)
	}
	errs := []error{d.checkHeaders(response, at, got.header)}
	media, _ := response["content"].(map[string]any)
	kind := got.header.Get("Content-Type")
	if _, ok := media[kind]; !ok && (kind != "" || len(media) > 0) {
		errs = append(errs, fmt.Errorf("content type %q is not in the document", kind))
	} else if kind != "" && method != http.MethodHead {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(got.body))
		if err == nil {
			err = d.validate(at+"/content/"+strings.ReplaceAll(kind, "/", "~1")+"/schema", value)
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return name, fmt.Errorf("%s: %w", name, err)
	}
	return name, nil
}

// always sent, or part of HTTP itself.
var plainHeaders = []string{"Date", "Content-Length", "Content-Type", "Connection"}

func (d *document) checkHeaders(response map[string]any, at string, got http.Header) error {
	var errs []error
	described, _ := response["headers"].(map[string]any)
	seen := map[string]bool{}
	for name := range described {
		canonical := http.CanonicalHeaderKey(name)
		seen[canonical] = true
		// Responses are components, so no name in the pointer has a slash.
		_, path, ok := d.at(append(strings.Split(at, "/"), "headers", name)...)
		if !ok {
			errs = append(errs, fmt.Errorf("header %s of %s is not described", name, at))
			continue
		}
		values := got.Values(canonical)
		if len(values) != 1 {
			errs = append(errs, fmt.Errorf("header %s: got %q, want one", name, values))
			continue
		}
		if err := d.validate(path+"/schema", values[0]); err != nil {
			errs = append(errs, fmt.Errorf("header %s: got %q: %w", name, values[0], err))
		}
	}
	for name := range got {
		if !seen[name] && !slices.Contains(plainHeaders, name) {
			errs = append(errs, fmt.Errorf("header %s: %q is not in the document", name, got.Get(name)))
		}
	}
	return errors.Join(errs...)
}

// conforms checks an answer to a raw request. Every answer that a fixture gets
// goes through it.
func conforms(t *testing.T, request string, raw []byte) string {
	t.Helper()
	d, err := theDocument()
	if err != nil {
		t.Fatal(err)
	}
	fields := append(strings.SplitN(strings.SplitN(request, "\r\n", 2)[0], " ", 3), "", "")
	name, err := d.check(fields[0], fields[1], parse(t, fields[0], raw))
	if err != nil {
		t.Errorf("request %.80q: %v", request, err)
	}
	return name
}

// Every answer that the document lists is given by the implementation.
func TestDocumentIsExercised(t *testing.T) {
	t.Parallel()
	d, err := theDocument()
	if err != nil {
		t.Fatal(err)
	}
	missing := d.names()
	visit := func(f fixture, target string, headers ...string) {
		for _, method := range []string{"GET", "HEAD", "POST"} {
			lines := append([]string{method + " " + target + " HTTP/1.1", "Host: x", "Connection: close"}, headers...)
			request := strings.Join(lines, "\r\n") + "\r\n\r\n"
			delete(missing, conforms(t, request, f.send(t, request)))
		}
	}
	const key = "X-Access-Code: " + code
	f := start(t, students, httpapi.Code, always)
	for _, target := range []string{"/student/123456", "/student/5", "/student/x", "/openapi.json", "/healthz", "/readyz", "/nothing"} {
		visit(f, target, key)
	}
	visit(f, "/student/123456", key, "If-None-Match: "+etag)
	visit(start(t, students, httpapi.Open, func() bool { return false }), "/readyz")
	visit(start(t, brokenStore{err: errors.New("broken")}, httpapi.Open, always), "/student/1")
	visit(start(t, brokenStore{panic: "broken"}, httpapi.Open, always), "/student/1")
	later := time.Now().Add(time.Hour)
	visit(startWith(t, httpapi.Config{Store: students, Access: httpapi.Code, PublishAt: &later}), "/student/123456", key)

	limits := guard.DefaultConfig()
	limits.Rate, limits.Burst = 0.001, 1
	limited := startWith(t, httpapi.Config{Store: students, Access: httpapi.Code, Limits: &limits})
	limited.ask(t, "GET", "/student/1")
	for _, target := range []string{"/student/1", "/openapi.json", "/nothing"} {
		visit(limited, target)
	}
	for _, request := range []string{
		"garbage\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\nCookie: " + strings.Repeat("c", 20_000) + "\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\nX-",
	} {
		delete(missing, conforms(t, request, f.send(t, request)))
	}
	if len(missing) > 0 {
		t.Errorf("in the document and never seen:\n%s", strings.Join(slices.Sorted(maps.Keys(missing)), "\n"))
	}
}

// names lists all answers of the document as response names them.
func (d *document) names() map[string]bool {
	all := map[string]bool{}
	for path, item := range d.root["paths"].(map[string]any) {
		for verb, operation := range item.(map[string]any) {
			if verb == "parameters" {
				continue
			}
			for status := range operation.(map[string]any)["responses"].(map[string]any) {
				all[path+" "+verb+" "+status] = true
			}
		}
	}
	for key, name := range map[string]string{"x-other-paths": "other path ", "x-other-methods": "other method ", "x-unreadable-requests": "unreadable "} {
		for status := range d.root[key].(map[string]any) {
			all[name+status] = true
		}
	}
	return all
}

func TestDocumentIsServed(t *testing.T) {
	t.Parallel()
	f := start(t, students, httpapi.Code, always)
	got := parse(t, "GET", f.ask(t, "GET", "/openapi.json"))
	want, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	if got.status != 200 || got.body != string(want) {
		t.Errorf("got status %d and %d bytes, want 200 and the file's %d", got.status, len(got.body), len(want))
	}
}

// The comparison with the document must be able to fail.
func TestDocumentRefuses(t *testing.T) {
	t.Parallel()
	d, err := theDocument()
	if err != nil {
		t.Fatal(err)
	}
	good := func() answer {
		return answer{status: 200, body: body, header: http.Header{
			"Content-Type": {"application/json; charset=utf-8"}, "Cache-Control": {"private, no-cache"}, "Etag": {etag},
		}}
	}
	const target = "/student/123456"
	if _, err := d.check("GET", target, good()); err != nil {
		t.Fatalf("a good answer: %v", err)
	}
	for name, change := range map[string]func(*answer){
		"a status":         func(a *answer) { a.status = 418 },
		"a body":           func(a *answer) { a.body = "{}" },
		"a new property":   func(a *answer) { a.body = strings.Replace(a.body, "{", `{"code":"7QX4",`, 1) },
		"a mark":           func(a *answer) { a.body = strings.Replace(a.body, `"english":61`, `"english":161`, 1) },
		"no JSON":          func(a *answer) { a.body = "ok" },
		"a content type":   func(a *answer) { a.header.Set("Content-Type", "text/plain") },
		"a missing header": func(a *answer) { a.header.Del("ETag") },
		"a doubled header": func(a *answer) { a.header.Add("ETag", etag) },
		"a header's value": func(a *answer) { a.header.Set("Cache-Control", "public") },
		"a new header":     func(a *answer) { a.header.Set("X-Debug", "1") },
	} {
		bad := good()
		change(&bad)
		if _, err := d.check("GET", target, bad); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
	if _, err := d.check("GET", "/nothing", good()); err == nil {
		t.Error("a path: got no error")
	}
	if _, err := d.check("PUT", target, good()); err == nil {
		t.Error("a method: got no error")
	}
}

// The document is what it says that it is: its references lead somewhere, its
// schemas are schemas, and its ids are unique.
func TestDocumentIsWhole(t *testing.T) {
	t.Parallel()
	d, err := theDocument()
	if err != nil {
		t.Fatal(err)
	}
	if got := d.root["openapi"]; got != "3.1.0" {
		t.Errorf("openapi: got %v, want 3.1.0", got)
	}
	ids := map[string]bool{}
	var walk func(path string, node any)
	walk = func(path string, node any) {
		object, _ := node.(map[string]any)
		if ref, ok := object["$ref"].(string); ok {
			if _, _, found := d.at(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...); !found {
				t.Errorf("%s: nothing at %s", path, ref)
			}
		}
		if id, ok := object["operationId"].(string); ok {
			if ids[id] {
				t.Errorf("%s: operation %s comes twice", path, id)
			}
			ids[id] = true
		}
		for key, child := range object {
			walk(path+"/"+key, child)
		}
	}
	walk("", d.root)
	if len(ids) != 8 {
		t.Errorf("got %d operations, want 8", len(ids))
	}
	for name := range d.root["components"].(map[string]any)["schemas"].(map[string]any) {
		err := d.validate("components/schemas/"+name, json.Number("1"))
		if _, ok := errors.AsType[*jsonschema.ValidationError](err); !ok {
			t.Errorf("schema %s: got %v, want it to compile and to refuse a number", name, err)
		}
	}
}
