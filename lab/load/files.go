package load

import "slices"

// Files are the paths of the files that whoever offers the load reads, each once.
func (p *Plan) Files() []string {
	var all []string
	add := func(path string) {
		if path != "" && !slices.Contains(all, path) {
			all = append(all, path)
		}
	}
	add(p.TLS.CAFile)
	for _, path := range p.Protos {
		add(path)
	}
	for i := range p.Scenarios {
		p.Scenarios[i].files(add)
	}
	for _, s := range []*Scenario{p.Setup, p.Teardown} {
		if s != nil {
			s.files(add)
		}
	}
	slices.Sort(all)
	return all
}

func (s *Scenario) files(add func(string)) {
	for _, f := range s.Feed {
		if f.CSV != nil {
			add(f.CSV.Path)
		}
		if f.JSONL != nil {
			add(f.JSONL.Path)
		}
	}
	if s.Log != nil {
		add(s.Log.Path)
	}
	for i := range s.Steps {
		s.Steps[i].Request.files(add)
	}
	if s.WebSocket != nil && s.WebSocket.Login != nil {
		s.WebSocket.Login.Request.files(add)
	}
}

func (r *Request) files(add func(string)) {
	for i := range r.Multipart {
		add(r.Multipart[i].File)
	}
}
