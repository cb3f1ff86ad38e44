package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"loadstone/lab/load"
	"loadstone/lab/load/failure"
)

// makeOnce makes the steps of a scenario a single time, and returns what they extracted. It is
// an error if one of them fails, or a check of its answer does.
func makeOnce(ctx context.Context, of *load.Plan, s *load.Scenario) (map[string]string, error) {
	plan := load.Plan{
		Targets: of.Targets[:1], Scenarios: []load.Scenario{*s}, Seed: of.Seed, Timeout: of.Timeout, Protocol: of.Protocol,
		TLS: of.TLS, Protos: of.Protos, LocalIPs: of.LocalIPs, Threads: 1, Given: of.Given,
	}
	r, err := newRun(ctx, &plan, func(load.Window) string { return "" })
	if err != nil {
		return nil, err
	}
	if err := errors.Join(r.perform(ctx, nil), r.closeLoops()); err != nil {
		return nil, err
	}
	result, err := r.result()
	if err != nil {
		return nil, err
	}
	if err := failureOf(&result); err != nil {
		return nil, err
	}
	given := maps.Clone(of.Given)
	if given == nil {
		given = map[string]string{}
	}
	for _, l := range r.loops[0].lanes {
		if closed, ok := l.(*closedLane); ok {
			for _, u := range closed.users {
				u.collect(given)
			}
		}
	}
	return given, nil
}

// collect adds what a user has extracted.
func (u *user) collect(to map[string]string) {
	for i, v := range u.values {
		if v != nil && u.script.values[i].extracted {
			to[u.script.values[i].name] = string(v)
		}
	}
}

// failureOf says what failed of requests that are made once; nil if nothing did.
func failureOf(r *load.Result) error {
	for i := range r.Steps {
		s := &r.Steps[i]
		if s.Failed == 0 {
			continue
		}
		if kinds := slices.Sorted(maps.Keys(r.Errors)); len(kinds) > 0 {
			kind := kinds[0]
			if kind == failure.NoValue.String() {
				return errors.New(r.Errors[kind].Example) // it names the step
			}
			return fmt.Errorf("step %q failed (%s): %s", s.Name, kind, r.Errors[kind].Example)
		}
		var answers []string
		for _, status := range slices.Sorted(maps.Keys(s.Status)) {
			answers = append(answers, fmt.Sprint(status))
		}
		return fmt.Errorf("step %q was answered with %s; see that it is right, or write expectedStatuses", s.Name, strings.Join(answers, ", "))
	}
	for _, c := range r.Checks {
		if c.Fails > 0 {
			return fmt.Errorf("step %q: the check %q does not hold", c.Step, c.Name)
		}
	}
	return nil
}
