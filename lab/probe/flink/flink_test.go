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
func manager(t *testing.T) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	tells := func(path, text string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) })
	}
	tells("/jobs/overview", `{"jobs":[{"id":"old","state":"FAILED"},{"id":"j","state":"RUNNING"}]}`)
	tells("/jobs/j", `{"vertices":[{"id":"v1","name":"Source: raw-chats -> read","parallelism":1},{"id":"v2","name":"judge -> analysis-result: Writer","parallelism":2}],
		"plan":{"nodes":[{"id":"v2","inputs":[{"num":0,"id":"v1"}]},{"id":"v1"}]}}`)
	values := map[string]string{
		"0.busyTimeMsPerSecond": "991.0", "0.backPressuredTimeMsPerSecond": "3", "0.numRecordsIn": "40", "0.numRecordsOut": "400", "0.Source__raw-chats.pendingRecords": "77",
		"1.busyTimeMsPerSecond": "NaN", "1.backPressuredTimeMsPerSecond": "0", "1.numRecordsIn": "0",
	}
	for _, v := range []string{"v1", "v2"} {
		mux.HandleFunc("/jobs/j/vertices/"+v+"/metrics", func(w http.ResponseWriter, r *http.Request) {
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

func TestSubtasksAreTold(t *testing.T) {
	t.Parallel()
	r := Open("taskmanager", strings.TrimPrefix(manager(t).URL, "http://"))
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

func TestWhoDoesNotTellIsAnError(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{
		"it has no job":      func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"jobs":[]}`) },
		"it is not a Flink":  func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") },
		"it is not ready":    func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		"the job went wrong": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"jobs":[{"id":"j","state":"FAILING"}]}`) },
	} {
		s := httptest.NewServer(answer)
		t.Cleanup(s.Close)
		r := Open("taskmanager", strings.TrimPrefix(s.URL, "http://"))
		if got, err := r.Read(t.Context()); err == nil {
			t.Errorf("%s: got %v and no error", name, got)
		}
		r.Close()
	}
}
