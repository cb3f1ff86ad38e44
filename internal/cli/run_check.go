package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"loadstone/lab/experiment"
	"loadstone/lab/format"
	"loadstone/lab/load"
	"loadstone/lab/runner"
	"loadstone/lab/term"
	"loadstone/lab/topology"
)

// checkRun prints what a run would do. It starts nothing.
func (a *app) checkRun(ctx context.Context, exp *experiment.Experiment, f runFlags) error {
	c, err := a.runConfig(ctx, exp, f)
	if err != nil {
		return err
	}
	out, err := runner.Check(ctx, c)
	if err != nil {
		return err
	}
	var b strings.Builder
	about := &term.Table{Columns: term.Columned(0, "ll")}
	about.AddTexts("experiment", exp.Name)
	if exp.Question != "" {
		about.AddTexts("question", exp.Question)
	}
	about.AddTexts("system", strings.Join(exp.SystemPaths(), ", "))
	first := out.Systems[c.Variants[0]]
	entry, _ := first.Service(exp.Entry)
	about.AddTexts("entry", exp.Entry+portText(entry.Port))
	plan := exp.PlanOf(c.Variants[0])
	for i := range plan.Scenarios {
		about.AddTexts("load", scenarioText(exp, &plan.Scenarios[i]))
	}
	for _, o := range exp.SLO {
		for _, t := range o.Thresholds {
			about.AddTexts("objective", o.Metric+" "+t.String())
		}
	}
	b.WriteString(about.Text(false) + "\n")

	variants := term.NewTable(0, "ll", "variant", "instances × CPU limit")
	for _, name := range c.Variants {
		variants.AddTexts(name, servicesText(out.Systems[name]))
	}
	b.WriteString(variants.Text(false) + "\n")

	var order []string
	var total time.Duration
	for i, t := range out.Trials {
		order = append(order, t.Variant)
		total += out.Load[i]
	}
	fmt.Fprintf(&b, "%s: %s\n", format.Plural(len(out.Trials), "trial"), strings.Join(order, " "))
	fmt.Fprintf(&b, "time: %s, and what starting and stopping the system %s takes\n",
		loadText(exp, total), times(len(out.Trials)))
	for _, note := range append(exp.Notes(len(c.Variants)), out.Warnings...) {
		fmt.Fprintf(&b, "warning: %s\n", note)
	}
	b.WriteString("Nothing was started; everything that can be checked before is in order.\n")
	_, err = a.Stdout.Write([]byte(b.String()))
	return err
}

// loadText is how long a run is under load. A search takes longer where answers are slow, and
// how slow they are shows only then; one with clients connects them for each attempt.
func loadText(exp *experiment.Experiment, total time.Duration) string {
	raised := exp.Raised()
	switch {
	case raised.What != "":
		return fmt.Sprintf("about %s under load; connecting the clients of each attempt, and waiting for what is late, come on top", format.Duration(total))
	case exp.Measure == experiment.Capacity:
		return fmt.Sprintf("at least %s under load, and several times that where answers take a second", format.Duration(total))
	}
	return format.Duration(total) + " under load"
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return format.Count(n) + " times"
}

func portText(port int) string {
	if port == 0 {
		return ""
	}
	return fmt.Sprintf(", port %d", port)
}

// scenarioText is a scenario in a line: what it sends, and how much of it.
func scenarioText(exp *experiment.Experiment, s *load.Scenario) string {
	var requests []string
	for i := range s.Steps {
		requests = append(requests, s.Steps[i].Request.Line())
	}
	text := s.Name
	if len(requests) > 0 {
		text += ": " + strings.Join(requests, ", ")
	}
	raised := exp.Raised()
	switch {
	case raised.What != "":
		return text + fmt.Sprintf("; the most %s that are held are searched for %s in each trial", raised.Unit(), format.Duration(exp.Search.Budget))
	case exp.Measure == experiment.Capacity:
		return text + fmt.Sprintf("; its highest rate is searched for %s in each trial", format.Duration(exp.Search.Budget))
	}
	one := load.Plan{Scenarios: []load.Scenario{*s}}
	return text + "; " + one.Asked()
}

// servicesText are the services of a system that run under load.
func servicesText(s *topology.System) string {
	var texts []string
	for i := range s.Services {
		service := &s.Services[i]
		switch {
		case service.Job:
			texts = append(texts, service.Name+" (job)")
		case service.Limits.CPUs == nil:
			texts = append(texts, fmt.Sprintf("%s %d × no limit", service.Name, service.Replicas))
		default:
			texts = append(texts, fmt.Sprintf("%s %d × %s", service.Name, service.Replicas, format.Setting(*service.Limits.CPUs)))
		}
	}
	return strings.Join(texts, ", ")
}
