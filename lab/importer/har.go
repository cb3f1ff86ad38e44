package importer

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"loadstone/lab/format"
	"loadstone/lab/load"
)

// har is what is read of an HTTP archive (HAR 1.2), as browsers and proxies write it.
type har struct {
	Log struct {
		Entries []harEntry `json:"entries"`
	} `json:"log"`
}

type harEntry struct {
	Started  time.Time   `json:"startedDateTime"`
	Took     float64     `json:"time"` // ms
	Kind     string      `json:"_resourceType"`
	Cached   string      `json:"_fromCache"`
	Request  harRequest  `json:"request"`
	Response harResponse `json:"response"`
}

type harRequest struct {
	Method   string `json:"method"`
	URL      string `json:"url"`
	Headers  []pair `json:"headers"`
	PostData *struct {
		MimeType string `json:"mimeType"`
		Text     string `json:"text"`
		Params   []struct {
			Name        string `json:"name"`
			Value       string `json:"value"`
			FileName    string `json:"fileName"`
			ContentType string `json:"contentType"`
		} `json:"params"`
	} `json:"postData"`
}

type harResponse struct {
	Status  int `json:"status"`
	Content struct {
		MimeType string `json:"mimeType"`
		Text     string `json:"text"`
		Encoding string `json:"encoding"`
	} `json:"content"`
}

type pair struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

const (
	// browserLanes is how many connections a browser has to a host.
	browserLanes = 6
	// shortestThink is from which on a gap in a recording is a person who thinks, and
	// longestThink what is kept of one who went for tea.
	shortestThink = 500 * time.Millisecond
	longestThink  = time.Minute
)

// keptHeaders are the header fields of a recording that a load has too, beside those that
// begin with X-. The others say what browser it was, or what it had in its cache.
var keptHeaders = []string{"accept", "accept-encoding", "accept-language", "authorization", "content-type", "origin", "cookie"}

// HAR makes a load of a HAR: each iteration makes the requests to one host in the order in
// which they were recorded. What the browser asked for at once is made at once, and where
// its user paused, virtual users think.
func HAR(from string, data io.Reader, o Options) (*Load, []byte, error) {
	var recorded har
	if err := json.NewDecoder(data).Decode(&recorded); err != nil {
		return nil, nil, fmt.Errorf("%s is no HAR: %w; save one with the browser's network panel", from, err)
	}
	l := &Load{From: "the HAR " + from, Scenario: "recording"}
	entries := recorded.Log.Entries
	slices.SortStableFunc(entries, func(a, b harEntry) int { return a.Started.Compare(b.Started) })
	l.addEntries(entries, mainOrigin(entries))
	l.cut()
	l.correlate()
	if !o.Secrets {
		l.redact()
	}
	out, err := l.finish(o)
	return l, out, err
}

// mainOrigin is the origin of the first page that was recorded, or of the first request.
func mainOrigin(entries []harEntry) string {
	first := ""
	for i := range entries {
		origin, _, err := cutURL(entries[i].Request.URL)
		if err != nil {
			continue
		}
		first = cmp.Or(first, origin)
		if entries[i].isPage() {
			return origin
		}
	}
	return first
}

// isPage says whether the answer was a page, which is there before what it refers to is
// asked for.
func (e *harEntry) isPage() bool {
	return e.Kind == "document" || e.Kind == "" && strings.HasPrefix(e.Response.Content.MimeType, "text/html")
}

// addEntries adds the requests to an origin as steps.
func (l *Load) addEntries(entries []harEntry, target string) {
	l.Target = target
	elsewhere := map[string]int{}
	var end time.Time // of what is under way together
	var page bool     // that is a page
	for i := range entries {
		e := &entries[i]
		origin, path, err := cutURL(e.Request.URL)
		if why := e.unfit(); err != nil || why != "" {
			if err == nil {
				l.notef("%s %s is left out: %s", e.Request.Method, e.Request.URL, why)
			}
			continue
		}
		if origin != target {
			elsewhere[origin]++
			continue
		}
		s := l.step(e, path)
		last := len(l.Parts) - 1
		if pause := e.Started.Sub(end); last >= 0 && pause >= shortestThink {
			steps := l.Parts[last].Steps
			steps[len(steps)-1].Think = min(pause, longestThink)
		}
		if last >= 0 && e.Started.Before(end) && !page && !e.isPage() {
			l.Parts[last].Steps, l.Parts[last].Lanes = append(l.Parts[last].Steps, s), browserLanes
		} else {
			l.Parts, page = append(l.Parts, Part{Steps: []Step{s}}), e.isPage()
		}
		if done := e.Started.Add(time.Duration(e.Took * float64(time.Millisecond))); done.After(end) {
			end = done
		}
	}
	for _, origin := range slices.Sorted(maps.Keys(elsewhere)) {
		l.notef("left out: %s to %s, as a load has one target", format.Plural(elsewhere[origin], "request"), origin)
	}
}

// unfit says why a request is no part of a load.
func (e *harEntry) unfit() string {
	switch {
	case e.Kind == "websocket" || e.Response.Status == http.StatusSwitchingProtocols:
		return "it is a WebSocket; write a scenario with websocket"
	case e.Kind == "preflight" || e.Request.Method == http.MethodOptions:
		return "the browser asked for leave to ask"
	case e.Response.Status == 0:
		return "it had no answer"
	case e.Response.Status == http.StatusNotModified:
		return "the browser had the answer already"
	case e.Cached != "":
		return "the browser had the answer in its cache"
	case !slices.Contains([]string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}, e.Request.Method):
		return "loads have no method " + e.Request.Method
	}
	return ""
}

// step is one recorded request.
func (l *Load) step(e *harEntry, path string) Step {
	r := &e.Request
	s := Step{Name: l.unique(nameOf(r.Method, path)), Request: load.Request{Method: r.Method, Path: path}}
	contentType := ""
	for _, h := range r.Headers {
		name := strings.ToLower(h.Name)
		switch {
		case name == "content-type":
			contentType = h.Value
		case slices.Contains(keptHeaders, name) || strings.HasPrefix(name, "x-"):
			if braced.MatchString(h.Value) {
				l.notef("%s: the header %s is left out: it has braces, which would be a placeholder", s.Name, h.Name)
				continue
			}
			setHeader(&s.Request, http.CanonicalHeaderKey(h.Name), strings.TrimSpace(h.Value))
		}
	}
	l.addPostData(&s, r, contentType)
	if e.Response.Status >= http.StatusBadRequest {
		s.Expected = e.Response.Status
		l.notef("%s was answered with %d when it was recorded, which counts as right", s.Name, s.Expected)
	}
	if c := &e.Response.Content; strings.Contains(c.MimeType, "json") {
		s.answer = c.Text
		if c.Encoding == "base64" {
			if plain, err := base64.StdEncoding.DecodeString(c.Text); err == nil {
				s.answer = string(plain)
			}
		}
	}
	return s
}

// addPostData adds the body of a recorded request.
func (l *Load) addPostData(s *Step, r *harRequest, contentType string) {
	p := r.PostData
	if p == nil {
		return
	}
	contentType = cmp.Or(contentType, p.MimeType)
	if !strings.HasPrefix(contentType, "multipart/form-data") {
		body := p.Text
		if body == "" { // some write the fields alone
			form := map[string]string{}
			for _, f := range p.Params {
				form[f.Name] = f.Value
			}
			s.Request.Form = form
			return
		}
		l.setBody(s, body, contentType)
		return
	}
	for _, f := range p.Params {
		if f.FileName != "" {
			l.notef("%s: the file %s of the field %s is left out: it is not in the recording", s.Name, f.FileName, f.Name)
			continue
		}
		s.Request.Multipart = append(s.Request.Multipart, load.FormField{Name: f.Name, Value: f.Value, Type: f.ContentType})
	}
	if len(s.Request.Multipart) == 0 && p.Text != "" {
		l.setBody(s, p.Text, contentType)
	}
}
