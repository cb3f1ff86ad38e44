package ui

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"go.uber.org/goleak"

	"loadstone/lab/analysis"
	"loadstone/lab/archive"
	"loadstone/lab/archive/archivetest"
	"loadstone/lab/host"
	"loadstone/lab/load"
	"loadstone/lab/result"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const experimentSource = `name: checkout
question: Is <b>it</b> fast?
system: compose.yaml
entry: api
variants:
  plain: {}
  cached: {}
load: {scenarios: {s: {executor: constant-arrival-rate, request: GET /}}}
slo: {http_req_duration: ["p(95)<200"]}
measure: capacity
trials: 1
`

// plant writes a whole run without a report and returns its name.
func plant(t *testing.T, runs, name string, started time.Time, level float64) string {
	t.Helper()
	noise := []float64{1, 1.02, 0.99, 1.01, 0.98, 1.03}
	p := archivetest.Run{Name: name, Seed: 1, Started: started, Environment: archive.Environment{Machine: host.Machine{CPU: "one", Cores: 2, LimitsEnforced: true}, Version: "test"}}
	for _, v := range []struct {
		name     string
		capacity float64
	}{{"plain", 400}, {"cached", 1000 * level}} {
		pv := archivetest.Variant{Name: v.name, Service: 4 * time.Millisecond, Components: []archivetest.Component{
			{Name: "api", Instances: 1, CPUs: 0.25, Demand: time.Duration(0.24e9 / v.capacity)},
		}}
		for i := range noise {
			pv.Capacities = append(pv.Capacities, v.capacity*noise[(i+len(v.name))%len(noise)])
		}
		p.Variants = append(p.Variants, pv)
	}
	dir, err := p.Write(runs)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Base(dir)
}

var began = time.Date(2026, 6, 1, 8, 0, 0, 0, time.UTC)

// begin makes a run of two trials that is under way: nothing has ended.
func begin(t *testing.T, runs string) (*archive.Dir, []archive.Planned) {
	t.Helper()
	trials := []archive.Planned{{Index: 1, Round: 1, Variant: "plain"}, {Index: 2, Round: 1, Variant: "cached"}}
	d, err := archive.Create(runs, archive.Manifest{Experiment: "checkout", Started: time.Now(), Trials: trials}, []byte(experimentSource))
	if err != nil {
		t.Fatal(err)
	}
	return d, trials
}

// site is a server for a test.
type site struct {
	t       *testing.T
	runs    string
	handler http.Handler
}

func newSite(t *testing.T, runs string) *site {
	t.Helper()
	h, err := newHandler(Config{Runs: runs, Listen: "127.0.0.1:7787"})
	if err != nil {
		t.Fatal(err)
	}
	return &site{t, runs, h}
}

func (s *site) get(target string) (int, string) {
	s.t.Helper()
	r := s.do(httptest.NewRequest(http.MethodGet, target, http.NoBody))
	return r.Code, r.Body.String()
}

func (s *site) do(r *http.Request) *httptest.ResponseRecorder {
	if r.Host == "example.com" { // httptest's own
		r.Host = "127.0.0.1:7787"
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	return w
}

// shows fails unless the page says all of this.
func (s *site) shows(target string, status int, wants ...string) string {
	s.t.Helper()
	code, body := s.get(target)
	if code != status {
		s.t.Errorf("%s: got status %d, want %d", target, code, status)
	}
	for _, want := range wants {
		if !strings.Contains(body, want) {
			s.t.Errorf("%s lacks %q:\n%.9000s", target, want, body)
		}
	}
	return body
}

func (s *site) lacks(target string, words ...string) {
	s.t.Helper()
	_, body := s.get(target)
	for _, word := range words {
		if strings.Contains(body, word) {
			s.t.Errorf("%s has %q", target, word)
		}
	}
}

// appendTo adds text to a file of a trial.
func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// windowLine is a line of windows.jsonl: so many requests in the second that
// began i seconds after the test's began, each of the given milliseconds.
func windowLine(t *testing.T, i int, warmup bool, requests uint64, ms int64) string {
	t.Helper()
	h := load.NewHistogram()
	if err := h.RecordValues(1000*ms, int64(requests)); err != nil {
		t.Fatal(err)
	}
	text, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		t.Fatal(err)
	}
	line, err := json.Marshal(load.Window{Start: began.Add(time.Duration(i) * time.Second), Warmup: warmup, Requests: requests, Seconds: 1, Response: string(text), Service: string(text)})
	if err != nil {
		t.Fatal(err)
	}
	return string(line) + "\n"
}

// sampleLine is a line of samples.jsonl: api has used a quarter of a core, in
// two instances.
func sampleLine(t *testing.T, i int) string {
	t.Helper()
	used := time.Duration(i) * time.Second / 8
	line, err := json.Marshal(host.Sample{At: began.Add(time.Duration(i) * time.Second), Instances: []host.Instance{{Name: "api-1", CPU: used}, {Name: "api-2", CPU: used}}})
	if err != nil {
		t.Fatal(err)
	}
	return string(line) + "\n"
}

func TestListAndRunPages(t *testing.T) {
	t.Parallel()
	runs := t.TempDir()
	first := plant(t, runs, "checkout", began, 1)
	second := plant(t, runs, "basket", began.Add(time.Hour), 1)
	s := newSite(t, runs)

	body := s.shows("/", http.StatusOK, first, second, "1 June 2026, 08:00 UTC", "2 in ", "not derived yet")
	if strings.Index(body, second) > strings.Index(body, first) {
		t.Error("the older run comes first")
	}
	s.shows("/?q=BASKET", http.StatusOK, second, "1 of 2 in")
	s.lacks("/?q=basket", first)
	s.shows("/?q=basket+checkout", http.StatusOK, "No run has")
	s.shows("/?page=99", http.StatusOK, first)
	s.shows("/?page=-1", http.StatusOK, first)

	// Without a report on disk the page is derived, and nothing is written.
	s.shows("/runs/"+first+"/", http.StatusOK, "<style>", "has the highest capacity")
	if _, err := os.Stat(filepath.Join(runs, first, "report.html")); err == nil {
		t.Error("a report was written")
	}

	// With a result on disk the list has its lines: the cache goes by file times.
	writeResult(t, filepath.Join(runs, first))
	s.shows("/?q=checkout", http.StatusOK, "402 req/s", "limited by api cpu")
	if err := os.WriteFile(filepath.Join(runs, first, "report.html"), []byte("<p>as it lies there</p>"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := s.do(httptest.NewRequest(http.MethodGet, "/runs/"+first+"/", http.NoBody))
	if w.Body.String() != "<p>as it lies there</p>" || !strings.Contains(w.Header().Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("got %q under %v", w.Body.String(), w.Header())
	}
	if err := os.WriteFile(filepath.Join(runs, first, "result.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.shows("/?q=checkout", http.StatusOK, "not derived yet")
	if err := os.RemoveAll(filepath.Join(runs, first)); err != nil {
		t.Fatal(err)
	}
	s.lacks("/", first)
	s.shows("/runs/"+first+"/", http.StatusNotFound, "nothing here")
}

func writeResult(t *testing.T, dir string) {
	t.Helper()
	r, err := archive.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	res, err := analysis.Derive(r)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := result.WriteJSON(&b, res); err != nil {
		t.Fatal(err)
	}
	if err := archive.WriteFile(filepath.Join(dir, "result.json"), b.Bytes()); err != nil {
		t.Fatal(err)
	}
}

func TestRunsThatAreNotWhole(t *testing.T) {
	t.Parallel()
	runs := t.TempDir()
	s := newSite(t, runs)
	s.shows("/", http.StatusOK, "There are no runs in")
	d, trials := begin(t, runs)
	name := filepath.Base(d.Path())
	s.shows("/", http.StatusOK, "under way", "0 of 2 trials ended", "Is &lt;b&gt;it&lt;/b&gt; fast?")
	s.shows("/runs/"+name+"/", http.StatusOK, "Trial 1 of 2 is under way: plain", "being started", `data-events="/events/`+name)
	if _, err := d.TrialDir(trials[0]); err != nil {
		t.Fatal(err)
	}

	// Silence makes it a stopped one, without anything that claims to be live.
	old := time.Now().Add(-time.Hour)
	err := filepath.Walk(d.Path(), func(path string, _ os.FileInfo, _ error) error { return os.Chtimes(path, old, old) })
	if err != nil {
		t.Fatal(err)
	}
	s.shows("/?q=stopped", http.StatusOK, name)
	s.shows("/runs/"+name+"/", http.StatusOK, "stopped after 0 of 2 trials", "cut off", "not run")
	s.lacks("/runs/"+name+"/", "data-events", "<script")

	// One that says why it ended is a stopped one at once, and its report is linked.
	now := time.Now()
	if err := d.WriteTrial(archive.Trial{Planned: trials[0], Started: now, Ended: now}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.TrialDir(trials[1]); err != nil {
		t.Fatal(err)
	}
	s.shows("/runs/"+name+"/", http.StatusOK, "Trial 2 of 2 is under way")
	if err := archive.Stop(d.Path(), "the run failed: no room\n    panic: <no> disk", now); err != nil {
		t.Fatal(err)
	}
	s.shows("/?q=stopped", http.StatusOK, name)
	s.shows("/runs/"+name+"/", http.StatusOK, "stopped after 1 of 2 trials: the run failed: no room. loadstone report "+name)
	s.shows("/runs/"+name+"/", http.StatusOK, "panic: &lt;no&gt; disk</pre>")
	s.lacks("/runs/"+name+"/", ">report</a>", "to come")
	if err := os.WriteFile(filepath.Join(d.Path(), "report.html"), []byte("<!DOCTYPE html>"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.shows("/runs/"+name+"/", http.StatusOK, "Its report is about those that ended.", `<a href="/runs/`+name+`/report.html">report</a>`)

	// Damage is said and is not served as something else.
	for file, text := range map[string]string{
		"run.json":      "{",
		"complete.json": "",
	} {
		if err := os.WriteFile(filepath.Join(d.Path(), file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.shows("/", http.StatusOK, "broken", "Read run.json")
	s.shows("/runs/"+name+"/", http.StatusOK, "cannot be read", "/files/"+name)
	hostile := `{"schema":"` + archive.Schema + `","trials":[{"index":1,"round":1,"variant":"../../../etc"}]}`
	if err := os.WriteFile(filepath.Join(d.Path(), "run.json"), []byte(hostile), 0o600); err != nil {
		t.Fatal(err)
	}
	s.shows("/runs/"+name+"/", http.StatusOK, "cannot be the name of a variant")
	if err := os.Mkdir(filepath.Join(runs, "notes"), 0o700); err != nil {
		t.Fatal(err)
	}
	s.lacks("/", "notes")
}

func TestRawFilesStayWithinTheRun(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	runs := filepath.Join(parent, "runs")
	name := plant(t, runs, "checkout", began, 1)
	dir := filepath.Join(runs, name)
	secret := "do not read this"
	for _, path := range []string{filepath.Join(parent, "secret.txt"), filepath.Join(runs, "secret.txt")} {
		if err := os.WriteFile(path, []byte(secret), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{
		filepath.Join(dir, "link.txt"): "../secret.txt", filepath.Join(dir, "up"): "..", filepath.Join(runs, "elsewhere"): parent,
		filepath.Join(dir, "inside.json"): "run.json",
	} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe.txt"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newSite(t, runs)
	for _, target := range []string{
		"/runs/" + name + "/../secret.txt", "/runs/" + name + "/%2e%2e/secret.txt", "/runs/" + name + "/..%2fsecret.txt", "/runs/" + name + "/%2e%2e%2fsecret.txt",
		"/runs/" + name + "//secret.txt", "/runs/" + name + "/link.txt", "/runs/" + name + "/up/secret.txt", "/runs/" + name + "/pipe.txt", "/runs/" + name + "/trials",
		"/runs/elsewhere/secret.txt", "/runs/%2e%2e/secret.txt", "/runs/./secret.txt", "/runs/..%2fruns/secret.txt", "/runs/%2e/secret.txt", "/runs/secret.txt",
		"/runs/" + name + "/inside.json", "/runs/" + name + "/run.json%00", "/files/..", "/files/%2e%2e", "/files/elsewhere", "/events/%2e%2e", "/events/elsewhere", "/runs/" + name + `/..\secret.txt`,
	} {
		code, body := s.get(target)
		if code == http.StatusOK || strings.Contains(body, secret) {
			t.Errorf("%s: got status %d and %.80q", target, code, body)
		}
	}
	s.shows("/runs/"+name+"/run.json", http.StatusOK, `"experiment": "checkout"`)
	s.shows("/runs/"+name+"/trials/001-plain/samples.jsonl", http.StatusOK, `"api-1"`)
	s.shows("/files/"+name, http.StatusOK, "trials/001-plain/trial.json", "/runs/"+name+"/run.json")
	s.lacks("/files/"+name, "link.txt", "pipe.txt")
	if err := os.WriteFile(filepath.Join(dir, "trials", "x.html"), []byte("<script>"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := s.do(httptest.NewRequest(http.MethodGet, "/runs/"+name+"/trials/x.html", http.NoBody))
	if got := w.Header().Get("Content-Type"); got != "application/octet-stream" {
		t.Errorf("a stray page is served as %s", got)
	}
}

func TestOnlyThoseWhoMayAsk(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	for host, want := range map[string]int{
		"127.0.0.1:7787": 200, "localhost:7787": 200, "LOCALHOST": 200, "[::1]:7787": 200, "10.0.0.7:7787": 200,
		"evil.example": 421, "evil.example:7787": 421, "127.0.0.1.evil.example": 421, "localhost.evil.example": 421, "": 421,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		r.Host = host
		if got := s.do(r).Code; got != want {
			t.Errorf("under %q: got status %d, want %d", host, got, want)
		}
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch, http.MethodOptions} {
		for _, target := range []string{"/", "/compare", "/runs/x/", "/runs/x/run.json", "/files/x", "/events/x", "/style.css"} {
			if got := s.do(httptest.NewRequest(method, target, http.NoBody)).Code; got != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: got status %d, want 405", method, target, got)
			}
		}
	}
	for _, target := range []string{"/", "/nowhere", "/compare", "/ui.js", "/style.css"} {
		h := s.do(httptest.NewRequest(http.MethodGet, target, http.NoBody)).Header()
		policy := h.Get("Content-Security-Policy")
		if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cross-Origin-Resource-Policy") != "same-origin" {
			t.Errorf("%s: got the headers %v", target, h)
		}
	}
	named, err := newHandler(Config{Runs: t.TempDir(), Listen: "lab.example:80"})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	r.Host = "Lab.Example"
	w := httptest.NewRecorder()
	if named.ServeHTTP(w, r); w.Code != http.StatusOK {
		t.Errorf("under the name that was given: got status %d", w.Code)
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, c := range []struct {
		listen        string
		valid, public bool
	}{
		{"127.0.0.1:7787", true, false}, {"[::1]:0", true, false}, {"localhost:1", true, false}, {"127.9.9.9:1", true, false},
		{"0.0.0.0:1", true, true}, {":7787", true, true}, {"lab.example:1", true, true}, {"7787", false, false}, {"127.0.0.1:", false, false},
	} {
		config := Config{Runs: dir, Listen: c.listen}
		if got := config.Validate() == nil; got != c.valid {
			t.Errorf("%s: got valid %v, want %v", c.listen, got, c.valid)
		}
		if got := config.Public(); c.valid && got != c.public {
			t.Errorf("%s: got public %v, want %v", c.listen, got, c.public)
		}
	}
	if err := (Config{Runs: dir + "/none", Listen: "127.0.0.1:0"}).Validate(); err == nil {
		t.Error("a directory that is not there was accepted")
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	runs := t.TempDir()
	a, b := plant(t, runs, "checkout", began, 1), plant(t, runs, "checkout", began.Add(time.Hour), 0.75)
	d, _ := begin(t, runs)
	s := newSite(t, runs)
	s.shows("/compare?run="+a+"&run="+b, http.StatusOK, "worse.", `class="worse"`, "relative to the first variant</a>", "A, 1 June 2026, 08:00 UTC")
	// The list hands over in its own order: the older one is A all the same.
	s.shows("/compare?run="+b+"&run="+a, http.StatusOK, "A, 1 June 2026, 08:00 UTC")
	s.shows("/compare?run="+b+"&run="+a+"&order=given", http.StatusOK, "A, 1 June 2026, 09:00 UTC", `class="better"`)
	s.shows("/compare?run="+a+"&run="+b+"&relative=1", http.StatusOK, "relative to plain", "as measured")
	s.shows("/compare?run="+a, http.StatusOK, "Variants of checkout", "plain → cached")
	s.shows("/compare", http.StatusBadRequest, "Tick two runs")
	s.shows("/compare?run="+a+"&run="+b+"&run="+a, http.StatusBadRequest, "Tick two runs")
	s.shows("/compare?run="+a+"&run=", http.StatusBadRequest, "Tick two runs")
	s.shows("/compare?run="+a+"&run=none", http.StatusNotFound, "nothing here")
	s.shows("/compare?run="+a+"&run="+a, http.StatusOK, "the same run")
	s.shows("/compare?run="+a+"&run="+filepath.Base(d.Path()), http.StatusOK, "only whole runs are compared")
}

// A list of many runs reads each of them once.
func TestIndexReadsWhatHasChanged(t *testing.T) {
	t.Parallel()
	runs := t.TempDir()
	for i := range 130 {
		d, err := archive.Create(runs, archive.Manifest{Experiment: "e", Started: began.Add(time.Duration(i) * time.Minute)}, []byte("name: e\n"))
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Complete(began); err != nil {
			t.Fatal(err)
		}
	}
	x := newIndex(runs)
	first, _, err := x.all()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(runs, first[7].Name, "complete.json"), []byte("{ }"), 0o600); err != nil {
		t.Fatal(err)
	}
	second, _, err := x.all()
	if err != nil {
		t.Fatal(err)
	}
	for i := range second {
		if same := first[i] == second[i]; same != (i != 7) {
			t.Errorf("run %d: read again %v", i, !same)
		}
	}
	s := newSite(t, runs)
	s.shows("/", http.StatusOK, "page 1 of 3", "older runs")
	s.shows("/?page=3", http.StatusOK, "page 3 of 3", "newer runs")
	s.lacks("/?page=3", "older runs")
}

func TestServerStops(t *testing.T) {
	t.Parallel()
	runs := t.TempDir()
	d, _ := begin(t, runs)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	srv, err := Listen(ctx, Config{Runs: runs, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- srv.Run(ctx) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}
	resp, err := client.Get(srv.URL() + "events/" + filepath.Base(d.Path()))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadFull(resp.Body, make([]byte, 12)); err != nil {
		t.Fatal(err)
	}
	stop() // with a live page open
	if err := <-done; err != nil {
		t.Errorf("got %v", err)
	}
	if _, err := Listen(t.Context(), Config{Runs: runs, Listen: "127.0.0.1:99999"}); err == nil {
		t.Error("listened on a port that there is not")
	}
}
