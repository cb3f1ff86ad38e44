package load

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
)

// Files are the paths of the files that whoever offers the load reads, each once. What .proto
// files import is not among them.
func (p *Plan) Files() []string {
	var all []string
	p.eachFile(func(path *string) {
		if !slices.Contains(all, *path) {
			all = append(all, *path)
		}
	})
	slices.Sort(all)
	return all
}

// Below is the plan for where each of its files is below a directory, at its whole path here.
func (p *Plan) Below(dir string) (Plan, error) {
	var below Plan
	text, err := json.Marshal(p)
	if err == nil {
		err = json.Unmarshal(text, &below)
	}
	if err != nil {
		return below, fmt.Errorf("copy the plan: %w", err)
	}
	below.eachFile(func(path *string) {
		whole, errPath := filepath.Abs(*path)
		if errPath != nil {
			err = errPath
		}
		*path = filepath.Join(dir, whole)
	})
	return below, err
}

// eachFile does something with the path of each file, which it may change.
func (p *Plan) eachFile(do func(path *string)) {
	given := func(path *string) {
		if *path != "" {
			do(path)
		}
	}
	given(&p.TLS.CAFile)
	for i := range p.Protos {
		given(&p.Protos[i])
	}
	for i := range p.Scenarios {
		p.Scenarios[i].eachFile(given)
	}
	for _, s := range []*Scenario{p.Setup, p.Teardown} {
		if s != nil {
			s.eachFile(given)
		}
	}
}

func (s *Scenario) eachFile(do func(path *string)) {
	for _, f := range s.Feed {
		if f.CSV != nil {
			do(&f.CSV.Path)
		}
		if f.JSONL != nil {
			do(&f.JSONL.Path)
		}
	}
	if s.Log != nil {
		do(&s.Log.Path)
	}
	for i := range s.Steps {
		s.Steps[i].Request.eachFile(do)
	}
	if s.WebSocket != nil && s.WebSocket.Login != nil {
		s.WebSocket.Login.Request.eachFile(do)
	}
}

func (r *Request) eachFile(do func(path *string)) {
	for i := range r.Multipart {
		do(&r.Multipart[i].File)
	}
}
