package runner

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"loadstone/lab/driver"
	"loadstone/lab/driver/attach"
	"loadstone/lab/experiment"
	"loadstone/lab/topology"
)

// unable is a driver that carries out no faults.
type unable struct{ driver.Driver }

func (unable) Check(context.Context, *topology.System) error { return nil }

func (unable) CheckFault(_ context.Context, s *topology.System, f driver.Fault) error {
	if _, ok := s.Service(f.Service); !ok {
		return fmt.Errorf("there is no %s", f.Service)
	}
	if f.Action == "pause" || f.Renewed || f.Command != nil {
		return fmt.Errorf("no %s of %s, command: %q, renewed: %v", f.Action, f.Service, f.Command, f.Renewed)
	}
	return nil
}

// What a driver cannot do is found before it starts anything, each with its place.
func TestFaultsThatADriverCannotCarryOutAreRefusedBeforeItStarts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"compose.yaml": "services:\n  web: {image: x, ports: [\"8080\"]}\n  db: {image: x}\n",
		"experiment.yaml": `name: a
system: compose.yaml
entry: web
variants: {one: {}}
load: {scenarios: {s: {executor: constant-arrival-rate, rate: 1/s, duration: 1m, request: GET /}}}
slo: {http_req_duration: [p(95)<100]}
measure: load
trials: 1
faults:
  - {at: 5s, kill: db, for: 1s}
  - {at: 10s, pause: db, for: 1s}
  - {at: 15s, kill: web, for: 1s}
  - {at: 20s, pause: web, for: 1s}
  - {at: 24s, exec: [sync, now], service: db}
  - {at: 25s, stop: web}
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	exp, err := experiment.Load(filepath.Join(dir, "experiment.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	k := &execution{Config: Config{Experiment: exp, Variants: []string{"one"}, Driver: unable{}}}
	const want = `experiment.yaml:11:22: no pause of db, command: [], renewed: false
experiment.yaml:12:21: no kill of web, command: [], renewed: true
experiment.yaml:13:22: no pause of web, command: [], renewed: false
experiment.yaml:14:15: no exec of db, command: ["sync" "now"], renewed: false`
	if err := k.check(t.Context()); err == nil || strings.ReplaceAll(err.Error(), dir+"/", "") != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	k = &execution{Config: Config{Experiment: exp, Variants: []string{"one"}, Driver: attach.Driver{}}}
	if err := k.check(t.Context()); err == nil || !strings.Contains(err.Error(), "experiment.yaml:10:20: attach neither stops nor starts what runs already; remove the fault") {
		t.Errorf("got %v", err)
	}
}

// An entry of which an instance is left that no fault has ended is reached by the load.
func TestAnEntryIsRenewedWhenNoInstanceOfItIsLeft(t *testing.T) {
	t.Parallel()
	const f = time.Second
	for name, c := range map[string]struct {
		replicas int
		faults   []experiment.Fault
		want     []bool
	}{
		"the only one":                  {1, []experiment.Fault{{Kill: "web", For: f}}, []bool{true}},
		"all at once":                   {3, []experiment.Fault{{Stop: "web", For: f}}, []bool{true}},
		"one of three":                  {3, []experiment.Fault{{Kill: "web", Instance: 2, For: f}}, []bool{false}},
		"the same one again":            {2, []experiment.Fault{{Kill: "web", Instance: 2, For: f}, {Stop: "web", Instance: 2, For: f}}, []bool{false, false}},
		"one after the other":           {2, []experiment.Fault{{Kill: "web", Instance: 1, For: f}, {Stop: "web", Instance: 2, For: f}}, []bool{false, true}},
		"the other stays away":          {2, []experiment.Fault{{Kill: "web", Instance: 1, For: f}, {Kill: "web", Instance: 2}}, []bool{false, true}},
		"all stay away":                 {2, []experiment.Fault{{Kill: "web", Instance: 1, For: f}, {Kill: "web"}}, []bool{false, false}},
		"they stand still":              {1, []experiment.Fault{{Pause: "web", For: f}}, []bool{false}},
		"another service":               {1, []experiment.Fault{{Kill: "db", For: f}}, []bool{false}},
		"one command and no other harm": {1, []experiment.Fault{{Exec: []string{"sync"}, Service: "web"}}, []bool{false}},
	} {
		e := entryFaults{name: "web", instances: c.replicas, ended: map[string]bool{}}
		var got []bool
		for i := range c.faults {
			got = append(got, e.with(&c.faults[i], map[string]int{"web": c.replicas, "db": 1}).Renewed)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
