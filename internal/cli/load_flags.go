package cli

import (
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"loadstone/lab/load"
	"loadstone/lab/load/feed"
	"loadstone/lab/threshold"
)

type loadFlags struct {
	feeds, headers, checks, thresholds []string
	targets                            []string
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
	spin, abort                        bool
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
	fl.StringVarP(&f.body, "body", "d", "", "body")
	fl.StringVar(&f.bodyFile, "body-file", "", "file with the body")
	fl.StringArrayVar(&f.feeds, "feed", nil, `values of a placeholder: NAME=uniform:LO..HI, sequential:LO..HI, zipf:LO..HI:EXPONENT,
csv:FILE or jsonl:FILE (then {NAME.COLUMN}, or csv:FILE:COLUMN for {NAME}); add ,random or ,per-vu`)
	fl.StringArrayVar(&f.checks, "check", nil, "a check of each answer: status=200, body=TEXT or PATH=VALUE in a JSON body")
	fl.StringArrayVar(&f.targets, "target", nil, "where to send the load of a file; several are used in turn")

	fl.IntVar(&f.connections, "connections", 0, "maximum number of open connections (default: one per virtual user)")
	fl.IntVar(&f.threads, "threads", 0, "event loops, one thread each (default: half the CPUs)")
	fl.BoolVar(&f.spin, "spin", false, "busy-wait instead of sleeping: exact send times, but each thread takes a whole CPU core")
	fl.StringVar(&f.protocol, "protocol", load.HTTP1, "http/1.1, or h2 for HTTP/2 (over http without TLS: h2c)")
	fl.StringVar(&f.tls.CAFile, "cacert", "", "file of certificates to trust, instead of the system's")
	fl.StringVar(&f.tls.ServerName, "server-name", "", "name that the certificate must have, instead of the host")
	fl.BoolVar(&f.tls.InsecureSkipVerify, "insecure", false, "trust any certificate")
	fl.DurationVar(&f.timeout, "timeout", 5*time.Second, "maximum time for one request")
	fl.Uint64Var(&f.seed, "seed", 1, "seed of the schedule and the feeds")

	fl.StringArrayVar(&f.thresholds, "threshold", nil, "a threshold, such as 'http_req_duration: p(95)<200' or '… over 10s'")
	fl.BoolVar(&f.abort, "abort-on-fail", false, "end the load once a --threshold is crossed")
	f.out.bind(fl)
}

// notOfFiles are the flags that say what a file says itself.
var notOfFiles = []string{
	"rate", "vus", "stages", "duration", "iterations", "iterations-per-vu", "replay", "speed", "arrivals", "max-vus", "think",
	"method", "header", "body", "body-file", "feed", "check", "protocol", "cacert", "server-name", "insecure", "timeout", "warmup",
}

// apart are the flags of which one alone can be given.
var apart = [][]string{
	{"rate", "vus", "stages", "replay"},
	{"rate", "stages", "replay", "iterations", "iterations-per-vu"},
	{"body", "body-file"},
	{"stages", "duration"},
	{"replay", "duration"},
}

// needs says which other flags a flag needs, one of them at least, to have an
// effect.
var needs = map[string][]string{
	"speed":               {"replay"},
	"arrivals":            {"rate", "stages"},
	"max-vus":             {"rate", "stages", "replay"},
	"label":               {"remote-write"},
	"remote-write-header": {"remote-write"},
}

// useless are the flags that a replay, whose log says what to send, has no use
// for.
var useless = []string{"method", "body", "body-file", "header", "feed", "check", "think", "iterations", "iterations-per-vu"}

// effective refuses flags that would do nothing.
func effective(fl *pflag.FlagSet) error {
	for _, name := range slices.Sorted(maps.Keys(needs)) {
		if fl.Changed(name) && !slices.ContainsFunc(needs[name], fl.Changed) {
			return usagef("--%s does nothing without --%s", name, strings.Join(needs[name], " or --"))
		}
	}
	for _, name := range useless {
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

// oneOfEach says which flags exclude each other.
func oneOfEach(fl *pflag.FlagSet) error {
	for _, group := range apart {
		var given []string
		for _, name := range group {
			if fl.Changed(name) {
				given = append(given, "--"+name)
			}
		}
		if len(given) > 1 {
			return usagef("%s say the same thing in two ways; write one of them", strings.Join(given, " and "))
		}
	}
	return nil
}

// job turns the arguments into a load.
func (f *loadFlags) job(fl *pflag.FlagSet, what string) (job, error) {
	var j job
	err := oneOfEach(fl)
	if err != nil {
		return j, err
	}
	if strings.Contains(what, "://") {
		if j.plan, err = f.plan(what); err == nil && len(f.targets) > 0 {
			err = usagef("--target is for the load of a file; the URL says where to send this one")
		}
		j.title = what
	} else if _, found := os.Stat(what); found != nil {
		return j, usagef("%q is no URL to load, and no file; write one such as http://127.0.0.1:8080/path", what)
	} else {
		for _, name := range notOfFiles {
			if fl.Changed(name) {
				return j, usagef("--%s: the file %s says that itself; change it there", name, what)
			}
		}
		j, err = f.fileJob(what)
	}
	if err != nil {
		return j, err
	}
	if err := effective(fl); err != nil {
		return j, err
	}
	f.overrule(fl, &j.plan)
	if err := f.judgedBy(&j); err != nil {
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

// overrule has the flags about the generator replace what a file says.
func (f *loadFlags) overrule(fl *pflag.FlagSet, p *load.Plan) {
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
}

// judgedBy adds the thresholds of the flags.
func (f *loadFlags) judgedBy(j *job) error {
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

// cutMetric splits METRIC: EXPRESSION; a selector in the metric has colons of
// its own.
func cutMetric(text string) (metric, expression string, ok bool) {
	at := strings.LastIndex(text, "}") + 1
	name, expression, ok := strings.Cut(text[at:], ":")
	return strings.TrimSpace(text[:at] + name), strings.TrimSpace(expression), ok
}

// plan turns the flags into a plan for a URL.
func (f *loadFlags) plan(target string) (load.Plan, error) {
	// Braces are no part of a URL; they stand for values.
	u, err := url.Parse(strings.NewReplacer("{", "%7B", "}", "%7D").Replace(target))
	if err != nil || u.Host == "" {
		return load.Plan{}, usagef("%q is no URL to load; write one such as http://127.0.0.1:8080/path", target)
	}
	switch {
	case u.User != nil:
		return load.Plan{}, usagef("%q has a user in it; write the URL without, and -H 'Authorization: Basic …'", target)
	case u.Scheme == "ws" || u.Scheme == "wss":
		return load.Plan{}, usagef("%q: WebSocket clients are described in a file, with websocket: under a scenario; see docs/load.md", target)
	}
	base := u.Scheme + "://" + u.Host
	path := strings.TrimPrefix(target, base)
	if path == "" {
		path = "/"
	}
	s := load.Scenario{
		Name: "load", Duration: f.duration, GracefulStop: f.timeout,
		Arrivals: f.arrivals, PreAllocatedVUs: min(64, f.maxVUs), MaxVUs: f.maxVUs,
		Feed: make(map[string]feed.Feed),
	}
	if f.duration == defaultDuration && (f.iterations > 0 || f.perVU > 0) {
		s.Duration = mostIterating
	}
	if err := f.shape(&s); err != nil {
		return load.Plan{}, err
	}
	if f.replay == "" {
		if err := f.content(&s, path); err != nil {
			return load.Plan{}, err
		}
	} else if path != "/" {
		base = target
	}
	return load.Plan{
		Targets: []string{base}, Scenarios: []load.Scenario{s}, Seed: f.seed, Warmup: f.warmup, Timeout: f.timeout,
		Protocol: f.protocol, TLS: f.tls,
	}, nil
}

// shape says when requests are sent.
func (f *loadFlags) shape(s *load.Scenario) (err error) {
	switch {
	case f.rate != "":
		s.Executor = load.ConstantArrivalRate
		s.Rate, err = parseRate("--rate", f.rate)
	case f.stages != "":
		err = f.ramp(s)
	case f.replay != "":
		s.Executor, s.Duration = load.Replay, 0
		s.Log = &load.AccessLog{Path: f.replay, Speed: f.speed}
	case f.iterations > 0:
		s.Executor, s.VUs, s.Iterations = load.SharedIterations, f.vus, f.iterations
	case f.perVU > 0:
		s.Executor, s.VUs, s.Iterations = load.PerVUIterations, f.vus, f.perVU
	default:
		s.Executor, s.VUs = load.ConstantVUs, f.vus
	}
	return err
}

// ramp reads --stages: all of rates, or all of users.
func (f *loadFlags) ramp(s *load.Scenario) error {
	s.Duration = 0
	legs := strings.Split(f.stages, ",")
	rates := 0
	for _, leg := range legs {
		length, target, _ := strings.Cut(strings.TrimSpace(leg), ":")
		d, err := time.ParseDuration(length)
		stage := load.Stage{Duration: d}
		if err == nil && strings.Contains(target, "/") {
			rates++
			if stage.Target, err = parseRate("--stages", target); err != nil && target[0] == '0' {
				stage.Target, err = 0, nil
			}
		} else if err == nil {
			var n uint64
			n, err = strconv.ParseUint(target, 10, 31)
			stage.Target = float64(n)
		}
		if err != nil {
			return usagef("--stages %q: write DURATION:RATE such as 30s:1000/s, or DURATION:USERS such as 30s:100", leg)
		}
		s.Stages = append(s.Stages, stage)
	}
	switch rates {
	case 0:
		s.Executor = load.RampingVUs
	case len(legs):
		s.Executor = load.RampingArrivalRate
	default:
		return usagef("--stages %q mixes rates and users; write all with /s, or all without", f.stages)
	}
	return nil
}

// content says what is sent.
func (f *loadFlags) content(s *load.Scenario, path string) error {
	step := load.Step{Request: load.Request{Method: f.method, Path: path, Body: f.body}, Think: [2]time.Duration{f.think, f.think}}
	if f.bodyFile != "" {
		body, err := os.ReadFile(f.bodyFile)
		if err != nil {
			return usagef("--body-file: %w", err)
		}
		step.Request.Body = string(body)
	}
	if f.method == "" {
		step.Request.Method = http.MethodGet
		if f.body != "" || f.bodyFile != "" {
			step.Request.Method = http.MethodPost
		}
	}
	for _, line := range f.headers {
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return usagef("--header %q is no header line; write NAME: VALUE", line)
		}
		if step.Request.Header == nil {
			step.Request.Header = map[string]string{}
		}
		step.Request.Header[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	for _, text := range f.checks {
		c, err := parseCheck(text)
		if err != nil {
			return err
		}
		step.Checks = append(step.Checks, c)
	}
	for _, text := range f.feeds {
		name, from, err := parseFeed(text)
		if err != nil {
			return err
		}
		s.Feed[name] = from
	}
	s.Steps = []load.Step{step}
	return nil
}

// parseRate takes 500/s, 300/m or 20/h.
func parseRate(flag, text string) (float64, error) {
	number, unit, _ := strings.Cut(text, "/")
	n, err := strconv.ParseFloat(number, 64)
	per, ok := map[string]float64{"s": 1, "m": 60, "h": 3600}[unit]
	if err != nil || !ok || !(n > 0) {
		return 0, usagef("%s %q is no rate; write requests per second, minute or hour, such as 500/s", flag, text)
	}
	return n / per, nil
}

// parseCheck takes status=200,204, body=TEXT and PATH=VALUE.
func parseCheck(text string) (load.Check, error) {
	what, value, ok := strings.Cut(text, "=")
	c := load.Check{Name: text}
	switch {
	case !ok || what == "":
		return c, usagef("--check %q is no check; write status=200, body=TEXT or PATH=VALUE", text)
	case what == "status":
		for one := range strings.SplitSeq(value, ",") {
			status, err := strconv.Atoi(one)
			if err != nil {
				return c, usagef("--check %q: %q is no status; write numbers such as 200,204", text, one)
			}
			c.Status = append(c.Status, status)
		}
	case what == "body":
		c.Contains = value
	default:
		c.JSON, c.Equals = what, &value
	}
	return c, nil
}

// feedKinds read what follows the kind of a feed.
var feedKinds = map[string]func(args string, f *feed.Feed) bool{
	"uniform":    func(args string, f *feed.Feed) (ok bool) { f.Uniform, ok = parseSpan(args); return ok },
	"sequential": func(args string, f *feed.Feed) (ok bool) { f.Sequential, ok = parseSpan(args); return ok },
	"zipf": func(args string, f *feed.Feed) bool {
		span, exponent, _ := strings.Cut(args, ":")
		ends, ok := parseSpan(span)
		s, err := strconv.ParseFloat(exponent, 64)
		if ok && err == nil {
			f.Zipf = &feed.Zipf{Low: ends[0], High: ends[1], Exponent: s}
		}
		return f.Zipf != nil
	},
	"csv":   func(args string, f *feed.Feed) bool { f.CSV = parseFile(args); return f.CSV.Path != "" },
	"jsonl": func(args string, f *feed.Feed) bool { f.JSONL = parseFile(args); return f.JSONL.Path != "" },
}

// parseFeed takes NAME=KIND:ARGUMENTS, and options behind commas.
func parseFeed(text string) (name string, from feed.Feed, err error) {
	name, rest, _ := strings.Cut(text, "=")
	options := strings.Split(rest, ",")
	kind, args, _ := strings.Cut(options[0], ":")
	read, ok := feedKinds[kind]
	if name == "" || !ok || !read(args, &from) {
		return "", from, usagef("--feed %q is no feed; write one such as id=uniform:1..1000, id=zipf:1..1000:0.99 or user=csv:users.csv (kinds: %s)",
			text, strings.Join(slices.Sorted(maps.Keys(feedKinds)), ", "))
	}
	file := from.CSV
	if file == nil {
		file = from.JSONL
	}
	for _, option := range options[1:] {
		switch {
		case option == "per-vu":
			from.PerVU = true
		case option == "random" && file != nil:
			file.Random = true
		default:
			return "", from, usagef("--feed %q: %q is no option of it; write per-vu, or random for a file", text, option)
		}
	}
	if err := from.Validate(); err != nil {
		return "", from, usagef("--feed %q: %w", text, err)
	}
	return name, from, nil
}

// parseSpan takes LO..HI.
func parseSpan(text string) (*[2]int64, bool) {
	low, high, _ := strings.Cut(text, "..")
	lo, errLo := strconv.ParseInt(low, 10, 64)
	hi, errHi := strconv.ParseInt(high, 10, 64)
	if errLo != nil || errHi != nil || hi < lo {
		return nil, false
	}
	return &[2]int64{lo, hi}, true
}

// parseFile takes FILE and FILE:COLUMN.
func parseFile(text string) *feed.File {
	path, column, _ := strings.Cut(text, ":")
	return &feed.File{Path: path, Column: column}
}

// parseLabel takes NAME=VALUE.
func parseLabel(text string) (name, value string, err error) {
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return "", "", usagef("--label %q is no label; write NAME=VALUE", text)
	}
	return name, value, nil
}
