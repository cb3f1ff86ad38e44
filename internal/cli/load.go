package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"loadstone/lab/load"
)

type loadFlags struct {
	feeds    []string
	rate     string
	vus      int
	duration time.Duration
	warmup   time.Duration
	timeout  time.Duration
	arrivals string
	maxVUs   int
	method   string
	seed     uint64
	json     bool
}

func (a *app) loadCommand() *cobra.Command {
	var f loadFlags
	cmd := &cobra.Command{
		Use:     "load URL",
		GroupID: "lab",
		Short:   "Offer load to a URL and say what came of it",
		Long: `Offer load to a URL and say what came of it. With --rate requests start at that
rate, whatever the answers do (open model); with --vus so many users each send the
next request after the last answer (closed model).

{name} in the URL takes the next value of the feed of that name. Response time
counts from when a request should have been sent, service time from when it was.

Exit status: 0 done, 1 failed or nothing was answered, 2 a mistake in the arguments.`,
		Example: `  loadstone load http://127.0.0.1:8080/student/{id} --feed id=uniform:10000..674823 --rate 500/s --duration 10s
  loadstone load http://127.0.0.1:8080/healthz --vus 50 --duration 5s --json`,
		Args: a.args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := f.plan(args[0])
			if err != nil {
				return err
			}
			return a.load(cmd.Context(), p, f.json)
		},
	}
	fl := cmd.Flags()
	fl.StringArrayVar(&f.feeds, "feed", nil, "values of a placeholder: NAME=uniform:LO..HI or NAME=sequential:LO..HI")
	fl.StringVar(&f.rate, "rate", "", "open model: requests started, such as 500/s or 300/m")
	fl.IntVar(&f.vus, "vus", 1, "closed model: virtual users (used if there is no --rate)")
	fl.DurationVar(&f.duration, "duration", 10*time.Second, "how long load is offered, warm-up included")
	fl.DurationVar(&f.warmup, "warmup", 0, "first part of it that is not measured")
	fl.DurationVar(&f.timeout, "timeout", 5*time.Second, "longest time for one request")
	fl.StringVar(&f.arrivals, "arrivals", load.Poisson, "spacing of an open model's requests: poisson or uniform")
	fl.IntVar(&f.maxVUs, "max-vus", 1024, "open model: most requests under way at once")
	fl.StringVar(&f.method, "method", "GET", "HTTP method")
	fl.Uint64Var(&f.seed, "seed", 1, "seed of the schedule and the feeds")
	fl.BoolVar(&f.json, "json", false, "print the result as JSON")
	cmd.MarkFlagsMutuallyExclusive("rate", "vus")
	return cmd
}

// plan turns the flags into a plan.
func (f loadFlags) plan(target string) (load.Plan, error) {
	// Braces are no part of a URL; they stand for values.
	u, err := url.Parse(strings.NewReplacer("{", "%7B", "}", "%7D").Replace(target))
	if err != nil || u.Host == "" {
		return load.Plan{}, usagef("%q is no URL to load; write one such as http://127.0.0.1:8080/path", target)
	}
	base := u.Scheme + "://" + u.Host
	path := strings.TrimPrefix(target, base)
	if path == "" {
		path = "/"
	}
	s := load.Scenario{
		Name: "load", Executor: load.ConstantVUs, VUs: f.vus, Duration: f.duration, GracefulStop: f.timeout,
		Arrivals: f.arrivals, PreAllocatedVUs: min(64, f.maxVUs), MaxVUs: f.maxVUs,
		Steps: []load.Step{{Request: load.Request{Method: f.method, Path: path}}}, Feed: make(map[string]load.Feed),
	}
	if f.rate != "" {
		s.Executor = load.ConstantArrivalRate
		if s.Rate, err = parseRate(f.rate); err != nil {
			return load.Plan{}, err
		}
	}
	for _, text := range f.feeds {
		name, feed, err := parseFeed(text)
		if err != nil {
			return load.Plan{}, err
		}
		s.Feed[name] = feed
	}
	p := load.Plan{Targets: []string{base}, Scenarios: []load.Scenario{s}, Seed: f.seed, Warmup: f.warmup, Timeout: f.timeout}
	if err := p.Validate(); err != nil {
		return p, usageError{err}
	}
	return p, nil
}

// parseRate takes 500/s, 300/m or 20/h.
func parseRate(text string) (float64, error) {
	number, unit, _ := strings.Cut(text, "/")
	n, err := strconv.ParseFloat(number, 64)
	per, ok := map[string]float64{"s": 1, "m": 60, "h": 3600}[unit]
	if err != nil || !ok || !(n > 0) {
		return 0, usagef("--rate %q is no rate; write requests per second, minute or hour, such as 500/s", text)
	}
	return n / per, nil
}

// parseFeed takes NAME=uniform:LO..HI and NAME=sequential:LO..HI.
func parseFeed(text string) (name string, feed load.Feed, err error) {
	name, rest, _ := strings.Cut(text, "=")
	kind, span, _ := strings.Cut(rest, ":")
	low, high, _ := strings.Cut(span, "..")
	lo, errLo := strconv.ParseInt(low, 10, 64)
	hi, errHi := strconv.ParseInt(high, 10, 64)
	ends := &[2]int64{lo, hi}
	switch {
	case name == "" || errLo != nil || errHi != nil || hi < lo:
	case kind == "uniform":
		return name, load.Feed{Uniform: ends}, nil
	case kind == "sequential":
		return name, load.Feed{Sequential: ends}, nil
	}
	return "", load.Feed{}, usagef("--feed %q is no feed; write one such as id=uniform:1..1000 or id=sequential:1..1000", text)
}

// load offers a plan from this process and prints what came of it.
func (a *app) load(ctx context.Context, p load.Plan, asJSON bool) error {
	r, err := load.Run(ctx, p, func(w load.Window) {
		fmt.Fprintf(a.Stderr, "%s  %6d req/s  %d in flight  %d failed  %d late  %d dropped\n",
			w.Start.Format(time.TimeOnly), w.Requests, w.InFlight, w.Failed, w.Late, w.Dropped)
	})
	if err != nil {
		return err
	}
	if asJSON {
		e := json.NewEncoder(a.Stdout)
		e.SetIndent("", "  ")
		err = e.Encode(r)
	} else {
		a.loadSummary(p, r)
	}
	if err == nil && (r.Requests == 0 || r.Failed == r.Requests) {
		return fmt.Errorf("no request was answered well: %s", worst(r))
	}
	return err
}

func (a *app) loadSummary(p load.Plan, r load.Result) {
	w := a.Stdout
	fmt.Fprintf(w, "%d requests in %.1f s, %.0f req/s (seed %d)\n", r.Requests, r.Seconds(), r.Throughput(), p.Seed)
	fmt.Fprintf(w, "failed %d   dropped %d   late %d   waited for a free user %d\n", r.Failed, r.Dropped, r.Late, r.Waited)
	fmt.Fprintf(w, "%10s %10s %10s %10s %10s %10s  ms\n", "", "p50", "p95", "p99", "max", "mean")
	for _, l := range []struct {
		name string
		load.Latency
	}{{"response", r.Response}, {"service", r.Service}} {
		fmt.Fprintf(w, "%10s %10.3f %10.3f %10.3f %10.3f %10.3f\n", l.name, l.P50, l.P95, l.P99, l.Max, l.Mean)
	}
	for _, kind := range slices.Sorted(maps.Keys(r.Errors)) {
		fmt.Fprintf(w, "error %s: %d, such as %s\n", kind, r.Errors[kind].Count, r.Errors[kind].Example)
	}
	fmt.Fprintf(w, "generator used %.2f of a core, %.1f µs a request\n",
		r.Generator.Busy, 1e6*r.Generator.CPUSeconds/float64(max(r.Requests, 1)))
}

// worst is the most frequent kind of error, in words.
func worst(r load.Result) string {
	kind, most := "", load.ErrorCount{}
	for k, e := range r.Errors {
		if e.Count > most.Count {
			kind, most = k, e
		}
	}
	if kind == "" {
		return fmt.Sprintf("statuses %v", r.Status)
	}
	return fmt.Sprintf("%d × %s, such as %s", most.Count, kind, most.Example)
}
