package topology

import (
	"fmt"
	"slices"
	"strings"
)

// checkStage looks at what the keys of a stage say together.
func (r *Resource) checkStage(path []string) error {
	switch {
	case r.Kind != Stage:
	case r.BusySeconds == "" && r.BusyMS == "" && r.Lag == "":
		return &resourceError{path, "nothing tells whether the stage keeps up; add busy_seconds, busy_ms_per_second or lag with the name of a metric"}
	case r.BusySeconds != "" && r.BusyMS != "":
		return &resourceError{append(slices.Clone(path), "busy_ms_per_second"), "busy_seconds tells the same; write one of them"}
	case r.BackpressuredSeconds != "" && r.BackpressuredMS != "":
		return &resourceError{append(slices.Clone(path), "backpressured_ms_per_second"), "backpressured_seconds tells the same; write one of them"}
	}
	return nil
}

// called is what other resources name it by: SERVICE.RESOURCE.
func (r *Resource) called(service string) string { return service + "." + r.Name }

// checkResources looks at what a resource says of other services.
func (s *System) checkResources() error {
	before := make(map[string]string) // what each stage or queue takes from
	for i := range s.Services {
		for _, r := range s.Services[i].Resources {
			if r.Kind == Stage || r.Kind == Queue {
				before[r.called(s.Services[i].Name)] = r.After
			}
		}
	}
	for i := range s.Services {
		for _, r := range s.Services[i].Resources {
			if key, text := s.misnamed(&r, before); key != "" {
				return &resourceError{[]string{"services", s.Services[i].Name, resourcesKey, r.Name, key}, text}
			}
		}
	}
	return nil
}

// misnamed is the key of a resource that names what cannot be meant, and why;
// empty if none does.
func (s *System) misnamed(r *Resource, before map[string]string) (key, text string) {
	if _, ok := s.Service(r.Consumer); r.Consumer != "" && !ok {
		return "consumer", fmt.Sprintf("there is no service %s", r.Consumer)
	}
	if r.After == "" {
		return "", ""
	}
	if _, ok := before[r.After]; !ok {
		return "after", fmt.Sprintf("there is no stage or queue %s; write SERVICE.RESOURCE of one that x-resources declare", r.After)
	}
	seen := []string{}
	for at := r.After; at != ""; at = before[at] {
		if slices.Contains(seen, at) {
			return "after", fmt.Sprintf("the stages form a cycle: %s; leave out `after` at the first stage", strings.Join(append(seen, at), ", "))
		}
		seen = append(seen, at)
	}
	return "", ""
}
