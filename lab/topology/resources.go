package topology

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"

	"loadstone/block/spelling"
)

// resourcesKey is the extension field that says what of a service, beside its
// CPU, can run out, and which metrics tell of it:
//
//	x-resources:
//	  connections: {kind: pool, size: pool_size, in_use: pool_in_use, wait_seconds: pool_wait_seconds_total}
//	  ledger: {kind: lock, busy_seconds: ledger_busy_seconds_total}
//	  jobs: {kind: queue, depth: jobs_waiting, capacity: jobs_capacity, consumer: worker}
//	  serializing: {kind: work, busy_seconds: serializer_seconds_total}
//	  queries: {kind: count, done: queries_total}
//	  insert: {kind: stage, done: rows_total, busy_seconds: insert_busy_seconds_total, lag: rows_waiting, after: parser.parse}
//
// requestsKey names the counter of the requests that a service served, so that a
// service that is called several times for one request is seen to be:
//
//	x-requests: http_requests_total{handler="api"}
const (
	resourcesKey = "x-resources"
	requestsKey  = "x-requests"
)

// The kinds of a Resource.
const (
	Pool  = "pool"  // so many slots, each held for a time
	Lock  = "lock"  // a serial section: one holder at a time
	Queue = "queue" // work that waits for a consumer
	Stage = "stage" // a step of a pipeline
	// Work is what a part of a service's CPU time goes into, such as serializing. It is
	// nothing that can run out either: it says more of the CPU.
	Work = "work"
	// Count is something that a service does for a request, such as queries of a
	// database, and how often.
	Count = "count"
	// Requests is what x-requests becomes. It is no resource and cannot run out;
	// it goes the way of the resources because it is read from the same endpoint.
	Requests = "requests"
)

// Resource is one entry of a service's x-resources. What is read of it are
// metrics of the endpoint that the labels prometheus.io/port and /path name:
// each field but Name, Kind, Consumer, After and Control is the name of a metric, with
// or without labels to pick series by, as in db_slots{state="used"}. Those that
// the file leaves out are empty.
type Resource struct {
	Name string `json:"name"`
	Kind string `json:"kind"`

	// Of a pool: gauges of slots, and of who waits for one.
	Size    string `json:"size,omitempty"`
	InUse   string `json:"in_use,omitempty"`
	Waiting string `json:"waiting,omitempty"`
	// WaitSeconds counts the seconds that were waited for a pool or a lock.
	WaitSeconds string `json:"wait_seconds,omitempty"`
	// BusySeconds counts the seconds that a lock was held, or that a worker of a
	// stage worked. Every series of a stage's is one worker. Of a kind of work it
	// counts the CPU seconds that went into it.
	BusySeconds string `json:"busy_seconds,omitempty"`
	// Of a queue: gauges of what is in it and what fits, and a counter of what
	// was taken out and done. Done is also what a stage did, the requests that a
	// service served, or what is counted.
	Depth    string `json:"depth,omitempty"`
	Capacity string `json:"capacity,omitempty"`
	Done     string `json:"done,omitempty"`
	// Of a stage: a counter of the seconds in which a worker could not hand on
	// what was done, because what comes after took no more; and a gauge of what
	// waits for the stage.
	BackpressuredSeconds string `json:"backpressured_seconds,omitempty"`
	Lag                  string `json:"lag,omitempty"`
	// BusyMS and BackpressuredMS tell the same as the counters, as gauges of
	// milliseconds in each second, which is how Flink publishes them.
	BusyMS          string `json:"busy_ms_per_second,omitempty"`
	BackpressuredMS string `json:"backpressured_ms_per_second,omitempty"`
	// After is what a stage takes from, SERVICE.RESOURCE: a stage or a queue;
	// empty for the first.
	After string `json:"after,omitempty"`
	// Consumer is the service that takes from the queue; empty for its own.
	Consumer string `json:"consumer,omitempty"`
	// Control is how a pool's size is changed while it runs; nil if it cannot be.
	Control *Control `json:"control,omitempty"`
}

// Control is a request that sets a pool's size: PUT to Put on the port of the
// metrics, with Value as the body, in which {n} stands for the size. Token names the
// variable of the service's environment that has the bearer token to send; it is
// empty if none is wanted. The token itself is kept nowhere.
type Control struct {
	Put   string `json:"put"`
	Value string `json:"value"`
	Token string `json:"token,omitempty"`
}

// The keys of each kind: those it must have, then those it may have.
var resourceKeys = map[string]struct{ must, may []string }{
	Pool:  {[]string{"size", "in_use"}, []string{"waiting", "wait_seconds", "control"}},
	Lock:  {[]string{"busy_seconds"}, []string{"wait_seconds"}},
	Queue: {[]string{"depth"}, []string{"capacity", "done", "consumer"}},
	Work:  {[]string{"busy_seconds"}, nil},
	Count: {[]string{"done"}, nil},
	Stage: {[]string{"done"}, []string{"busy_seconds", "busy_ms_per_second", "backpressured_seconds", "backpressured_ms_per_second", "lag", "after"}},
}

// metricForm is a metric's name and, at will, labels with equality.
var metricForm = regexp.MustCompile("^[A-Za-z_:][A-Za-z0-9_:]*(\\{" + labelForm + "(," + labelForm + ")*\\})?$")

var variableForm = regexp.MustCompile("^[A-Za-z_][A-Za-z0-9_]*$")

const labelForm = `\s*[A-Za-z_][A-Za-z0-9_]*\s*=\s*"(?:[^"\\]|\\.)*"\s*`

// resourceError is a fault of x-resources, at a path of the Compose file.
type resourceError struct {
	path []string // services, NAME, x-resources, and so on
	text string
}

func (e *resourceError) Error() string {
	return fmt.Sprintf("service %s: %s: %s", e.path[1], strings.Join(e.path[2:], "."), e.text)
}

func setResources(c *types.ServiceConfig, s *Service) error {
	if err := setRequests(c, s); err != nil {
		return err
	}
	value, ok := c.Extensions[resourcesKey]
	if !ok {
		return nil
	}
	path := []string{"services", s.Name, resourcesKey}
	entries, ok := value.(map[string]any)
	if !ok {
		return &resourceError{path, "it must be a mapping from names to resources, as in connections: {kind: pool, size: pool_size, in_use: pool_in_use}"}
	}
	if len(entries) > 0 {
		if err := hasEndpoint(c, path); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		r, err := readResource(append(slices.Clone(path), name), entries[name])
		if err != nil {
			return err
		}
		s.Resources = append(s.Resources, r)
	}
	return nil
}

func setRequests(c *types.ServiceConfig, s *Service) error {
	value, ok := c.Extensions[requestsKey]
	if !ok {
		return nil
	}
	path := []string{"services", s.Name, requestsKey}
	r := Resource{Name: Requests, Kind: Requests}
	if err := r.set("done", value); err != nil {
		return &resourceError{path, err.Error()}
	}
	s.Resources = append(s.Resources, r)
	return hasEndpoint(c, path)
}

// hasEndpoint says at path if there is nothing to read metrics from.
func hasEndpoint(c *types.ServiceConfig, path []string) error {
	if c.Labels["prometheus.io/port"] == "" {
		return &resourceError{path, `its metrics cannot be read, because the service names no endpoint; add the label prometheus.io/port: "9100"`}
	}
	return nil
}

func readResource(path []string, value any) (Resource, error) {
	at := func(key, text string) error { return &resourceError{append(slices.Clone(path), key), text} }
	r := Resource{Name: path[len(path)-1]}
	entry, ok := value.(map[string]any)
	if !ok {
		return r, &resourceError{path, "it must be a mapping that begins with its kind, as in {kind: lock, busy_seconds: METRIC}"}
	}
	kinds := []string{Pool, Lock, Queue, Stage, Work, Count}
	kind, ok := entry["kind"].(string)
	keys, known := resourceKeys[kind]
	switch {
	case entry["kind"] == nil:
		return r, &resourceError{path, "it has no kind; write kind: pool, lock, queue, stage, work or count"}
	case !ok || !known:
		return r, at("kind", fmt.Sprintf("%v is not a kind of resource; %s", entry["kind"], spelling.Choose(fmt.Sprint(entry["kind"]), kinds)))
	}
	r.Kind = kind
	all := slices.Concat(keys.must, keys.may)
	for _, key := range slices.Sorted(maps.Keys(entry)) {
		if key == "kind" {
			continue
		}
		if !slices.Contains(all, key) {
			return r, at(key, fmt.Sprintf("a %s does not have this key; %s", kind, spelling.Choose(key, all)))
		}
		if err := r.set(key, entry[key]); err != nil {
			return r, at(key, err.Error())
		}
	}
	for _, key := range keys.must {
		if entry[key] == nil {
			return r, &resourceError{path, fmt.Sprintf("a %s needs %s; add it with the name of a metric", kind, key)}
		}
	}
	return r, r.checkStage(path)
}

func (r *Resource) set(key string, value any) (err error) {
	if key == "control" {
		r.Control, err = readControl(value)
		return err
	}
	text, ok := value.(string)
	if key == "after" {
		if r.After = text; !ok || !strings.Contains(text, ".") {
			return errors.New("it must be a service and a stage or queue of it, as in parser.parse")
		}
		return nil
	}
	if key == "consumer" {
		if r.Consumer = text; !ok || text == "" {
			return errors.New("it must be the name of a service")
		}
		return nil
	}
	if !ok || !metricForm.MatchString(text) {
		return fmt.Errorf(`%v is not a metric; write its name, or its name and labels as in db_slots{state="used"}`, value)
	}
	*map[string]*string{
		"size": &r.Size, "in_use": &r.InUse, "waiting": &r.Waiting, "wait_seconds": &r.WaitSeconds,
		"busy_seconds": &r.BusySeconds, "depth": &r.Depth, "capacity": &r.Capacity, "done": &r.Done,
		"backpressured_seconds": &r.BackpressuredSeconds, "lag": &r.Lag,
		"busy_ms_per_second": &r.BusyMS, "backpressured_ms_per_second": &r.BackpressuredMS,
	}[key] = text
	return nil
}

func readControl(value any) (*Control, error) {
	entry, _ := value.(map[string]any)
	put, _ := entry["put"].(string)
	body, _ := entry["value"].(string)
	token, named := entry["token"].(string)
	keys := 2
	if named {
		keys++
	}
	if len(entry) != keys || !strings.HasPrefix(put, "/") || !strings.Contains(body, "{n}") {
		return nil, errors.New(`it must have a path and a value for the PUT request, and may name a variable with a token, as in {put: /pool, value: "{n}", token: API_ADMIN_TOKEN}`)
	}
	if named && !variableForm.MatchString(token) {
		return nil, errors.New("its token must be the name of a variable of the service's environment that has the token, as in token: API_ADMIN_TOKEN")
	}
	return &Control{Put: put, Value: body, Token: token}, nil
}
