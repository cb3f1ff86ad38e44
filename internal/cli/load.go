package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"loadstone/internal/screen"
	"loadstone/lab/experiment"
	"loadstone/lab/load"
	"loadstone/lab/load/engine"
	"loadstone/lab/load/failure"
	"loadstone/lab/load/k6"
	"loadstone/lab/load/summary"
	"loadstone/lab/term"
	"loadstone/lab/threshold"
)

func (a *app) loadCommand() *cobra.Command {
	var f loadFlags
	cmd := &cobra.Command{
		Use:     "load URL|FILE",
		GroupID: "lab",
		Short:   "Generate load on a URL and report the results",
		Long: `Generate load on a URL, or the load that a file describes, and report the results.

With --rate, requests are sent at that rate, however long the responses take (open
model). With --vus, each of so many virtual users sends its next request when it has
the response to the last one (closed model); by default there is one user.

{name} in the URL, in a header or in the body is replaced by the next value of the
feed with that name. Response time counts from when a request should have been sent,
service time from when it was sent: a server that stalls is visible in the response
time, but not in the service time. If the load generator itself was the bottleneck,
the first line of the summary says so.

FILE is a YAML file with a section load:, as in an experiment file, and possibly a
section slo:. It can have several scenarios, steps, feeds, checks and WebSocket
clients. A file that ends in .js is a k6 script; your installation of k6 runs it.

Exit status:
   0  every threshold was met
   1  the load failed or was stopped, or every request failed
   2  an error in the arguments or in the file
  99  a threshold was crossed`,
		Example: `  # open model: 500 requests a second, students at random
  loadstone load http://127.0.0.1:8080/student/{id} --feed id=uniform:10000..674823 --rate 500/s --duration 10s

  # closed model, and the result as JSON
  loadstone load http://127.0.0.1:8080/healthz --vus 50 --duration 5s --json -

  # a ramp that aborts when a threshold is crossed
  loadstone load http://127.0.0.1:8080/ --stages 30s:1000/s,1m:5000/s --threshold 'http_req_duration: p(95)<200 over 10s' --abort-on-fail

  # yesterday's traffic, twice as fast
  loadstone load http://127.0.0.1:8080 --replay access.log --speed 2 --html load.html

  # one request of each step, with requests and answers printed as by curl -v
  loadstone load checkout.yaml --target http://127.0.0.1:8080 --once

  # several steps, checks and feeds: a file
  loadstone load checkout.yaml --target http://127.0.0.1:8080`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			j, err := f.job(cmd.Flags(), args[0])
			if err != nil {
				return err
			}
			if f.once {
				return a.once(cmd.Context(), j)
			}
			j.quiet = f.out.quiet
			return a.load(cmd.Context(), j, &f.out)
		},
	}
	f.bind(cmd.Flags())
	return cmd
}

// job is one load: what to offer, and what it must meet.
type job struct {
	plan       load.Plan
	thresholds []threshold.Threshold
	k6         *k6.Config // in place of plan's scenarios
	title      string
	quiet      bool
}

// load offers a load from this process and says what came of it.
func (a *app) load(ctx context.Context, j job, to *outputs) (err error) {
	log.SetOutput(io.Discard) // net/http writes there what hostile answers make it think
	out, err := to.open(ctx, j.title)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.close(ctx)) }()
	s := screen.New(a.screenConfig(&j, to.quiet))
	watch := threshold.NewWatch(j.thresholds)
	var failed error
	// A load that is stopped from the keyboard ends as one whose time is over:
	// what was measured is worth having.
	report, err := a.offer(context.WithoutCancel(ctx), &j, func(w load.Window) string {
		stop, err := watch.Add(w)
		failed = errors.Join(failed, err, out.add(w))
		s.Add(w, watch.Now())
		if stop == "" && ctx.Err() != nil {
			stop = "stopped from outside"
		}
		return stop
	})
	if err = errors.Join(err, failed, s.Close()); err != nil {
		return asUsage(err)
	}
	r := &report.Result
	judged := *r
	if ctx.Err() != nil {
		judged.Aborted = "" // by its user: what was measured until then is judged
	}
	outcomes, err := watch.Outcomes(&judged)
	if err != nil {
		return err
	}
	sum, err := summary.New(j.plan, r, outcomes, machine())
	if err != nil {
		return err
	}
	sum.Notes, sum.ServiceTimeOnly = append(sum.Notes, report.Notes...), j.k6 != nil
	if err := out.finish(a, sum); err != nil {
		return err
	}
	if report.Failed != "" {
		if j.quiet { // else k6 has said why
			fmt.Fprintf(a.Stderr, "loadstone: k6: %s\n", report.Failed)
		}
		return exitStatusError(exitCrossed)
	}
	return loadError(ctx, r, outcomes)
}

// offer carries out the load, or has k6 do so.
func (a *app) offer(ctx context.Context, j *job, onWindow func(load.Window) string) (report k6.Report, err error) {
	if j.k6 == nil {
		report.Result, err = engine.Run(ctx, j.plan, onWindow, nil)
		return report, err
	}
	if j.k6.Binary, err = k6.Find(exec.LookPath); err != nil {
		return report, err
	}
	// What k6 says would be drawn over by the screen, so it comes after it.
	var said bytes.Buffer
	j.k6.Log = &said
	report, err = k6.Run(ctx, *j.k6, onWindow)
	if !j.quiet {
		_, _ = a.Stderr.Write(said.Bytes()) // as with any progress, nobody may be listening
	}
	return report, err
}

// asUsage tells a mistake in what a plan names from a failure.
func asUsage(err error) error {
	if _, ok := errors.AsType[engine.InputError](err); ok {
		return usageError{err}
	}
	return err
}

func machine() summary.Machine {
	return summary.Machine{Cores: runtime.NumCPU(), GOMAXPROCS: runtime.GOMAXPROCS(0), OS: runtime.GOOS + "/" + runtime.GOARCH}
}

// screenConfig is what is shown while a load runs.
func (a *app) screenConfig(j *job, quiet bool) screen.Config {
	c := screen.Config{
		Out: a.Stderr, Terminal: a.Terminal, Color: term.Colors(a.Terminal, a.Getenv),
		Title: j.title, Threads: j.plan.ThreadCount(), Total: j.plan.Length(),
		Size: func() (int, int) { return terminalSize(os.Stderr) },
	}
	if quiet {
		c.Out, c.Terminal = io.Discard, false
	}
	return c
}

// loadError is the error that a load ends the command with, and so its exit
// status; nil if all went well.
func loadError(ctx context.Context, r *load.Result, outcomes []threshold.Outcome) error {
	silent := r.Requests == 0 && r.WebSocket == nil
	if silent || r.Requests > 0 && r.Failed == r.Requests {
		return fmt.Errorf("every request failed: %s", commonFailure(r))
	}
	if ctx.Err() != nil {
		return errors.New("stopped early: the summary covers what was measured until then")
	}
	for _, o := range outcomes {
		if !o.Met {
			return exitStatusError(exitCrossed)
		}
	}
	return nil
}

// commonFailure is the most frequent kind of error, in words.
func commonFailure(r *load.Result) string {
	kind, most := "", load.ErrorCount{}
	for k, e := range r.Errors {
		if e.Count > most.Count {
			kind, most = k, e
		}
	}
	switch {
	case r.Requests == 0:
		return "none was made"
	case kind == "":
		var answers []string
		for _, status := range slices.Sorted(maps.Keys(r.Status)) {
			answers = append(answers, fmt.Sprintf("%d × %d", r.Status[status], status))
		}
		return "the answers were " + strings.Join(answers, ", ")
	}
	text := fmt.Sprintf("%d × %s, such as %s", most.Count, kind, most.Example)
	if kind == failure.Refused.String() {
		text += "; start the server, or correct the address"
	}
	return text
}

// fileJob is the load of a file.
func (f *loadFlags) fileJob(path string) (job, error) {
	if strings.EqualFold(filepath.Ext(path), ".js") {
		return job{
			title: path, plan: load.Plan{Targets: f.targets},
			k6: &k6.Config{Script: path, Target: strings.Join(f.targets, ",")},
		}, nil
	}
	file, err := experiment.LoadOnly(path)
	if err != nil {
		return job{}, err
	}
	j := job{plan: file.Plan(), thresholds: file.SLO.Thresholds(), title: path}
	if len(f.targets) > 0 {
		j.plan.Targets = f.targets
	}
	if script := file.Offer.K6; script != nil {
		j.k6 = &k6.Config{Script: script.Script, Env: script.Env, Target: strings.Join(j.plan.Targets, ",")}
		return j, nil
	}
	if len(j.plan.Targets) == 0 {
		return job{}, usagef("%s does not say where to send the load; write --target http://127.0.0.1:8080, or target: under load", path)
	}
	return j, nil
}

// defaultDuration is how long a load lasts that says nothing of it.
const defaultDuration = 10 * time.Second

// maxIterating is how long counted iterations may take, as in k6.
const maxIterating = 10 * time.Minute
