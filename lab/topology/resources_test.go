package topology

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// withResources is a system whose x-resources are the given text.
func withResources(text string) string {
	return `services:
  worker: {image: loadstone}
  api:
    image: loadstone
    labels: {prometheus.io/port: "9100"}
    x-resources:
      ` + text + "\n"
}

func TestResourcesAreRead(t *testing.T) {
	t.Parallel()
	s := loaded(t, withResources(`jobs: {kind: queue, depth: 'q{name="a b", to="x"}', capacity: q_max, done: q_done_total, consumer: worker}
      ledger: {kind: lock, busy_seconds: l_busy, wait_seconds: l_wait}
      serializing: {kind: work, busy_seconds: s_busy}
      slots: {kind: pool, size: p_size, in_use: p_used, waiting: p_waiting, control: {put: /pool, value: "{n}", token: API_TOKEN}}`))
	want := []Resource{
		{Name: "jobs", Kind: Queue, Depth: `q{name="a b", to="x"}`, Capacity: "q_max", Done: "q_done_total", Consumer: "worker"},
		{Name: "ledger", Kind: Lock, BusySeconds: "l_busy", WaitSeconds: "l_wait"},
		{Name: "serializing", Kind: Work, BusySeconds: "s_busy"},
		{Name: "slots", Kind: Pool, Size: "p_size", InUse: "p_used", Waiting: "p_waiting", Control: &Control{Put: "/pool", Value: "{n}", Token: "API_TOKEN"}},
	}
	if got := service(t, s, "api").Resources; !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestBadResourcesAreRefusedWhereTheyStand(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"slots: {kind: pool, size: s, in_use: u, wating: w}":                                        {":7:47: ", "api", "x-resources.slots.wating", "waiting"},
		"slots: {kind: pol, size: s}":                                                               {":7:15: ", "pol is not a kind", "pool"},
		"slots: {size: s}":                                                                          {":7:7: ", "no kind", "pool, lock, queue, stage, work or count"},
		"slots: {kind: pool, size: s}":                                                              {":7:7: ", "a pool needs in_use"},
		"l: {kind: lock, busy_seconds: 'a b'}":                                                      {":7:23: ", "a b is not a metric"},
		"l: {kind: lock, busy_seconds: 'a{b=c}'}":                                                   {":7:23: ", "is not a metric"},
		"l: {kind: lock, busy_seconds: 'a{b=\"c\"'}":                                                {":7:23: ", "is not a metric"},
		"l: {kind: lock, busy_seconds: 5}":                                                          {":7:23: ", "5 is not a metric"},
		"l: {kind: lock, busy_seconds: a, size: b}":                                                 {":7:40: ", "a lock does not have this key"},
		"q: {kind: queue, depth: d, consumer: nobody}":                                              {":7:34: ", "no service nobody"},
		"q: {kind: queue, depth: d, consumer: 3}":                                                   {":7:34: ", "name of a service"},
		"p: {kind: pool, size: s, in_use: u, control: {put: x, value: 3}}":                          {":7:43: ", `{put: /pool, value: "{n}", token: API_ADMIN_TOKEN}`},
		`p: {kind: pool, size: s, in_use: u, control: {put: /x, value: "{n}", token: 3}}`:           {":7:43: ", "may name a variable"},
		`p: {kind: pool, size: s, in_use: u, control: {put: /x, value: "{n}", token: "my secret"}}`: {":7:43: ", "name of a variable"},
		`p: {kind: pool, size: s, in_use: u, control: {put: /x, value: "{n}", tokn: A}}`:            {":7:43: ", "token: API_ADMIN_TOKEN"},
		"w: {kind: work}": {":7:7: ", "work needs busy_seconds"},
		"w: {kind: work, busy_seconds: b, done: d}":                                                   {":7:40: ", "work does not have this key"},
		"s: {kind: stage, done: d}":                                                                   {":7:7: ", "busy_seconds, busy_ms_per_second or lag"},
		"s: {kind: stage, lag: l}":                                                                    {":7:7: ", "a stage needs done"},
		"s: {kind: stage, done: d, lag: l, after: x}":                                                 {":7:41: ", "parser.parse"},
		"s: {kind: stage, done: d, lag: l, after: api.t}":                                             {":7:41: ", "no stage or queue api.t"},
		"s: {kind: stage, done: d, lag: l, after: api.s}":                                             {":7:41: ", "cycle: api.s, api.s"},
		"s: {kind: stage, done: d, busy_seconds: b, busy_ms_per_second: b}":                           {":7:50: ", "write one of them"},
		"s: {kind: stage, done: d, lag: l, backpressured_seconds: b, backpressured_ms_per_second: b}": {":7:67: ", "write one of them"},
		"p: 3":   {":7:7: ", "it must be a mapping"},
		"- pool": {":6:5: ", "it must be a mapping from names"},
	} {
		_, err := Load(t.Context(), Config{ComposeFiles: []string{composeFile(t, withResources(text))}})
		if err == nil {
			t.Errorf("%s: no error, want one with %q", text, want)
			continue
		}
		for _, part := range want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: got %q, want it to say %q", text, err, part)
			}
		}
	}
}

func TestStagesAndRequestsAreRead(t *testing.T) {
	t.Parallel()
	s := loaded(t, withResources(`jobs: {kind: queue, depth: d}
      parse: {kind: stage, done: p_total, busy_ms_per_second: 'busy{task="p"}', backpressured_ms_per_second: bp, after: api.jobs}
      insert: {kind: stage, done: i_total, busy_seconds: i_busy, backpressured_seconds: i_bp, lag: i_lag, after: api.parse}
    x-requests: 'served_total{code="200"}'`))
	want := []Resource{
		{Name: "requests", Kind: Requests, Done: `served_total{code="200"}`},
		{Name: "insert", Kind: Stage, Done: "i_total", BusySeconds: "i_busy", BackpressuredSeconds: "i_bp", Lag: "i_lag", After: "api.parse"},
		{Name: "jobs", Kind: Queue, Depth: "d"},
		{Name: "parse", Kind: Stage, Done: "p_total", BusyMS: `busy{task="p"}`, BackpressuredMS: "bp", After: "api.jobs"},
	}
	if got := service(t, s, "api").Resources; !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestBadRequestsAreRefusedWhereTheyStand(t *testing.T) {
	t.Parallel()
	file := withResources("l: {kind: lock, busy_seconds: b}")
	for text, want := range map[string]string{
		strings.Replace(file, "x-resources:", "x-requests: a b\n    x-resources:", 1):                           ":6:5: service api: x-requests: a b is not a metric",
		strings.ReplaceAll(strings.Replace(file, "worker: {", "worker: {x-requests: a, ", 1), "api:", "other:"): ":2:12: service worker: x-requests: its metrics cannot be read",
	} {
		_, err := Load(t.Context(), Config{ComposeFiles: []string{composeFile(t, text)}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to say %q", err, want)
		}
	}
}

func TestResourcesNeedAnEndpoint(t *testing.T) {
	t.Parallel()
	text := strings.ReplaceAll(withResources("l: {kind: lock, busy_seconds: b}"), "prometheus.io/port", "other")
	_, err := Load(t.Context(), Config{ComposeFiles: []string{composeFile(t, text)}})
	if err == nil || !strings.Contains(err.Error(), "prometheus.io/port") {
		t.Errorf("got %v, want an error that says which label to add", err)
	}
}

// TestAnOverlaysResourceIsBlamedOnTheOverlay has a fault that no file has alone.
func TestAnOverlaysResourceIsBlamedOnTheOverlay(t *testing.T) {
	t.Parallel()
	_, err := Load(t.Context(), Config{
		ComposeFiles: []string{composeFile(t, withResources("l: {kind: lock, busy_seconds: b}"))},
		Overlay:      []byte("services:\n  api:\n    x-resources:\n      l: {depth: d}\n"), OverlayName: "variant two",
	})
	var mistake *MistakeError
	if !errors.As(err, &mistake) || !mistake.Overlay || !strings.HasPrefix(err.Error(), "variant two: service api: ") {
		t.Fatalf("got %v, want a mistake of the overlay", err)
	}
	if want := []string{"services", "api", "x-resources", "l", "depth"}; !slices.Equal(mistake.Path, want) {
		t.Errorf("got the path %q, want %q", mistake.Path, want)
	}
}
