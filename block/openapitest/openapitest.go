// Package openapitest compares what a server answers with its OpenAPI 3.1 document: status,
// headers and body of each answer have to be in the document, and a test can find out which
// of the documented answers were never seen.
//
// It is stricter than a client may be: properties and headers that the document does not
// list are mistakes in it. Documents are JSON. What no operation describes is looked up in
// three extensions, each an object of responses by status: x-other-paths, x-other-methods (of
// a path that is in the document), and x-unreadable-requests (no HTTP, or too large or slow).
package openapitest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Document is a document with its schemas ready to check with. It is safe for concurrent use.
type Document struct {
	root     map[string]any
	compiler *jsonschema.Compiler
	mu       sync.Mutex // Compile is for one goroutine at a time
}

// Answer is what a server answered.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

const documentURL = "file:///openapi.json"

// Read reads a document from a file.
func Read(file string) (*Document, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	root, ok := parsed.(map[string]any)
	if !ok || root["openapi"] != "3.1.0" {
		return nil, fmt.Errorf("%s is no OpenAPI 3.1.0 document", file)
	}
	closeSchemas(object(root, "components", "schemas"))
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	return &Document{root: root, compiler: c}, c.AddResource(documentURL, root)
}

// object follows names; nil if there is no object.
func object(node any, names ...string) map[string]any {
	at, _ := node.(map[string]any)
	for _, name := range names {
		at, _ = at[name].(map[string]any)
	}
	return at
}

// closeSchemas makes schemas refuse properties that they do not list. Clients
// must bear new ones; here they are a mistake in the document.
func closeSchemas(node any) {
	schema := object(node)
	for _, child := range schema {
		closeSchemas(child)
	}
	if object(schema, "properties") != nil && schema["type"] == "object" {
		schema["additionalProperties"] = false
	}
}

// at follows a pointer, and the reference that it may lead to.
func (d *Document) at(pointer ...string) (node map[string]any, path string, ok bool) {
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

func (d *Document) validate(pointer string, value any) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	schema, err := d.compiler.Compile(documentURL + "#/" + pointer)
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

var parameter = regexp.MustCompile(`\\\{[^}]*\\\}`)

// template finds the path of the document that a request's target is one of: the longest, as
// a parameter may stand for anything, and a server may find fault with it.
func (d *Document) template(target string) string {
	if _, behind, absolute := strings.Cut(target, "://"); absolute {
		_, behind, _ = strings.Cut(behind, "/")
		target = "/" + behind
	}
	target, _, _ = strings.Cut(target, "?")
	found := ""
	for path := range object(d.root, "paths") {
		pattern := "(?s)^" + parameter.ReplaceAllString(regexp.QuoteMeta(path), ".*") + "$"
		if len(path) > len(found) && regexp.MustCompile(pattern).MatchString(target) {
			found = path
		}
	}
	return found
}

// response finds what the document says of an answer, under a name for it.
func (d *Document) response(method, target string, got Answer) (name string, pointer []string) {
	status := strconv.Itoa(got.Status)
	path, verb := d.template(target), strings.ToLower(method)
	_, _, documented := d.at("paths", path, verb)
	documented = documented && method == strings.ToUpper(method)
	switch {
	case got.Status == http.StatusBadRequest && strings.Contains(got.Body, `"bad_request"`), slices.Contains(unreadable, got.Status):
		return "unreadable " + status, []string{"x-unreadable-requests", status}
	case path == "":
		return "other path " + status, []string{"x-other-paths", status}
	case !documented:
		return "other method " + status, []string{"x-other-methods", status}
	}
	return path + " " + verb + " " + status, []string{"paths", path, verb, "responses", status}
}

// unreadable are the statuses of requests that could not be read.
var unreadable = []int{http.StatusRequestTimeout, http.StatusRequestEntityTooLarge, http.StatusRequestHeaderFieldsTooLarge}

// Check compares an answer to a request with the document and returns the name of what it
// was compared with, one of Names if there is such an answer. Target is as the request's
// line has it. The error has all differences.
func (d *Document) Check(method, target string, got Answer) (name string, err error) {
	name, pointer := d.response(method, target, got)
	response, at, ok := d.at(pointer...)
	if !ok {
		return name, fmt.Errorf("%s is not in the document", name)
	}
	errs := []error{d.checkHeaders(response, at, got.Header)}
	media := object(response, "content")
	kind := got.Header.Get("Content-Type")
	if _, ok := media[kind]; !ok && (kind != "" || len(media) > 0) {
		errs = append(errs, fmt.Errorf("content type %q is not in the document", kind))
	} else if strings.HasPrefix(kind, "application/json") && method != http.MethodHead {
		texts := []string{got.Body}
		if kind == "application/jsonl" { // the schema is that of a line
			texts = slices.Collect(strings.Lines(got.Body))
		}
		for _, text := range texts {
			value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
			if err == nil {
				err = d.validate(at+"/content/"+strings.ReplaceAll(kind, "/", "~1")+"/schema", value)
			}
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return name, fmt.Errorf("%s: %w", name, err)
	}
	return name, nil
}

// plainHeaders are always sent, or part of HTTP itself.
var plainHeaders = []string{"Date", "Content-Length", "Content-Type", "Connection"}

func (d *Document) checkHeaders(response map[string]any, at string, got http.Header) error {
	var errs []error
	seen := map[string]bool{}
	for name := range object(response, "headers") {
		canonical := http.CanonicalHeaderKey(name)
		seen[canonical] = true
		// Responses are components, so no name in the pointer has a slash.
		header, path, ok := d.at(append(strings.Split(at, "/"), "headers", name)...)
		if !ok {
			errs = append(errs, fmt.Errorf("header %s of %s is not described", name, at))
			continue
		}
		values := got.Values(canonical)
		if len(values) == 0 && header["required"] != true {
			continue
		}
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

// Names lists all answers of the document as Check names them.
func (d *Document) Names() map[string]bool {
	all := map[string]bool{}
	for path, item := range object(d.root, "paths") {
		for verb, operation := range object(item) {
			for status := range object(operation, "responses") {
				all[path+" "+verb+" "+status] = true
			}
		}
	}
	for key, name := range map[string]string{"x-other-paths": "other path ", "x-other-methods": "other method ", "x-unreadable-requests": "unreadable "} {
		for status := range object(d.root, key) {
			all[name+status] = true
		}
	}
	return all
}

// Whole reports everything in which the document is not what it says that it is: references
// that lead nowhere, operations without an id of their own, and schemas that cannot be used,
// or refuse nothing.
func (d *Document) Whole() error {
	var errs []error
	ids := map[string]bool{}
	var walk func(path string, node any)
	walk = func(path string, node any) {
		if ref, ok := object(node)["$ref"].(string); ok {
			if _, _, found := d.at(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...); !found {
				errs = append(errs, fmt.Errorf("%s: nothing at %s", path, ref))
			}
		}
		for key, child := range object(node) {
			walk(path+"/"+key, child)
		}
	}
	walk("", d.root)
	for path, item := range object(d.root, "paths") {
		for verb, operation := range object(item) {
			if object(operation) == nil {
				continue // the path's parameters
			}
			id, _ := object(operation)["operationId"].(string)
			if id == "" || ids[id] {
				errs = append(errs, fmt.Errorf("%s %s: operation %q has no id of its own", verb, path, id))
			}
			ids[id] = true
		}
	}
	for name := range object(d.root, "components", "schemas") {
		err := d.validate("components/schemas/"+name, json.Number("1"))
		if err == nil {
			err = errors.New("it takes a number for one")
		}
		if _, refused := errors.AsType[*jsonschema.ValidationError](err); !refused {
			errs = append(errs, fmt.Errorf("schema %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}
