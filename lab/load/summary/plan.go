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
		s := &p.Scenarios[i]
		s.Stages = list(s.Stages)
		s.Steps = list(slices.Clone(s.Steps))
		for j := range s.Steps {
			s.Steps[j].Request.Header = withoutSecrets(s.Steps[j].Request.Header)
		}
		if s.Feed == nil {
			s.Feed = map[string]feed.Feed{}
		}
		if s.WebSocket != nil {
			ws := *s.WebSocket
			ws.Header = withoutSecrets(ws.Header)
			if ws.Login != nil {
				login := *ws.Login
				login.Request.Header = withoutSecrets(login.Request.Header)
				ws.Login = &login
			}
			s.WebSocket = &ws
		}
	}
	return p
}

func withoutSecrets(header map[string]string) map[string]string {
	out := maps.Clone(header)
	for name := range out {
		if secret(name) {
			out[name] = hidden
		}
	}
	return out
}

// secret says whether a header's value is likely to open a door somewhere.
func secret(header string) bool {
	header = strings.ToLower(header)
	for _, word := range []string{"authorization", "cookie", "token", "secret", "password", "api-key", "apikey", "credential"} {
		if strings.Contains(header, word) {
			return true
		}
	}
	return false
}
