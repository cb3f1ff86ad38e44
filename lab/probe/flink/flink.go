// Package flink asks a Flink cluster's job manager, in its REST API, how its jobs' tasks are: for each subtask, how
// much of the time it worked and could not hand on, how many records it took, and, of a source, how many are
// still to be read.
//
// A task, a chain of operators that run together, becomes a stage with the name of the first of them. It is
// as slow as its hottest subtask, because the others cannot take over the keys of that one.
//
// What waits is pendingRecords, counted from where the source reads, and is told of each task behind the source: whichever
// of them is slow, that is where its work waits. It does not have what is in the buffers between tasks, which have bounds. records-lag-max of Kafka's own client is not used: it stands still while the source is
// back-pressured.
//
// The job manager asks the task managers for their metrics when it was asked itself, each ten seconds at most unless
// metrics.fetcher.update-interval says otherwise, and its first answers lack some: with an interval of 1 s all was told after
// 4.4 s, on two busy cores. The names are those of Flink 2.3.
package flink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"loadstone/lab/topology"
)

// DefaultPort is where a job manager answers unless it is told otherwise.
const DefaultPort = 8081

// The series that Read tells, with the labels stage and subtask.
const (
	busySeries    = "flink_busy_ms_per_second"          // gauge
	heldSeries    = "flink_backpressured_ms_per_second" // gauge
	recordsSeries = "flink_records_total"               // counter: taken, or of a source, handed on
	pendingSeries = "flink_pending_records"             // gauge: to be read by a source
)

const (
	// maxAnswer bounds an answer, in bytes.
	maxAnswer = 4 << 20
	// mostPath bounds what is asked at once, in bytes: Flink finds nothing, status 404, for a question whose first
	// line has more than 4096. Those about some 30 subtasks fit.
	mostPath = 3500
	// mostStages bounds the stages that are told of. More are in no experiment that anybody reads.
	mostStages = 64
)

// Reader reads one cluster. It is for one goroutine at a time, but for Resources.
type Reader struct {
	manager func() string
	service string
	client  http.Client

	mu     sync.Mutex // protects what follows
	stages map[string]stage
}

// stage is a task as it was seen last.
type stage struct {
	after   string // name of the one before; empty for a source
	pending bool   // it tells of records to be read
}

// Open makes a reader of the cluster whose job manager is at an address, HOST:PORT or empty while it is nowhere, which is asked
// for each time: one that is started again may have another. Its stages are those of a service. It connects when it is first asked.
func Open(service string, manager func() string) *Reader {
	return &Reader{manager: manager, service: service, stages: make(map[string]stage)}
}

// Close ends its connections.
func (r *Reader) Close() { r.client.CloseIdleConnections() }

// job is what is read of GET /jobs/ID.
type job struct {
	Vertices []vertex `json:"vertices"`
	Plan     struct {
		Nodes []struct {
			ID     string `json:"id"`
			Inputs []struct {
				ID string `json:"id"`
			} `json:"inputs"`
		} `json:"nodes"`
	} `json:"plan"`
}

type vertex struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Parallelism int    `json:"parallelism"`
}

// Read tells of each task of the jobs that run. A cluster without one is an error: there is nothing to tell.
func (r *Reader) Read(ctx context.Context) (map[string]float64, error) {
	var all struct {
		Jobs []struct {
			ID    string `json:"jid"`
			State string `json:"state"`
		} `json:"jobs"`
	}
	if err := r.get(ctx, "/jobs/overview", &all); err != nil {
		return nil, err
	}
	out := make(map[string]float64)
	for _, j := range all.Jobs {
		if j.State != "RUNNING" {
			continue
		}
		if j.ID == "" {
			return nil, errNoID // /jobs/ without one answers, too: with the list of all
		}
		if err := r.job(ctx, j.ID, out); err != nil {
			return nil, err
		}
	}
	if len(out) == 0 {
		return nil, errNoJob
	}
	return out, nil
}

var errNoID = errors.New("ask Flink: a job in its answer to /jobs/overview has no jid")

var errNoJob = errors.New("no job runs in it, or none has told of its tasks yet")

// job reads the tasks of one job.
func (r *Reader) job(ctx context.Context, id string, out map[string]float64) error {
	var j job
	if err := r.get(ctx, "/jobs/"+id, &j); err != nil {
		return err
	}
	before := make(map[string]string) // task by task, by id
	for _, n := range j.Plan.Nodes {
		if len(n.Inputs) > 0 {
			before[n.ID] = n.Inputs[0].ID
		}
	}
	names := make(map[string]string)
	for _, v := range j.Vertices {
		names[v.ID] = v.stage()
	}
	for _, v := range j.Vertices {
		if err := r.task(ctx, id, v, names[before[v.ID]], out); err != nil {
			return err
		}
	}
	return nil
}

// stage is the name of the first operator of a task: "Source: raw-chats -> read" is raw-chats.
func (v vertex) stage() string {
	first, _, _ := strings.Cut(v.Name, " -> ")
	return strings.TrimPrefix(first, "Source: ")
}

// task reads one task: all its subtasks at once.
func (r *Reader) task(ctx context.Context, id string, v vertex, after string, out map[string]float64) error {
	name := v.stage()
	if !r.admit(name) {
		return nil
	}
	taken := "numRecordsIn"
	wanted := []string{"busyTimeMsPerSecond", "backPressuredTimeMsPerSecond", taken}
	if after == "" {
		taken = "numRecordsOut"
		// What an operator tells has the operator's name, with what no name of a metric may have replaced.
		first, _, _ := strings.Cut(v.Name, " -> ")
		wanted = []string{"busyTimeMsPerSecond", "backPressuredTimeMsPerSecond", taken, metricName(first) + ".pendingRecords"}
	}
	var ask []string
	for subtask := range v.Parallelism {
		for _, metric := range wanted {
			ask = append(ask, strconv.Itoa(subtask)+"."+metric)
		}
	}
	told, err := r.metrics(ctx, "/jobs/"+id+"/vertices/"+v.ID+"/metrics?get=", ask)
	if err != nil {
		return err
	}
	s := stage{after: after}
	for _, t := range told {
		subtask, metric, _ := strings.Cut(t.ID, ".")
		value, err := strconv.ParseFloat(t.Value, 64)
		if err != nil || math.IsInf(value, 0) {
			value = math.NaN() // it is not known
		}
		series := ""
		switch {
		case metric == "busyTimeMsPerSecond":
			series = busySeries
		case metric == "backPressuredTimeMsPerSecond":
			series = heldSeries
		case metric == taken:
			series = recordsSeries
		case strings.HasSuffix(metric, ".pendingRecords"):
			series = pendingSeries
			s.pending = s.pending || !math.IsNaN(value)
		default:
			continue
		}
		out[fmt.Sprintf("%s{stage=%q,subtask=%q}", series, name, subtask)] = value
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s.pending = s.pending || r.stages[name].pending
	r.stages[name] = s
	return nil
}

// figure is what is told of one metric.
type figure struct {
	ID    string `json:"id"`
	Value string `json:"value"`
}

// metrics asks for metrics by their names, as often as it takes.
func (r *Reader) metrics(ctx context.Context, path string, names []string) (told []figure, err error) {
	for len(names) > 0 {
		question, n := path, 0
		for ; n < len(names); n++ {
			next := url.QueryEscape(names[n])
			if n > 0 && len(question)+len(next) >= mostPath {
				break
			}
			if n > 0 {
				next = "," + next
			}
			question += next
		}
		var some []figure
		if err := r.get(ctx, question, &some); err != nil {
			return nil, err
		}
		told, names = append(told, some...), names[n:]
	}
	return told, nil
}

// metricName is an operator's name as it is in names of metrics: its first 80 characters, with _ for what
// separates the parts of such a name and the names in a question.
func metricName(operator string) string {
	const longest = 80
	if all := []rune(operator); len(all) > longest {
		operator = string(all[:longest])
	}
	return strings.Map(func(c rune) rune {
		if strings.ContainsRune(" .:,", c) {
			return '_'
		}
		return c
	}, operator)
}

// admit says whether a stage has a place.
func (r *Reader) admit(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, known := r.stages[name]
	return known || len(r.stages) < mostStages
}

// get reads one answer.
func (r *Reader) get(ctx context.Context, path string, to any) error {
	at := r.manager()
	if at == "" {
		return errors.New("ask Flink: its job manager has no address")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+at+path, http.NoBody)
	if err != nil {
		return err
	}
	response, err := r.client.Do(request)
	if err != nil {
		return fmt.Errorf("ask Flink: %w", err)
	}
	defer func() { _ = response.Body.Close() }() // it was read
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	switch {
	case err != nil:
		return fmt.Errorf("ask Flink: %w", err)
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("ask Flink: it answered with status %d to %s", response.StatusCode, path)
	}
	if err := json.Unmarshal(body, to); err != nil {
		return fmt.Errorf("ask Flink: its answer to %s: %w", path, err)
	}
	return nil
}

// source is the first stage before one, or the one itself.
func (r *Reader) source(name string) string {
	for range r.stages { // no circle is walked for ever
		if before := r.stages[name].after; before != "" {
			name = before
		}
	}
	return name
}

// Resources are the stages that were read so far, by name.
func (r *Reader) Resources() []topology.Resource {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []topology.Resource
	for _, name := range slices.Sorted(maps.Keys(r.stages)) {
		of := func(series string) string { return fmt.Sprintf("%s{stage=%q}", series, name) }
		s := r.stages[name]
		resource := topology.Resource{
			Name: name, Kind: topology.Stage, Done: of(recordsSeries), BusyMS: of(busySeries), BackpressuredMS: of(heldSeries),
		}
		if s.after != "" {
			resource.After = r.service + "." + s.after
		}
		if source := r.source(name); r.stages[source].pending {
			resource.Lag = fmt.Sprintf("%s{stage=%q}", pendingSeries, source)
		}
		out = append(out, resource)
	}
	return slices.Clip(out)
}
