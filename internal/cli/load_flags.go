package cli

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"loadstone/lab/load"
	"loadstone/lab/threshold"
)

type loadFlags struct {
	feeds, headers, checks, thresholds []string
	form                               []string
	targets, localIPs                  []string
	expected                           []int
	rate, stages                       string
	method, body, bodyFile             string
	vus, maxVUs, connections, threads  int
	iterations, perVU                  uint64
	duration, warmup, timeout, think   time.Duration
	arrivals, protocol                 string
	tls                                load.TLS
	replay                             string
	speed                              float64
	seed                               uint64
	spin, abort, once                  bool
	out                                outputs
}

// bind binds the flags.
func (f *loadFlags) bind(fl *pflag.FlagSet) {
	fl.StringVar(&f.rate, "rate", "", "open model: requests started, such as 500/s or 300/m")
	fl.IntVar(&f.vus, "vus", 1, "closed model: virtual users (used if there is no --rate, --stages or --replay)")
	fl.StringVar(&f.stages, "stages", "", "a ramp: DURATION:RATE,… such as 30s:1000/s,1m:5000/s, or of users: 30s:100,1m:500")
	fl.DurationVar(&f.duration, "duration", defaultDuration, "how long load is offered, warm-up included (with --iterations: 10m at most)")
	fl.Uint64Var(&f.iterations, "iterations", 0, "closed model: end after this many requests in total")
	fl.Uint64Var(&f.perVU, "iterations-per-vu", 0, "closed model: end after this many requests per virtual user")
	fl.DurationVar(&f.warmup, "warmup", 0, "first part of --duration, which is not measured")
	fl.StringVar(&f.replay, "replay", "", "replay the GET and HEAD requests of this access log with its timing")
	fl.Float64Var(&f.speed, "speed", 1, "replay this many times as fast")
	fl.StringVar(&f.arrivals, "arrivals", load.Poisson, "spacing of an open model's requests: poisson or uniform")
	fl.IntVar(&f.maxVUs, "max-vus", 1024, "open model: maximum number of requests under way")
	fl.DurationVar(&f.think, "think", 0, "pause of a virtual user after each answer")

	fl.StringVarP(&f.method, "method", "X", "", "HTTP method (GET, or POST if there is a body)")
	fl.StringArrayVarP(&f.headers, "header", "H", nil, "a header line, such as 'Accept: text/html'")
	fl.StringVarP(&f.body, "body", "d", "", "body; one that is JSON is sent as application/json")
	fl.StringVar(&f.bodyFile, "body-file", "", "file with the body")
	fl.StringArrayVarP(&f.form, "form", "F", nil, "a field of a form, NAME=VALUE; NAME=@FILE sends a file, and the form as multipart/form-data")
	fl.StringArrayVar(&f.feeds, "feed", nil, `values of a placeholder: NAME=uniform:LO..HI, sequential:LO..HI, zipf:LO..HI:EXPONENT,
csv:FILE or jsonl:FILE (then {NAME.COLUMN}, or csv:FILE:COLUMN for {NAME}); add ,random or ,per-vu`)
	fl.StringArrayVar(&f.checks, "check", nil, "a check of each answer: status=200, body=TEXT or PATH=VALUE in a JSON body")
	fl.IntSliceVar(&f.expected, "expected-statuses", nil, "statuses of answers that have not failed: 200,404 (default: those below 400)")
	fl.StringArrayVar(&f.targets, "target", nil, "where to send the load of a file; several are used in turn")

	fl.IntVar(&f.connections, "connections", 0, "maximum number of open connections (default: one per virtual user)")
	fl.StringSliceVar(&f.localIPs, "local-ips", nil, "addresses of this machine that connections come from, in turn: 127.0.0.2,127.1.0.0/20")
	fl.IntVar(&f.threads, "threads", 0, "event loops, one thread each (default: half the CPUs)")
	fl.BoolVar(&f.spin, "spin", false, "busy-wait instead of sleeping: exact send times, but each thread takes a whole CPU core")
	fl.StringVar(&f.protocol, "protocol", load.HTTP1, "http/1.1, or h2 for HTTP/2 (over http without TLS: h2c)")
	fl.StringVar(&f.tls.CAFile, "cacert", "", "file of certificates to trust, instead of the system's")
	fl.StringVar(&f.tls.ServerName, "server-name", "", "name that the certificate must have, instead of the host")
	fl.BoolVar(&f.tls.InsecureSkipVerify, "insecure", false, "trust any certificate")
	fl.DurationVar(&f.timeout, "timeout", 5*time.Second, "maximum time for one request")
	fl.Uint64Var(&f.seed, "seed", 1, "seed of the schedule and the feeds")

	fl.StringArrayVar(&f.thresholds, "threshold", nil, "a threshold, such as 'http_req_duration: p(95)<200' or '… over 10s'")
	fl.BoolVar(&f.once, "once", false, "make one request of each step and print requests and answers, as curl -v does")
	fl.BoolVar(&f.abort, "abort-on-fail", false, "end the load once a --threshold is crossed")
	f.out.bind(fl)
}

// addressForm is a host with a port.
var addressForm = regexp.MustCompile(`^[A-Za-z0-9.-]+:[0-9]+$`)

// urlFlags are the flags that say what a file says itself.
var urlFlags = []string{
	"rate", "vus", "stages", "duration", "iterations", "iterations-per-vu", "replay", "speed", "arrivals", "max-vus", "think",
	"method", "header", "body", "body-file", "form", "feed", "check", "expected-statuses", "protocol", "cacert", "server-name", "insecure", "timeout", "warmup",
}

// exclusiveFlags are the flags of which one alone can be given.
var exclusiveFlags = [][]string{
	{"rate", "vus", "stages", "replay"},
	{"rate", "stages", "replay", "iterations", "iterations-per-vu"},
	{"body", "body-file", "form"},
	{"stages", "duration"},
	{"replay", "duration"},
}

// requiredFlags are the flags of which a flag needs one at least to have an
// effect.
var requiredFlags = map[string][]string{
	"speed":               {"replay"},
	"arrivals":            {"rate", "stages"},
	"max-vus":             {"rate", "stages", "replay"},
	"label":               {"remote-write"},
	"remote-write-header": {"remote-write"},
}

// uselessInReplay are the flags that a replay has no use for: its log says what
// to send.
var uselessInReplay = []string{"method", "body", "body-file", "form", "header", "feed", "check", "think", "iterations", "iterations-per-vu"}

// checkEffective refuses flags that would do nothing.
func checkEffective(fl *pflag.FlagSet) error {
	for _, name := range slices.Sorted(maps.Keys(requiredFlags)) {
		if fl.Changed(name) && !slices.ContainsFunc(requiredFlags[name], fl.Changed) {
			return usagef("--%s does nothing without --%s", name, strings.Join(requiredFlags[name], " or --"))
		}
	}
	for _, name := range uselessInReplay {
		if fl.Changed("replay") && fl.Changed(name) {
			return usagef("--%s does nothing with --replay: the log says what is sent", name)
		}
	}
	for _, name := range []string{"connections", "threads"} {
		if n, err := fl.GetInt(name); err == nil && fl.Changed(name) && n < 1 {
			return usagef("--%s %d: write a number of at least 1", name, n)
		}
	}
	return nil
}

// checkExclusive refuses flags that exclude each other.
func checkExclusive(fl *pflag.FlagSet) error {
	for _, group := range exclusiveFlags {
		var given []string
		for _, name := range group {
			if fl.Changed(name) {
				given = append(given, "--"+name)
			}
		}
		if len(given) > 1 {
			return usagef("%s exclude each other; write one of them", strings.Join(given, " and "))
		}
	}
	return nil
}

// load is what the argument says: a URL, or the file of a load.
func (f *loadFlags) load(fl *pflag.FlagSet, what string) (j job, err error) {
	if strings.Contains(what, "://") {
		if j.plan, err = f.plan(what); err == nil && len(f.targets) > 0 {
			err = usagef("--target is for the load of a file; the URL says where to send this one")
		}
		j.title = what
		return j, err
	}
	if _, found := os.Stat(what); found != nil {
		if host, _, _ := strings.Cut(what, "/"); addressForm.MatchString(host) {
			return j, usagef("%q is a URL without its scheme; write http://%s", what, what)
		}
		return j, usagef("%q is no URL to load, and no file; write one such as http://127.0.0.1:8080/path", what)
	}
	for _, name := range urlFlags {
		if fl.Changed(name) {
			return j, usagef("--%s: the file %s says that itself; change it there", name, what)
		}
	}
	return f.fileJob(what)
}

// job turns the arguments into a load.
func (f *loadFlags) job(fl *pflag.FlagSet, what string) (job, error) {
	var j job
	if looksLikeTime(f.body) {
		return j, usagef("-d is the body of a request, as in curl, and %q reads as a time; write --duration %s, or --body-file FILE for a body that is one", f.body, f.body)
	}
	err := checkExclusive(fl)
	if err != nil {
		return j, err
	}
	j, err = f.load(fl, what)
	if err != nil {
		return j, err
	}
	if err := checkEffective(fl); err != nil {
		return j, err
	}
	if err := f.override(fl, &j.plan); err != nil {
		return j, err
	}
	if err := f.addThresholds(&j); err != nil {
		return j, err
	}
	if j.k6 != nil {
		return j, nil
	}
	if err := j.plan.Validate(); err != nil {
		return j, usageError{err}
	}
	return j, nil
}

// override has the flags about the generator replace what a file says.
func (f *loadFlags) override(fl *pflag.FlagSet, p *load.Plan) error {
	if fl.Changed("local-ips") {
		p.LocalIPs = nil
	}
	for _, text := range f.localIPs {
		prefix, err := load.ParsePrefix(text)
		if err != nil {
			return usagef("--local-ips %q is neither an IP address nor a prefix of some; write 127.1.0.0/20", text)
		}
		p.LocalIPs = append(p.LocalIPs, prefix)
	}
	if fl.Changed("connections") {
		p.Connections = f.connections
	}
	if fl.Changed("threads") {
		p.Threads = f.threads
	}
	if fl.Changed("spin") {
		p.Spin = f.spin
	}
	if fl.Changed("seed") {
		p.Seed = f.seed
	}
	return nil
}

// addThresholds adds the thresholds of the flags.
func (f *loadFlags) addThresholds(j *job) error {
	for _, text := range f.thresholds {
		metric, expression, ok := cutMetric(text)
		if !ok {
			return usagef("--threshold %q has no metric; write METRIC: EXPRESSION, such as 'http_req_duration: p(95)<200'", text)
		}
		t, err := threshold.Parse(metric, expression)
		if err != nil {
			return usagef("--threshold %q: %w", text, err)
		}
		t.AbortOnFail = f.abort
		if j.k6 == nil {
			if err := threshold.MetricsOf(j.plan.Scenarios).Check(t); err != nil {
				return usagef("--threshold %q: %w", text, err)
			}
		}
		j.thresholds = append(j.thresholds, t)
	}
	if f.abort && len(f.thresholds) == 0 {
		return usagef("--abort-on-fail needs a --threshold that can fail")
	}
	return nil
}
