package summary

import (
	"maps"
	"slices"
	"strings"

	"loadstone/lab/load"
	"loadstone/lab/load/feed"
)

// hidden stands for a value that is nobody's business.
const hidden = "(hidden)"

// presentable returns a copy of a plan that may be shown: the values of headers
// that carry secrets are hidden, and lists that are not there are empty, so
// that a reader can iterate over each of them.
func presentable(plan *load.Plan) load.Plan {
	p := *plan
	p.Targets = list(slices.Clone(p.Targets))
	p.Scenarios = list(slices.Clone(p.Scenarios))
	for i := range p.Scenarios {
		present(&p.Scenarios[i])
	}
	for _, once := range []**load.Scenario{&p.Setup, &p.Teardown} {
		if *once != nil {
			s := **once
			present(&s)
			*once = &s
		}
	}
	p.Given = nil // a token, more often than not
	return p
}

// present is presentable for a scenario, which is the caller's own but for what it refers
// to.
func present(s *load.Scenario) {
	s.Stages = list(s.Stages)
	s.Steps = list(slices.Clone(s.Steps))
	for j := range s.Steps {
		s.Steps[j].Request = withoutSecrets(s.Steps[j].Request)
	}
	if s.Feed == nil {
		s.Feed = map[string]feed.Feed{}
	}
	if s.WebSocket != nil {
		ws := *s.WebSocket
		ws.Header = hide(ws.Header)
		if ws.Login != nil {
			login := *ws.Login
			login.Request = withoutSecrets(login.Request)
			ws.Login = &login
		}
		s.WebSocket = &ws
	}
}

// withoutSecrets hides what of a request carries secrets by its name.
func withoutSecrets(r load.Request) load.Request {
	r.Header, r.Form = hide(r.Header), hide(r.Form)
	r.Multipart = slices.Clone(r.Multipart)
	for i := range r.Multipart {
		if f := &r.Multipart[i]; f.Value != "" && secret(f.Name) {
			f.Value = hidden
		}
	}
	return r
}

func hide(values map[string]string) map[string]string {
	out := maps.Clone(values)
	for name := range out {
		if secret(name) {
			out[name] = hidden
		}
	}
	return out
}

// secret says whether the value of a header, or of a form's field, of that name is likely to
// open a door somewhere.
func secret(name string) bool {
	name = strings.ToLower(name)
	for _, word := range []string{"authorization", "cookie", "token", "secret", "passw", "api-key", "apikey", "credential"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}
