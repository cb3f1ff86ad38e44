package runner

import (
	"errors"
	"fmt"

	"loadstone/lab/experiment"
	"loadstone/lab/topology"
)

// checkEntry says whether the entry service of a variant can take load: what has
// a command of its own has the port that the file says. Images that recipes start
// may know theirs.
func (k *execution) checkEntry(s *topology.System) error {
	entry, ok := s.Service(k.Experiment.Entry)
	switch {
	case !ok: // CheckServices has looked
		return nil
	case entry.Replicas == 0:
		return s.Mistake(fmt.Errorf("service %s takes the load and has no instance; write deploy: {replicas: 1}, or another entry", entry.Name), "services", entry.Name, "deploy", "replicas")
	case entry.Port == 0 && len(entry.Command) > 0:
		return s.Mistake(fmt.Errorf("service %s takes the load and publishes no port; write ports: [\"8080\"], with the port that it listens on", entry.Name), "services", entry.Name, "ports")
	}
	return nil
}

// mistakes returns what is wrong with a system as errors of a file: of the Compose
// file, if the place in it is known, else of the experiment at path. What an
// overlay has is there, below path.
func (k *execution) mistakes(err error, path ...string) []error {
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, one := range several.Unwrap() {
			all = append(all, k.mistakes(one, path...)...)
		}
		return all
	}
	m, ok := errors.AsType[*topology.MistakeError](err)
	switch {
	case err == nil:
		return nil
	case ok && m.Overlay:
		return []error{k.Experiment.ErrorAt(m.File+": "+m.Message, append(path, m.Path...)...)}
	case ok && m.Line > 0:
		return []error{&experiment.Error{File: m.File, Line: m.Line, Column: m.Column, Message: m.Message}}
	}
	return []error{k.Experiment.ErrorAt(err.Error(), path...)}
}
