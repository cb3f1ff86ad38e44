package runner

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
	if f.Action == "pause" || f.Reached || f.Command != nil {
		return fmt.Errorf("no %s of %s, command: %q, reached: %v", f.Action, f.Service, f.Command, f.Reached)
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
	const want = `experiment.yaml:11:22: no pause of db, command: [], reached: false
experiment.yaml:12:21: no kill of web, command: [], reached: true
experiment.yaml:13:22: no pause of web, command: [], reached: false
experiment.yaml:14:15: no exec of db, command: ["sync" "now"], reached: false`
	if err := k.check(t.Context()); err == nil || strings.ReplaceAll(err.Error(), dir+"/", "") != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	k = &execution{Config: Config{Experiment: exp, Variants: []string{"one"}, Driver: attach.Driver{}}}
	if err := k.check(t.Context()); err == nil || !strings.Contains(err.Error(), "experiment.yaml:10:20: attach neither stops nor starts what runs already; remove the fault") {
		t.Errorf("got %v", err)
	}
}
