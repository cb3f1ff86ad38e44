package importer

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"loadstone/lab/load"
)

// OpenAPI makes a load of an OpenAPI description (3.x), in YAML or JSON: each iteration makes
// one of its operations. Those that change something are left out unless Options.Writing.
// What it refers to in other files is read from the description's directory and below.
func OpenAPI(path string, o Options) (*Load, []byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	loader := openapi3.NewLoader()
	loader.ReadFromURIFunc = readBeside(path)
	doc, err := loader.LoadFromDataWithPath(data, &url.URL{Path: filepath.ToSlash(path)})
	if err != nil {
		return nil, nil, fmt.Errorf("%s cannot be read as OpenAPI 3: %w", path, err)
	}
	if !strings.HasPrefix(doc.OpenAPI, "3.") || doc.Paths == nil {
		return nil, nil, fmt.Errorf("%s is no OpenAPI description of version 3; write one that begins with openapi: 3.1.0", path)
	}
	a := &api{Load: &Load{From: "the OpenAPI description " + path, Scenario: "api", Weighted: true}, doc: doc}
	base := a.server(doc.Servers)
	for _, route := range doc.Paths.InMatchingOrder() {
		item := doc.Paths.Value(route)
		operations := item.Operations()
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"} {
			if op := operations[method]; op != nil {
				a.operation(method, base+route, item, op, o.Writing)
			}
		}
	}
	a.notes()
	a.cut()
	out, err := a.finish(o)
	return a.Load, out, err
}

// readBeside reads files from the directory that a file is in, and below, and nothing from
// elsewhere: a description comes from others.
func readBeside(path string) openapi3.ReadFromURIFunc {
	return func(_ *openapi3.Loader, location *url.URL) ([]byte, error) {
		if location.Scheme != "" && location.Scheme != "file" || location.Host != "" {
			return nil, fmt.Errorf("%s is not on this machine; bundle the description into one file", location)
		}
		root, err := os.OpenRoot(filepath.Dir(path))
		if err != nil {
			return nil, err
		}
		defer root.Close() //nolint:errcheck // nothing was written
		name, err := filepath.Rel(filepath.Dir(path), filepath.FromSlash(location.Path))
		if err != nil {
			return nil, err
		}
		return root.ReadFile(name)
	}
}

// api is an OpenAPI description that becomes a load.
type api struct {
	*Load

	doc     *openapi3.T
	writing int // operations that are left out because they change something
	secured []string
}

// server sets the target, and returns the path that all operations begin with.
func (a *api) server(servers openapi3.Servers) string {
	if len(servers) == 0 {
		return ""
	}
	raw := servers[0].URL
	for name, v := range servers[0].Variables {
		raw = strings.ReplaceAll(raw, "{"+name+"}", v.Default)
	}
	u, err := url.Parse(raw)
	if err != nil {
		a.notef("its server %s is no URL: give --target", raw)
		return ""
	}
	if u.Host != "" {
		a.Target = u.Scheme + "://" + u.Host
	}
	return strings.TrimSuffix(pathText(u.EscapedPath()), "/")
}

// operation adds an operation.
func (a *api) operation(method, route string, item *openapi3.PathItem, op *openapi3.Operation, writing bool) {
	reads := method == http.MethodGet || method == http.MethodHead
	switch {
	case method == http.MethodHead && item.Get != nil: // the same once more
		return
	case !reads && !writing:
		a.writing++
		return
	case op.Responses != nil && op.Responses.Value("101") != nil:
		a.notef("%s %s is left out: it is a WebSocket; write a scenario with websocket", method, route)
		return
	}
	s := Step{Name: a.unique(cmp.Or(op.OperationID, nameOf(method, route))), Request: load.Request{Method: method}}
	s.Request.Path = a.path(&s, route, item, op)
	if op.RequestBody != nil && op.RequestBody.Value != nil {
		a.body(&s, op.RequestBody.Value)
	}
	if needed := cmp.Or(op.Security, &a.doc.Security); len(*needed) > 0 && !slices.ContainsFunc(*needed, func(r openapi3.SecurityRequirement) bool { return len(r) == 0 }) {
		a.secured = append(a.secured, s.Name)
	}
	a.Parts = append(a.Parts, Part{Steps: []Step{s}})
}

// path fills in the parameters that an operation must have.
func (a *api) path(s *Step, route string, item *openapi3.PathItem, op *openapi3.Operation) string {
	var query []string
	all := slices.Clone(op.Parameters)
	for _, shared := range item.Parameters {
		if shared.Value != nil && op.Parameters.GetByInAndName(shared.Value.In, shared.Value.Name) == nil {
			all = append(all, shared)
		}
	}
	path := route
	for _, ref := range all {
		p := ref.Value
		if p == nil || !p.Required && p.In != "path" {
			continue
		}
		text := a.parameter(s, p)
		written := text
		if !hasPlaceholder(text) {
			written = url.QueryEscape(text)
		}
		switch p.In {
		case "path":
			path = strings.ReplaceAll(path, "{"+p.Name+"}", strings.ReplaceAll(written, "+", "%20"))
		case "query":
			query = append(query, url.QueryEscape(p.Name)+"="+written)
		case "header":
			setHeader(&s.Request, p.Name, text)
		case "cookie":
			a.notef("%s: the cookie %s that it needs is left out", s.Name, p.Name)
		}
	}
	if len(query) > 0 {
		path += "?" + strings.Join(query, "&")
	}
	return keepPlaceholders(path)
}

// keepPlaceholders writes a path such that it can be sent, with its placeholders.
func keepPlaceholders(path string) string {
	var b strings.Builder
	for i, p := range load.SplitPlaceholders(path) {
		before := pathText(p.Before)
		if i > 0 && !strings.HasPrefix(p.Before, "/") {
			before = strings.TrimPrefix(before, "/")
		}
		b.WriteString(before)
		if p.Name != "" {
			b.WriteString("{" + p.Name + "}")
		}
	}
	return b.String()
}

// parameter is a value for a parameter, or a placeholder whose feed has some.
func (a *api) parameter(s *Step, p *openapi3.Parameter) string {
	if p.Example != nil {
		return plain(p.Example)
	}
	for _, name := range sortedKeys(p.Examples) {
		if e := p.Examples[name].Value; e != nil && e.Value != nil {
			return plain(e.Value)
		}
	}
	if p.Schema == nil || p.Schema.Value == nil {
		a.notef("%s: nothing says what %s is: write a value for %s", s.Name, p.Name, leftOut)
		return leftOut
	}
	schema := p.Schema.Value
	if given := stated(schema); given != nil {
		return plain(given)
	}
	low, high := 1.0, 1000.0
	if schema.Min != nil {
		low, high = *schema.Min, max(high, *schema.Min)
	}
	if schema.Max != nil {
		high = min(high, *schema.Max)
	}
	if schema.Type.Is("integer") || schema.Type.Is("number") || numbersMatch(schema.Pattern) {
		a.notef("%s: %s has no example, so it is drawn from %.0f to %.0f: write the range that exists", s.Name, p.Name, low, high)
		return "{" + a.feed(p.Name, int64(low), int64(high)) + "}"
	}
	value := a.sample(schema, 0)
	a.notef("%s: %s has no example: write a value that exists for %s", s.Name, p.Name, plain(value))
	return plain(value)
}

// feed returns the name of a feed of whole numbers, which operations share.
func (a *api) feed(name string, low, high int64) string {
	name = strings.Trim(notOfAName.ReplaceAllString(name, "_"), "_")
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		name = "value_" + name
	}
	for n, base := 2, name; ; n++ {
		i := slices.IndexFunc(a.Feeds, func(f Feed) bool { return f.Name == name })
		switch {
		case i < 0:
			a.Feeds = append(a.Feeds, Feed{name, low, high})
			return name
		case a.Feeds[i] == Feed{name, low, high}:
			return name
		}
		name = fmt.Sprintf("%s_%d", base, n)
	}
}

// body adds the body that an operation takes.
func (a *api) body(s *Step, b *openapi3.RequestBody) {
	types := sortedKeys(b.Content)
	slices.SortStableFunc(types, func(x, y string) int {
		return rank(x, b.Content[x]) - rank(y, b.Content[y])
	})
	if len(types) == 0 {
		return
	}
	media := b.Content[types[0]]
	value := exampleOf(media)
	if value == nil && media.Schema != nil && media.Schema.Value != nil {
		value = a.sample(media.Schema.Value, 0)
	}
	fields, isObject := value.(map[string]any)
	switch text, isText := value.(string); {
	case strings.Contains(types[0], "json"):
		encoded, err := json.Marshal(value)
		if err != nil {
			a.notef("%s: its body cannot be written: %v", s.Name, err)
			return
		}
		a.setBody(s, string(encoded), types[0])
	case strings.HasPrefix(types[0], "application/x-www-form-urlencoded") && isObject:
		values := url.Values{}
		for name, v := range fields {
			values.Set(name, plain(v))
		}
		a.setBody(s, values.Encode(), types[0])
	case strings.HasPrefix(types[0], "multipart/form-data") && isObject:
		for _, name := range sortedKeys(fields) {
			s.Request.Multipart = append(s.Request.Multipart, load.FormField{Name: name, Value: plain(fields[name])})
		}
	case isText:
		a.setBody(s, text, types[0])
	default:
		a.notef("%s: its body is %s, which is left out: write it as body", s.Name, types[0])
		return
	}
	a.notef("%s: see that its body is one that the server takes", s.Name)
}

// rank is which content type is taken of several: the lowest.
func rank(contentType string, m *openapi3.MediaType) int {
	order := []string{"application/json", "json", "application/x-www-form-urlencoded", "multipart/form-data", "text/plain"}
	for i, part := range order {
		if strings.Contains(contentType, part) {
			return i
		}
	}
	if exampleOf(m) != nil {
		return len(order)
	}
	return len(order) + 1
}

// exampleOf is the example of a body; nil if there is none.
func exampleOf(m *openapi3.MediaType) any {
	if m.Example != nil {
		return m.Example
	}
	for _, name := range sortedKeys(m.Examples) {
		if e := m.Examples[name].Value; e != nil && e.Value != nil {
			return e.Value
		}
	}
	return nil
}

// notes tells of what was left out of all operations.
func (a *api) notes() {
	if a.writing > 0 {
		a.notef("%d operations that change something are left out: loadstone import openapi --writing has them too", a.writing)
	}
	if len(a.secured) > 0 {
		a.notef("%s need credentials, which are left out: write headers, such as Authorization: 'Bearer {token}', with {token} from a feed", strings.Join(a.secured, ", "))
	}
}
