package drivertest

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"loadstone/lab/driver"
	"loadstone/lab/fault"
	"loadstone/lab/host"
)

// burners use 300 ms of CPU before they are ready, and the server as much again while
// a job waits for that. At a fifth of a core each takes 1.2 s at least, as the quota of
// one period is there at once.
const burners = `
services:
  job:
    image: $IMAGE
    command: [burn, 300ms, $DIR/shared/notes]
    environment: {NAME: job}
    volumes: ["$DIR/shared:$DIR/shared"]
    deploy: {resources: {limits: {cpus: "0.2"}}}
  api:
    image: $IMAGE
    command: [burn, 300ms, $DIR/shared/notes, $DIR/shared/ready, $DIR/shared/done]
    environment: {NAME: api}
    healthcheck: {test: [CMD, loadstone, check, $DIR/shared/ready], interval: 1s, retries: 60, start_interval: 50ms}
    volumes: ["$DIR/shared:$DIR/shared"]
    deploy: {resources: {limits: {cpus: "0.2", memory: 64M}}}
    depends_on: {job: {condition: service_completed_successfully}}
  late:
    image: $IMAGE
    command: [await, $DIR/shared/done]
    volumes: ["$DIR/shared:$DIR/shared"]
    depends_on: {api: {condition: service_healthy}}
  plain:
    image: $IMAGE
    command: [sleep]
    deploy: {replicas: 2, resources: {limits: {cpus: "0.2"}}}
    depends_on: {late: {condition: service_completed_successfully}}
`

// throttled is how long the burners take at least while they have their limit.
const throttled = 1200 * time.Millisecond

func (s suite) cpuOnceUp(t *testing.T) {
	s.needLimits(t)
	dir := place(t)
	r := s.up(t, dir, burners)
	for _, in := range r.Instances() {
		limited := func() bool {
			share, err := shareOf(in.PID)
			return err == nil && share != nil && share.Cores == 0.2
		}
		late := func() { t.Errorf("the system is up, and the control group of %s has no share of 0.2 cores", in.Name) }
		if in.Service == "api" && !limited() {
			late()
		}
		poll(t, limited, late) // without a health check it may be on its way into the group
	}
	// A limit before that would have held it back in all fifteen periods of its work; to begin, on a
	// busy machine, takes a few.
	for _, in := range sampleOf(t, r).Instances {
		if in.Name == "api-1" && in.Throttled > 10 { // the others may still have begun
			t.Errorf("%s was throttled in %d periods, though it did nothing once the system was up", in.Name, in.Throttled)
		}
	}
	if took := burnt(t, dir, 0, "job"); took < throttled {
		t.Errorf("the job took %v, less than its limit allows", took)
	}
	h := harmed{r, r.(fault.System)}
	if err := h.Kill(t.Context(), "api-1"); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Start(t.Context(), "api-1"); err != nil {
		t.Fatal(err)
	}
	if took := burnt(t, dir, 3, "api"); took < throttled {
		t.Errorf("started again it took %v, less than its limit allows", took)
	}
	w := r.Warnings()
	if s.Cluster {
		w = slices.DeleteFunc(w, func(text string) bool { return strings.HasPrefix(text, "api-1 has another address") })
	}
	if len(w) > 0 {
		t.Errorf("got warnings %q", w)
	}
}

// burnt is how long the burner took that noted so in this line.
func burnt(t *testing.T, dir string, line int, name string) time.Duration {
	t.Helper()
	var all []string
	notes := filepath.Join(dir, "shared", "notes")
	poll(t, func() bool { all = lines(t, notes); return len(all) > line }, func() { t.Fatalf("got %q, want a line more", all) })
	took, err := time.ParseDuration(strings.TrimPrefix(all[line], name+" "))
	if err != nil {
		t.Fatal(err)
	}
	return took
}

// sampleOf is what the instances have used so far.
func sampleOf(t *testing.T, r driver.Running) (taken *host.Sample) {
	t.Helper()
	enough := errors.New("a sample")
	hosts := r.Hosts()
	if len(hosts) == 0 {
		t.Fatalf("nothing is seen of the system: %q", r.Warnings())
	}
	err := hosts[0].Watch(t.Context(), time.Millisecond, func(s *host.Sample) error {
		taken = s
		return enough
	})
	if !errors.Is(err, enough) {
		t.Fatal(err)
	}
	return taken
}
