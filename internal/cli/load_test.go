package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// shop serves a token, what only its bearer gets, and a slow page.
func shop(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /login", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"token": "t1"}`) })
	mux.HandleFunc("GET /cart", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer t1" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	mux.HandleFunc("GET /slow", func(http.ResponseWriter, *http.Request) { time.Sleep(30 * time.Millisecond) })
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

// loadResult is what the tests read of --json.
type loadResult struct {
	Requests, Dropped, Late, Iterations uint64
	Rate                                float64
	Latency                             struct{ Response, Service struct{ P50, P99 float64 } }
	Errors                              map[string]struct{ Count uint64 }
	Validity                            string
	Reasons                             []string `json:"validity_reasons"`
	Generator                           struct {
		CPU  float64 `json:"cpu_seconds"`
		Busy float64
	}
	Checks []struct {
		Name          string
		Passes, Fails uint64
	}
	Steps []struct {
		Name     string
		Requests uint64
	}
	Aborted string
	Seconds float64
}

func readResult(t *testing.T, text string) loadResult {
	t.Helper()
	var r loadResult
	if err := json.Unmarshal([]byte(text), &r); err != nil { //nolint:musttag // names match without
		t.Fatalf("%v in:\n%s", err, text)
	}
	return r
}

func TestLoadWritesAllItsOutputs(t *testing.T) {
	dir := t.TempDir()
	var pushed atomic.Int64
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Content-Encoding") == "snappy" {
			pushed.Add(1)
		}
	}))
	t.Cleanup(receiver.Close)
	got := loadstone(t, dir, "load", shop(t)+"/", "--rate", "100/s", "--duration", "8s", "--seed", "7", "--check", "body=hello",
		"--json", "r.json", "--html", "r.html", "--hdr", "r.hdr", "--remote-write", receiver.URL+"/api/v1/write", "--label", "team=a", "--junit", "r.xml",
		"--threshold", "http_req_duration: p(95)<5000", "--threshold", "http_req_failed: rate<0.01 over 1s")
	if got.code != exitOK {
		t.Fatalf("exit status %d: %s", got.code, got.stderr)
	}
	for _, want := range []string{"Running 8s test", "Requests/sec:", "✓ http_req_duration", "✓ http_req_failed", "p99.9", "response", "service", "seed", "✓ body=hello"} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("the summary has no %q:\n%s", want, got.stdout)
		}
	}
	if lines := strings.Count(got.stderr, "req/s="); lines < 2 || strings.Contains(got.stderr, "\x1b") {
		t.Errorf("want a plain line a second in a pipe:\n%s", got.stderr)
	}
	files := map[string]string{"r.json": `"schema": "loadstone.load/1"`, "r.html": "<svg", "r.hdr": "Tag=service,", "r.xml": `<testcase classname="`}
	for name, want := range files {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !strings.Contains(string(data), want) {
			t.Errorf("%s: %v, want %q in it", name, err, want)
		}
	}
	data, _ := os.ReadFile(filepath.Join(dir, "r.json"))
	r := readResult(t, string(data))
	if r.Requests < 600 || r.Requests > 1000 || r.Validity != "valid" && len(r.Reasons) == 0 || r.Generator.CPU <= 0 || r.Latency.Response.P99 <= 0 || r.Checks[0].Passes != r.Requests {
		t.Errorf("got %+v; want about 800 requests, valid unless this machine is too busy, which is said, with all figures", r)
	}
	if pushed.Load() == 0 {
		t.Error("nothing was written to the remote")
	}
}

func TestLoadReproducesItsSchedule(t *testing.T) {
	url := shop(t) + "/"
	var last uint64
	for range 2 {
		r := readResult(t, loadstone(t, t.TempDir(), "load", url, "--rate", "200/s", "--duration", "1s", "--seed", "3", "--json", "-", "-q").stdout)
		if last > 0 && r.Requests != last {
			t.Errorf("%d requests, and %d with the same seed", last, r.Requests)
		}
		last = r.Requests
	}
}

func TestLoadExitStatus(t *testing.T) {
	url, dir := shop(t), t.TempDir()
	for name, text := range map[string]string{"users.csv": "id,name\n1,Ann\n", "ids.csv": "id\n7\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{url + "/slow", "--vus", "2", "--iterations", "20", "--threshold", "http_req_duration: p(95)<10"}, exitCrossed, "✗ http_req_duration"},
		{[]string{url + "/slow", "--vus", "2", "--duration", "60s", "--threshold", "http_req_duration: p(95)<10 over 1s", "--abort-on-fail"}, exitCrossed, "ended early"},
		{[]string{url + "/", "--stages", "500ms:50/s,500ms:100/s"}, exitOK, "Requests/sec"},
		{[]string{url + "/", "--stages", "2s:3,4s:1"}, exitOK, "Requests/sec"},
		{[]string{url + "/", "--iterations", "30", "--vus", "3"}, exitOK, "30 requests"},
		{[]string{url + "/", "--iterations-per-vu", "5", "--vus", "3"}, exitOK, "15 requests"},
		{[]string{url + "/", "--vus", "8", "--connections", "2", "--iterations", "50"}, exitOK, "50 requests"},
		{[]string{url + "/slow", "--rate", "300/s", "--max-vus", "1", "--timeout", "2s", "--duration", "5s"}, exitOK, "because none came free in time"},
		{[]string{url + "/", "--rate", "50/s", "--vus", "2"}, exitUsage, "--rate and --vus"},
		{[]string{url + "/", "--stages", "10s:5/s,10s:5"}, exitUsage, "mixes"},
		{[]string{url + "/{id}", "--feed", "id=zipf:1..9"}, exitUsage, "zipf:1..1000:0.99"},
		{[]string{url + "/{id}", "--feed", "id=csv:nothing.csv:id", "--rate", "5/s"}, exitUsage, "nothing.csv"},
		{[]string{url + "/", "--threshold", "p(95)<10"}, exitUsage, "METRIC: EXPRESSION"},
		{[]string{url + "/", "--threshold", "ws_sessions: count>1"}, exitUsage, "ws_sessions"},
		{[]string{url + "/", "--abort-on-fail"}, exitUsage, "--threshold"},
		{[]string{url + "/", "--check", "status=ok"}, exitUsage, "no status"},
		{[]string{url + "/", "--json", "x", "--html", "x"}, exitUsage, "two things"},
		{[]string{url + "/", "--json", "no/such/dir/x"}, exitUsage, "no/such/dir"},
		{[]string{url + "/", "--protocol", "h3"}, exitUsage, "h3"},
		{[]string{url + "/", "--remote-write", "nowhere"}, exitUsage, "--remote-write"},
		{[]string{url, "--replay", "nothing.log"}, exitUsage, "nothing.log"},
		{[]string{url + "/", "--speed", "2"}, exitUsage, "--replay"},
		{[]string{url, "--replay", "x", "--feed", "id=uniform:1..2"}, exitUsage, "does nothing"},
		{[]string{url + "/", "--threads", "0"}, exitUsage, "--threads"},
		{[]string{"ws://127.0.0.1:1/"}, exitUsage, "file"},
		{[]string{"http://u:p@127.0.0.1:1/"}, exitUsage, "Authorization"},
		{[]string{url + "/login", "-d", "x", "--iterations", "2", "--check", "token=t1"}, exitOK, "✓ token=t1"},
		{[]string{url + "/", "--target", url}, exitUsage, "--target"},
		{[]string{"nothing.yaml"}, exitUsage, "no file"},
		{[]string{url + "/", "-d", "30s"}, exitUsage, "write --duration 30s"},
		{[]string{url + "/", "-c", "100"}, exitUsage, "there is no flag -c; write --vus N"},
		{[]string{url + "/", "-c100"}, exitUsage, "there is no flag -c; write --vus N"},
		{[]string{url + "/", "-t", "2"}, exitUsage, "write --threads N"},
		{[]string{url + "/", "--users", "5"}, exitUsage, "there is no flag --users; write --vus N"},
		{[]string{url + "/", "--durations", "5s"}, exitUsage, "there is no flag --durations; write --duration"},
		{[]string{url + "/", "--duration", "5"}, exitUsage, "--duration 5 has no unit; write --duration 5s"},
		{[]string{url + "/", "--duration", "soon"}, exitUsage, `--duration "soon" is no time; write a number and its unit`},
		{[]string{url + "/{user.nosuch}", "--feed", "user=csv:users.csv"}, exitUsage, `users.csv has no column "nosuch" for {user.nosuch}, only "id", "name": write {user.id}`},
		{[]string{url + "/{user}", "--feed", "user=csv:users.csv"}, exitUsage, `users.csv has the columns "id", "name", and {user} names none of them: write {user.id}`},
		{[]string{url + "/{user}", "--feed", "user=csv:none.csv"}, exitUsage, "there is no file none.csv: write the path of one"},
		{[]string{url + "/login?{id}", "-F", "id={id}", "--feed", "id=csv:ids.csv", "--iterations", "2", "--check", "token=t1"}, exitOK, "✓ token=t1"},
		{[]string{url + "/login", "-F", "ids=@ids.csv", "-F", "x=y", "--iterations", "2", "--check", "token=t1"}, exitOK, "✓ token=t1"},
		{[]string{url + "/login", "-F", "ids=@none.csv", "--iterations", "2"}, exitUsage, "none.csv"},
		{[]string{url + "/login", "-F", "ids"}, exitUsage, "write NAME=VALUE"},
		{[]string{url + "/login", "-F", "a=1", "-d", "x"}, exitUsage, "write one of them"},
	} {
		got := loadstone(t, dir, append([]string{"load"}, c.args...)...)
		if got.code != c.code || !strings.Contains(got.stdout+got.stderr, c.want) {
			t.Errorf("loadstone load %s: exit status %d, want %d with %q:\n%s%s", strings.Join(c.args, " "), got.code, c.code, c.want, got.stdout, got.stderr)
		}
	}
}

func TestLoadOfAFile(t *testing.T) {
	url, dir := shop(t), t.TempDir()
	file := filepath.Join(dir, "checkout.yaml")
	if err := os.WriteFile(file, []byte(`
load:
  scenarios:
    checkout:
      executor: shared-iterations
      vus: 2
      iterations: 10
      steps:
        - name: login
          request: POST /login
          extract: {token: token}
        - name: cart
          request: {method: GET, path: /cart, headers: {Authorization: "Bearer {token}"}}
          checks: {in: {status: 200}}
slo:
  "http_req_duration{step:cart}": [p(95)<5000]
  checks: [rate==1]
`), 0o600); err != nil {
		t.Fatal(err)
	}
	got := loadstone(t, dir, "load", file, "--target", url, "--json", "-")
	if got.code != exitOK {
		t.Fatalf("exit status %d: %s", got.code, got.stderr)
	}
	r := readResult(t, got.stdout)
	if r.Iterations != 10 || r.Requests != 20 || len(r.Steps) != 2 || r.Steps[1].Name != "cart" || r.Checks[0].Passes != 10 {
		t.Errorf("got %+v; want 10 iterations of two steps, and the check held", r)
	}
	for _, c := range []struct{ args, want string }{
		{file, "--target"},
		{file + " --rate 5/s", "--rate"},
	} {
		if got := loadstone(t, dir, append([]string{"load"}, strings.Fields(c.args)...)...); got.code != exitUsage || !strings.Contains(got.stderr, c.want) {
			t.Errorf("load %s: exit status %d, %s; want 2 and %q", c.args, got.code, got.stderr, c.want)
		}
	}
	if err := os.WriteFile(file, []byte("load:\n  scenarios:\n    a: {executor: per-vu-iterations, vus: 1, iterations: 1, request: 'GET /{nobody}'}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := loadstone(t, dir, "load", file, "--target", url); got.code != exitUsage || !strings.Contains(got.stderr, "checkout.yaml:3:") || !strings.Contains(got.stderr, "nobody") {
		t.Errorf("exit status %d, %s; want 2, with the place", got.code, got.stderr)
	}
}

// TestLoadStoppedHasASummary: who stops a load from the keyboard wants to know
// what it has measured.
func TestLoadStoppedHasASummary(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(program, "load", shop(t)+"/", "--rate", "50/s", "--duration", "60s", "--json", "r.json")
	cmd.Dir = dir
	out := &text{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a second of load is over", func() bool { return strings.Contains(out.String(), "req/s=") })
	_ = cmd.Process.Signal(syscall.SIGINT)
	_ = cmd.Wait() // its status is looked at below
	data, err := os.ReadFile(filepath.Join(dir, "r.json"))
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	r := readResult(t, string(data))
	if cmd.ProcessState.ExitCode() != exitFailed || r.Aborted != "stopped from outside" || r.Seconds > 50 || r.Requests == 0 {
		t.Errorf("exit status %d, %+v; want 1 and what was measured until then:\n%s", cmd.ProcessState.ExitCode(), r, out)
	}
}
