package importer

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"loadstone/lab/load"
)

// collection is what is read of a Postman collection (format 2.1, and 2.0 as far as it is
// the same).
type collection struct {
	Info struct {
		Name   string `json:"name"`
		Schema string `json:"schema"`
	} `json:"info"`
	Items     []postmanItem     `json:"item"`
	Variables []postmanVariable `json:"variable"`
	Auth      *postmanAuth      `json:"auth"`
}

type postmanItem struct {
	Name    string          `json:"name"`
	Items   []postmanItem   `json:"item"` // of a folder
	Request *postmanRequest `json:"request"`
	Events  []postmanEvent  `json:"event"`
	Auth    *postmanAuth    `json:"auth"`
}

type postmanRequest struct {
	Method string          `json:"method"`
	Header json.RawMessage `json:"header"`
	URL    postmanURL      `json:"url"`
	Body   *postmanBody    `json:"body"`
	Auth   *postmanAuth    `json:"auth"`
}

// UnmarshalJSON reads a request, or the URL that stands for a GET of it.
func (r *postmanRequest) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		r.Method = http.MethodGet
		return json.Unmarshal(data, &r.URL.Raw)
	}
	type plain postmanRequest
	return json.Unmarshal(data, (*plain)(r))
}

type postmanURL struct {
	Raw       string            `json:"raw"`
	Variables []postmanVariable `json:"variable"` // of :id in the path
	Query     []postmanField    `json:"query"`
}

// UnmarshalJSON reads a URL as a text or in parts.
func (u *postmanURL) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		return json.Unmarshal(data, &u.Raw)
	}
	type plain postmanURL
	return json.Unmarshal(data, (*plain)(u))
}

type postmanVariable struct {
	Key   string `json:"key"`
	Value any    `json:"value"`
}

type postmanField struct {
	Key         string `json:"key"`
	Value       string `json:"value"`
	Type        string `json:"type"`
	Source      any    `json:"src"`
	ContentType string `json:"contentType"`
	Disabled    bool   `json:"disabled"`
}

type postmanBody struct {
	Mode       string         `json:"mode"`
	Raw        string         `json:"raw"`
	URLEncoded []postmanField `json:"urlencoded"`
	FormData   []postmanField `json:"formdata"`
	GraphQL    *struct {
		Query     string `json:"query"`
		Variables string `json:"variables"`
	} `json:"graphql"`
	Options struct {
		Raw struct {
			Language string `json:"language"`
		} `json:"raw"`
	} `json:"options"`
	Disabled bool `json:"disabled"`
}

type postmanAuth struct {
	Type string `json:"type"`
}

type postmanEvent struct {
	Listen string `json:"listen"`
	Script struct {
		Exec any `json:"exec"`
	} `json:"script"`
}

// Postman makes a load of a Postman collection: each iteration makes its requests in turn.
func Postman(from string, data io.Reader, o Options) (*Load, []byte, error) {
	var c collection
	if err := json.NewDecoder(data).Decode(&c); err != nil || !strings.Contains(c.Info.Schema, "/collection/v2.") {
		return nil, nil, fmt.Errorf("%s is no Postman collection of format 2.1; export one with Collection v2.1 (recommended)", from)
	}
	p := &postman{
		Load:      &Load{From: "the Postman collection " + from, Scenario: "collection"},
		variables: map[string]string{}, unknown: map[string]bool{},
	}
	for _, v := range c.Variables {
		if v.Value != nil && v.Value != "" {
			p.variables[v.Key] = fmt.Sprint(v.Value)
		}
	}
	maps.Copy(p.variables, o.Variables)
	p.items(c.Items, "", c.Auth)
	p.noteUnknown()
	p.cut()
	if !o.Secrets {
		p.redact()
	}
	out, err := p.finish(o)
	return p.Load, out, err
}

// postman is a collection that becomes a load.
type postman struct {
	*Load

	variables map[string]string
	unknown   map[string]bool // variables without a value
}

// items adds the requests of a folder.
func (p *postman) items(items []postmanItem, folder string, auth *postmanAuth) {
	for i := range items {
		item := &items[i]
		name := strings.TrimPrefix(folder+"-"+item.Name, "-")
		auth := cmp.Or(item.Auth, auth)
		if item.Request == nil {
			p.items(item.Items, name, auth)
			continue
		}
		p.request(item, name, cmp.Or(item.Request.Auth, auth))
	}
}

// request adds a request.
func (p *postman) request(item *postmanItem, name string, auth *postmanAuth) {
	r := item.Request
	method := cmp.Or(strings.ToUpper(r.Method), http.MethodGet)
	origin, path, err := cutURL(p.url(&r.URL))
	switch {
	case err != nil:
		p.notef("%s is left out: %v; give its host with --var NAME=VALUE", name, err)
		return
	case !slices.Contains([]string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}, method):
		p.notef("%s is left out: loads have no method %s", name, method)
		return
	}
	if p.Target = cmp.Or(p.Target, origin); origin != p.Target {
		p.notef("%s is left out: it goes to %s, and a load has one target", name, origin)
		return
	}
	s := Step{Name: p.unique(name), Request: load.Request{Method: method, Path: p.values(path, url.QueryEscape)}}
	contentType := p.headers(&s, r)
	if r.Body != nil && !r.Body.Disabled {
		p.body(&s, r.Body, contentType)
	}
	if auth != nil && auth.Type != "" && auth.Type != "noauth" {
		p.notef("%s: its %s authentication is left out: write headers: {Authorization: …}, with {token} from a feed or extracted in an earlier step", s.Name, auth.Type)
	}
	p.scripts(&s, item.Events)
	p.Parts = append(p.Parts, Part{Steps: []Step{s}})
}

// postmanName is a variable in a text.
var postmanName = regexp.MustCompile(`\{\{([^{}]+)\}\}`)

// url is a request's URL with the values of its variables, but for those that change.
func (p *postman) url(u *postmanURL) string {
	raw := u.Raw
	for _, q := range u.Query {
		if q.Disabled { // it is in the text all the same in some exports
			raw = strings.Replace(raw, q.Key+"="+q.Value, "", 1)
		}
	}
	raw = strings.TrimRight(strings.NewReplacer("?&", "?", "&&", "&").Replace(raw), "?&")
	raw = p.fill(raw)
	if !strings.Contains(raw, "://") {
		raw = "http://" + raw
	}
	for _, v := range u.Variables {
		value := fmt.Sprint(cmp.Or(v.Value, any("1")))
		raw = regexp.MustCompile(`/:`+regexp.QuoteMeta(v.Key)+`($|[/?])`).ReplaceAllString(raw, "/"+strings.ReplaceAll(url.PathEscape(p.fill(value)), "$", "$$")+"$1")
	}
	return raw
}

// fill writes the values of variables into a text. What Postman draws anew for each request
// is drawn once, or becomes a placeholder: see values.
func (p *postman) fill(text string) string {
	for range 5 { // values have variables in them
		if !postmanName.MatchString(text) {
			break
		}
		text = postmanName.ReplaceAllStringFunc(text, func(m string) string {
			name := strings.TrimSpace(m[2 : len(m)-2])
			if value, ok := p.variables[name]; ok {
				return value
			}
			if strings.HasPrefix(name, "$") {
				return drawn(name)
			}
			p.unknown[name] = true
			return leftOut
		})
	}
	return text
}

// randomInt stands for Postman's random number until the text around it has been escaped.
const randomInt = "loadstone-random-int"

// drawn is a value for one of Postman's dynamic variables.
func drawn(name string) string {
	switch name {
	case "$randomInt":
		return randomInt
	case "$guid", "$randomUUID":
		return "6929bb52-3ab2-448a-9796-d6480ecad36b"
	case "$timestamp":
		return "1700000000"
	case "$isoTimestamp":
		return "2023-11-14T22:13:20.000Z"
	}
	return strings.TrimPrefix(name, "$")
}

// values has random numbers be those of a feed.
func (p *postman) values(text string, escape func(string) string) string {
	if !strings.Contains(text, randomInt) {
		return text
	}
	if len(p.Feeds) == 0 {
		p.Feeds = []Feed{{Name: "randomInt", Low: 0, High: 1000}} // Postman's bounds
	}
	return strings.ReplaceAll(text, escape(randomInt), "{randomInt}")
}

func asItIs(text string) string { return text }

// headers adds the header, and returns the content type that it says.
func (p *postman) headers(s *Step, r *postmanRequest) (contentType string) {
	var fields []postmanField
	if json.Unmarshal(r.Header, &fields) != nil {
		return ""
	}
	for _, h := range fields {
		value := p.fill(h.Value)
		switch name := strings.ToLower(h.Key); {
		case h.Disabled || h.Key == "":
		case name == "content-type":
			contentType = value
		case slices.Contains([]string{"content-length", "transfer-encoding", "connection", "upgrade", "expect", "te", "trailer", "host"}, name):
		case braced.MatchString(value):
			p.notef("%s: the header %s is left out: it has braces, which would be a placeholder", s.Name, h.Key)
		default:
			setHeader(&s.Request, h.Key, p.values(value, asItIs))
		}
	}
	return contentType
}

// body adds the body.
func (p *postman) body(s *Step, b *postmanBody, contentType string) {
	switch b.Mode {
	case "raw":
		languages := map[string]string{"json": "application/json", "xml": "application/xml", "html": "text/html", "text": "text/plain"}
		p.setBody(s, p.fill(b.Raw), cmp.Or(contentType, languages[b.Options.Raw.Language]))
	case "graphql":
		if b.GraphQL != nil {
			p.graphQL(s, b.GraphQL.Query, b.GraphQL.Variables)
		}
	case "urlencoded":
		values := url.Values{}
		for _, f := range b.URLEncoded {
			if !f.Disabled {
				values.Add(f.Key, p.fill(f.Value))
			}
		}
		p.setBody(s, values.Encode(), "application/x-www-form-urlencoded")
	case "formdata":
		p.formData(s, b.FormData)
	case "", "none":
	default:
		p.notef("%s: its body is a %s, which is left out: write it as body or multipart", s.Name, b.Mode)
	}
	s.Request.Body = p.values(s.Request.Body, asItIs)
	for name, value := range s.Request.Form {
		s.Request.Form[name] = p.values(value, asItIs)
	}
}

// graphQL is a query as servers take it.
func (p *postman) graphQL(s *Step, query, variables string) {
	body := map[string]any{"query": p.fill(query)}
	if given := json.RawMessage(p.fill(variables)); json.Valid(given) {
		body["variables"] = given
	}
	text, err := json.Marshal(body)
	if err != nil {
		p.notef("%s: its query is left out: %v", s.Name, err)
		return
	}
	p.setBody(s, string(text), "application/json")
}

// formData adds the fields of a form.
func (p *postman) formData(s *Step, fields []postmanField) {
	for _, f := range fields {
		value := p.fill(f.Value)
		switch {
		case f.Disabled:
		case f.Type == "file":
			p.notef("%s: the file of the field %s (%v) is left out: write %s: {file: PATH} under multipart", s.Name, f.Key, cmp.Or(f.Source, any("none chosen")), f.Key)
		case braced.MatchString(value):
			p.notef("%s: the field %s is left out: it has braces, which would be a placeholder", s.Name, f.Key)
		default:
			s.Request.Multipart = append(s.Request.Multipart, load.FormField{Name: f.Key, Value: p.values(value, asItIs), Type: f.ContentType})
		}
	}
}

var (
	statusTest = regexp.MustCompile(`(?:to\.have\.status\(|responseCode\.code\s*===?\s*|pm\.response\.code\)\.to\.(?:eql|equal)\()\s*([1-5][0-9]{2})`)
	setsTest   = regexp.MustCompile(`(?:environment|collectionVariables|globals|variables)\.set\(\s*["']([^"']+)["']`)
)

// scripts takes from a request's tests what status they want, and tells of the rest.
func (p *postman) scripts(s *Step, events []postmanEvent) {
	for _, e := range events {
		var text strings.Builder
		switch lines := e.Script.Exec.(type) {
		case string:
			text.WriteString(lines)
		case []any:
			for _, line := range lines {
				fmt.Fprintln(&text, line)
			}
		}
		if strings.TrimSpace(text.String()) == "" {
			continue
		}
		if m := statusTest.FindStringSubmatch(text.String()); m != nil && e.Listen == "test" {
			status, _ := strconv.Atoi(m[1]) // three digits
			s.Checks = append(s.Checks, load.Check{Name: "status is " + m[1], Status: []int{status}})
			if status >= http.StatusBadRequest {
				s.Expected = status
			}
		}
		for _, m := range setsTest.FindAllStringSubmatch(text.String(), -1) {
			p.notef("%s: its script sets %s: write extract: {%s: PATH} in the step, and {%s} where it is used", s.Name, m[1], m[1], m[1])
		}
		p.notef("%s: of its %s script only a status that it wants is taken over", s.Name, cmp.Or(e.Listen, "test"))
	}
}

// noteUnknown tells of the variables that have no value.
func (p *postman) noteUnknown() {
	for _, name := range slices.Sorted(maps.Keys(p.unknown)) {
		p.notef("the variable %s has no value in the collection, and %s stands in its place: give it with --var %s=VALUE", name, leftOut, name)
	}
}
