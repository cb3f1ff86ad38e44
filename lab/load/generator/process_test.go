package generator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"loadstone/lab/load"
	"loadstone/lab/load/loadtest"
)

// startGenerator starts this binary as a generator.
func startGenerator(tb testing.TB) *Process {
	tb.Helper()
	p, err := Start(context.Background(), playing(tb, roleGenerator), os.Stderr)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := p.Close(); err != nil {
			tb.Error(err)
		}
	})
	return p
}

// serving calls handle for each request, and returns the server's URL.
func serving(tb testing.TB, handle func(*http.Request)) string {
	tb.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { handle(r) }))
	tb.Cleanup(s.Close)
	return s.URL
}

// answering answers every request at once.
func answering(tb testing.TB) string {
	tb.Helper()
	return serving(tb, func(*http.Request) {})
}

// gone waits until no process has the id.
func gone(tb testing.TB, pid int) {
	tb.Helper()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) {
			return
		}
	}
	tb.Errorf("process %d is still there", pid)
}

func TestProcessRunsPlans(t *testing.T) {
	t.Parallel()
	p := startGenerator(t)
	url := answering(t)
	for range 2 {
		plan := loadtest.OpenPlan(url, 300, 3500*time.Millisecond, 20)
		var windows []load.Window
		r, err := p.Run(t.Context(), plan, func(w load.Window) string {
			windows = append(windows, w)
			return ""
		})
		if err != nil {
			t.Fatal(err)
		}
		loadtest.CheckSums(t, plan, r, windows)
		if want := loadtest.Due(plan); r.Offered != want || r.Failed > 0 || len(windows) < 2 {
			t.Errorf("offered %d, failed %d, %d windows; want %d, none, two or more", r.Offered, r.Failed, len(windows), want)
		}
		if g := r.Generator; g.CPUSeconds <= 0 || g.Busy <= 0 || g.Lateness.Max <= 0 {
			t.Errorf("the generator says of itself %+v, want something", g)
		}
	}
	// A plan that is not valid is refused, and the process goes on.
	if _, err := p.Run(t.Context(), load.Plan{}, nil); err == nil || !strings.Contains(err.Error(), "targets: there are none") {
		t.Errorf("got %v, want it to say that there are no targets", err)
	}
	if _, err := p.Run(t.Context(), loadtest.ClosedPlan(url, 1, 50*time.Millisecond), nil); err != nil {
		t.Error(err)
	}
}

func TestProcessEndsWithItsContext(t *testing.T) {
	t.Parallel()
	p := startGenerator(t)
	pid := p.PID()
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	server := serving(t, func(r *http.Request) { cancel(why); <-r.Context().Done() })
	if _, err := p.Run(ctx, loadtest.ClosedPlan(server, 1, time.Hour), nil); !errors.Is(err, why) {
		t.Errorf("got %v, want %v", err, why)
	}
	if _, err := p.Run(t.Context(), loadtest.ClosedPlan(server, 1, time.Second), nil); err == nil {
		t.Error("another plan ran, want an error")
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	gone(t, pid)
}

// TestGeneratorDoesNotOutliveItsParent: when the input ends, in whichever way
// the parent died, the load ends and so does the process.
// A generator whose context ends while its last word is being read is killed all the same:
// closing it is no failure, and it is of no more use.
func TestKilledAfterItsLastWord(t *testing.T) {
	t.Parallel()
	for i := range 20 {
		p, err := Start(t.Context(), []string{"sh", "-c", `read plan; echo '{"window":{}}
{"result":{}}'; exec sleep 60`}, os.Stderr)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		_, _ = p.Run(ctx, load.Plan{}, func(load.Window) string { cancel(); return "" }) // either is right
		if _, err := p.Run(t.Context(), load.Plan{}, nil); err == nil || !strings.Contains(err.Error(), "it ended earlier: context canceled") {
			t.Errorf("%d: the next plan: got %v, want it to say that the generator has ended", i, err)
		}
		if err := p.Close(); err != nil {
			t.Errorf("%d: close: %v", i, err)
		}
	}
}

func TestGeneratorDoesNotOutliveItsParent(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 100)
	server := serving(t, func(r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	})
	command := playing(t, roleGenerator)
	cmd := exec.Command(command[0], command[1:]...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := json.NewEncoder(in).Encode(loadtest.ClosedPlan(server, 1, time.Hour)); err != nil {
		t.Fatal(err)
	}
	<-asked
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("it ended with %v, want it to end in order", err)
		}
	case <-time.After(2 * time.Minute):
		_ = cmd.Process.Kill()
		t.Error("it outlived its parent")
		<-ended
	}
}

func TestProcessThatDies(t *testing.T) {
	t.Parallel()
	for name, command := range map[string][]string{
		"at once":       {"false"},
		"with nonsense": {"sh", "-c", "read line; echo nonsense; exec sleep 100"},
	} {
		p, err := Start(t.Context(), command, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		pid := p.PID()
		if _, err := p.Run(t.Context(), loadtest.ClosedPlan("http://127.0.0.1:1", 1, time.Second), nil); err == nil {
			t.Errorf("%s: got no error", name)
		}
		if err := p.Close(); err != nil {
			t.Errorf("%s: close: %v; want it reported once, by Run", name, err)
		}
		gone(t, pid)
	}
	if _, err := Start(t.Context(), []string{"/no/such/command"}, io.Discard); err == nil {
		t.Error("a command that does not exist starts")
	}
	if _, err := Start(t.Context(), nil, io.Discard); err == nil {
		t.Error("no command at all starts")
	}
	p, err := Start(t.Context(), []string{"sh", "-c", "exit 3"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err == nil {
		t.Error("a process that failed closes without an error")
	}
}

// answers reads what Serve wrote.
func answers(tb testing.TB, out []byte) (kinds []string) {
	tb.Helper()
	for line := range bytes.Lines(out) {
		var m message
		if err := json.Unmarshal(line, &m); err != nil {
			tb.Fatalf("%q: %v", line, err)
		}
		switch {
		case m.Result != nil:
			kinds = append(kinds, "result")
		case m.Error != "":
			kinds = append(kinds, "error: "+m.Error)
		}
	}
	return kinds
}

func TestServeGoesOnAfterABadPlan(t *testing.T) {
	t.Parallel()
	plan := loadtest.ClosedPlan(answering(t), 1, time.Minute)
	s := &plan.Scenarios[0]
	s.Executor, s.Iterations = load.PerVUIterations, 1 // it ends with them, and not before
	good, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	in, feed := io.Pipe()
	out, read := io.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- Serve(context.Background(), in, read)
		_ = read.Close()
	}()
	lines := json.NewDecoder(out)
	for _, test := range []struct {
		line string
		want func(message) bool
	}{
		{"nonsense", func(m message) bool { return strings.HasPrefix(m.Error, "the line is not a plan") }},
		{"{}", func(m message) bool { return strings.Contains(m.Error, "targets") }},
		{string(good), func(m message) bool { return m.Result != nil && m.Result.Requests > 0 }},
	} {
		if _, err := io.WriteString(feed, test.line+"\n"); err != nil {
			t.Fatal(err)
		}
		m := message{Window: &load.Window{}}
		for err = nil; err == nil && m.Window != nil; {
			m = message{}
			err = lines.Decode(&m)
		}
		if err != nil || !test.want(m) {
			t.Errorf("%.40q: got %+v, %v", test.line, m, err)
		}
	}
	if err := feed.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-served; err != nil {
		t.Errorf("at the end of its input: got %v, want nil", err)
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	in, feed := io.Pipe()
	defer func() { _ = feed.Close() }()
	var out bytes.Buffer
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, in, &out) }()
	server := serving(t, func(r *http.Request) { cancel(); <-r.Context().Done() })
	if err := json.NewEncoder(feed).Encode(loadtest.ClosedPlan(server, 1, time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := <-served; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	if got := answers(t, out.Bytes()); len(got) != 1 || !strings.HasPrefix(got[0], "error: ") {
		t.Errorf("it answered %q, want one error", got)
	}
}

// TestNothingOffered: a load may be over before its first arrival, and the
// result is still one that JSON can carry.
func TestNothingOffered(t *testing.T) {
	t.Parallel()
	plan := loadtest.OpenPlan(answering(t), 0.001, 100*time.Millisecond, 1)
	plan.Scenarios[0].Arrivals = load.Uniform
	r, err := startGenerator(t).Run(t.Context(), plan, nil)
	if err != nil || r.Offered != 0 || r.Requests != 0 || r.Seconds() != 0.1 {
		t.Errorf("got %+v, %v; want an empty result", r, err)
	}
}

// FuzzServe checks that no line makes the generator panic. Plans that could
// take long are taken out: what they do is tested elsewhere.
func FuzzServe(f *testing.F) {
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"targets":["http://[::1"],"scenarios":[{}]}`))
	f.Add([]byte(`{"targets":["http://h:x%zz"],"timeout":1,"scenarios":[{"name":"%d","executor":"ramping-vus","stages":[{"duration":-1,"target":1e300}]}]}`))
	f.Add([]byte(`{"scenarios":[{"executor":"ramping-arrival-rate","start_rate":-1,"stages":[{"duration":9223372036854775807,"target":5},{"duration":9223372036854775807,"target":5}]}]}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		var plan load.Plan
		if json.Unmarshal(line, &plan) == nil && plan.Validate() == nil {
			t.Skip()
		}
		var out bytes.Buffer
		_ = Serve(context.Background(), bytes.NewReader(append(line, '\n')), &out)
	})
}
