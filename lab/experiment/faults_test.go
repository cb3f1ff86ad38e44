package experiment_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"loadstone/lab/experiment"
	"loadstone/lab/fault"
)

func TestFaultsAreReadAsTheyAreCarriedOut(t *testing.T) {
	t.Parallel()
	e := parseGood(t, "faults")
	instances := map[string]int{"api": 3, "redis": 2, "postgres": 1}
	if err := e.CheckFaults("redis", instances); err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range e.Faults {
		p := e.Faults[i].Plan(instances)
		got = append(got, p.At.String()+" "+p.String())
		if want := i == 0 || i == 2; p.Ends != want {
			t.Errorf("fault %d ends: %v, want %v", i+1, p.Ends, want)
		}
	}
	want := "1m0s kill api-1; 2m0s exec redis-cli -h ${REDIS_HOST:-redis} flushall; 3m0s stop postgres-1; 4m0s pause redis-1, redis-2"
	if strings.Join(got, "; ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if p := e.Faults[1].Plan(instances); p.Action != fault.Exec || p.Within != 5*time.Second || len(p.Targets) != 1 || p.Targets[0] != "redis-1" {
		t.Errorf("got %+v", p)
	}
	if len(e.System) != 2 || filepath.Base(e.SystemPaths()[1]) != "limits.yaml" || len(e.Profiles) != 1 {
		t.Errorf("system %v, profiles %v", e.SystemPaths(), e.Profiles)
	}
	m, err := e.Watch[0].Follow()
	if err != nil || m.Name != "database_queries" || len(m.Bounds) != 2 || m.Selector.Labels["kind"] != "read" {
		t.Errorf("got %+v, %v", m, err)
	}
}

// TestFaultsOnWhatIsNotThere names the place of each.
func TestFaultsOnWhatIsNotThere(t *testing.T) {
	t.Parallel()
	e := parseGood(t, "faults")
	for name, c := range map[string]struct {
		instances map[string]int
		want      string
	}{
		"unknown service":  {map[string]int{"apii": 3, "redis": 1, "postgres": 1}, `faults.yaml:14:21: fault 1 is about the service "api", which variant "v" does not run; write apii`},
		"no instance":      {map[string]int{"api": 3, "redis": 0, "postgres": 1}, `no instance`},
		"of exec":          {map[string]int{"api": 3, "postgres": 1}, `faults.yaml:15:82: fault 2 is about the service "redis"`},
		"too few of them":  {map[string]int{"api": 0, "redis": 1, "postgres": 1}, `faults.yaml:14:21`},
		"a high instance ": {map[string]int{"api": 3, "redis": 1, "postgres": 1}, ``},
	} {
		err := e.CheckFaults("v", c.instances)
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	e.Faults[0].Instance = 4
	if err := e.CheckFaults("v", map[string]int{"api": 3, "redis": 1, "postgres": 1}); err == nil || !strings.Contains(err.Error(), "14:36: fault 1 is about instance 4") {
		t.Errorf("got %v", err)
	}
}

func TestWatchedServiceMustBeThere(t *testing.T) {
	t.Parallel()
	err := parseGood(t, "faults").CheckServices([]string{"lb", "redis"})
	if err == nil || !strings.Contains(err.Error(), `../compose.yaml with limits.yaml has no service "api" with the watched metric "database_queries"`) {
		t.Errorf("got %v", err)
	}
}

// TestEveryFileOfTheSystemIsLookedFor has a directory and a missing file in the
// list.
func TestEveryFileOfTheSystemIsLookedFor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := "name: x\nsystem: [compose.yaml, gone.yaml, .]\nentry: a\nvariants: {a: {}}\nmeasure: load\ntrials: 1\n" +
		"load: {scenarios: {a: {executor: constant-vus, vus: 1, duration: 60s, request: GET /}}}\n"
	for name, text := range map[string]string{"x.yaml": text, "compose.yaml": "services: {}"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, err := experiment.Load(filepath.Join(dir, "x.yaml"))
	for _, want := range []string{":2:24: there is no file " + dir + "/gone.yaml", ":2:35: " + dir + " is a directory; write the path of the Compose file in it, such as compose.yaml"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
