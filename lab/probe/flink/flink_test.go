package flink

import (
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"loadstone/lab/topology"
)

// manager answers as a job manager does: a job that ended, and one that reads, and judges with two subtasks of
// which one has all.
func manager(t *testing.T, parallelism int) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	tells := func(path, text string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) })
	}
	// As Flink 2.3.0 answers. Its list of /jobs/ has id and status, and that of /jobs/overview has jid and state.
	tells("/jobs/{$}", `{"jobs":[{"id":"old","status":"FAILED"},{"id":"j","status":"RUNNING"}]}`)
	tells("/jobs/overview", `{"jobs":[{"jid":"old","name":"chat analysis","jobType":"STREAMING","state":"FAILED","tasks":{"running":0,"total":3}},
		{"jid":"j","name":"chat analysis","jobType":"STREAMING","schedulerType":"Default","start-time":1795716399823,"end-time":-1,"duration":75640,"state":"RUNNING","tasks":{"running":3,"total":3},"pending-operators":0}]}`)
	tells("/jobs/j", fmt.Sprintf(`{"jid":"j","name":"chat analysis","state":"RUNNING","vertices":[{"id":"v1","name":"Source: raw-chats -> read","parallelism":1},{"id":"v2","name":"judge -> analysis-result: Writer","parallelism":%d}],
		"plan":{"nodes":[{"id":"v2","inputs":[{"num":0,"id":"v1"}]},{"id":"v1"}]}}`, parallelism))
	values := map[string]string{
		"0.busyTimeMsPerSecond": "991.0", "0.backPressuredTimeMsPerSecond": "3", "0.numRecordsIn": "40", "0.numRecordsOut": "400", "0.Source__raw-chats.pendingRecords": "77",
		"1.busyTimeMsPerSecond": "NaN", "1.backPressuredTimeMsPerSecond": "0", "1.numRecordsIn": "0",
	}
	for subtask := 2; subtask < parallelism; subtask++ {
		values[fmt.Sprintf("%d.busyTimeMsPerSecond", subtask)] = fmt.Sprint(subtask)
	}
	for _, v := range []string{"v1", "v2"} {
		mux.HandleFunc("/jobs/j/vertices/"+v+"/metrics", func(w http.ResponseWriter, r *http.Request) {
			if len("GET "+r.RequestURI+" HTTP/1.1") > 4096 {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			var told []string
			for id := range strings.SplitSeq(r.URL.Query().Get("get"), ",") {
				if value, ok := values[id]; ok {
					told = append(told, fmt.Sprintf(`{"id":%q,"value":%q}`, id, value))
				}
			}
			fmt.Fprint(w, "["+strings.Join(told, ",")+"]")
		})
	}
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func at(address string) func() string { return func() string { return address } }

func TestSubtasksAreTold(t *testing.T) {
	t.Parallel()
	r := Open("taskmanager", at(strings.TrimPrefix(manager(t, 2).URL, "http://")))
	defer r.Close()
	got, err := r.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{
		`flink_busy_ms_per_second{stage="raw-chats",subtask="0"}`: 991, `flink_backpressured_ms_per_second{stage="raw-chats",subtask="0"}`: 3,
		`flink_records_total{stage="raw-chats",subtask="0"}`: 400, `flink_pending_records{stage="raw-chats",subtask="0"}`: 77,
		`flink_busy_ms_per_second{stage="judge",subtask="0"}`: 991, `flink_backpressured_ms_per_second{stage="judge",subtask="0"}`: 3, `flink_records_total{stage="judge",subtask="0"}`: 40,
		`flink_busy_ms_per_second{stage="judge",subtask="1"}`:          math.NaN(), // not known
		`flink_backpressured_ms_per_second{stage="judge",subtask="1"}`: 0, `flink_records_total{stage="judge",subtask="1"}`: 0,
	}
	same := func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }
	if !maps.EqualFunc(got, want, same) {
		t.Errorf("got %v, want %v", got, want)
	}
	stages := r.Resources()
	if len(stages) != 2 || stages[0] != (topology.Resource{
		Name: "judge", Kind: topology.Stage, After: "taskmanager.raw-chats", Done: `flink_records_total{stage="judge"}`,
		BusyMS: `flink_busy_ms_per_second{stage="judge"}`, BackpressuredMS: `flink_backpressured_ms_per_second{stage="judge"}`,
		Lag: `flink_pending_records{stage="raw-chats"}`,
	}) || stages[1].Lag != `flink_pending_records{stage="raw-chats"}` || stages[1].After != "" {
		t.Errorf("the stages are %+v", stages)
	}
}

// What is asked at once has a bound.
func TestManySubtasksAreTold(t *testing.T) {
	t.Parallel()
	const many = 200
	r := Open("taskmanager", at(strings.TrimPrefix(manager(t, many).URL, "http://")))
	defer r.Close()
	got, err := r.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for subtask := 2; subtask < many; subtask++ {
		if v := got[fmt.Sprintf(`flink_busy_ms_per_second{stage="judge",subtask="%d"}`, subtask)]; v != float64(subtask) {
			t.Errorf("subtask %d: got %g", subtask, v)
		}
	}
}

func TestWhoDoesNotTellIsAnError(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{
		"it has no job":     func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"jobs":[]}`) },
		"it is not a Flink": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") },
		"it is not ready":   func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		"the job went wrong": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"jobs":[{"jid":"j","state":"FAILING"}]}`)
		},
		"the job has no id": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"jobs":[{"id":"j","state":"RUNNING"}]}`) },
	} {
		s := httptest.NewServer(answer)
		t.Cleanup(s.Close)
		r := Open("taskmanager", at(strings.TrimPrefix(s.URL, "http://")))
		if got, err := r.Read(t.Context()); err == nil {
			t.Errorf("%s: got %v and no error", name, got)
		}
		r.Close()
	}
}

// Names of metrics as Flink 2.3 makes them of names of operators.
func TestNamesOfMetrics(t *testing.T) {
	t.Parallel()
	for operator, want := range map[string]string{
		"Source: raw-chats": "Source__raw-chats", "Source: orders.in/all": "Source__orders_in/all", "a, b": "a__b", "주문 (all)": "주문_(all)",
		strings.Repeat("ü", 90): strings.Repeat("ü", 80),
	} {
		if got := metricName(operator); got != want {
			t.Errorf("%s: got %s, want %s", operator, got, want)
		}
	}
}
