package cli

import (
	"errors"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"loadstone/lab/load"
	"loadstone/lab/load/feed"
)

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
		s.Duration = maxIterating
	}
	if err := f.setPacing(&s); err != nil {
		return load.Plan{}, err
	}
	if f.replay == "" {
		if err := f.setSteps(&s, path); err != nil {
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

// setPacing sets when requests are sent.
func (f *loadFlags) setPacing(s *load.Scenario) (err error) {
	switch {
	case f.rate != "":
		s.Executor = load.ConstantArrivalRate
		s.Rate, err = parseRate("--rate", f.rate)
	case f.stages != "":
		err = f.setStages(s)
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

// setStages reads --stages: all of rates, or all of users.
func (f *loadFlags) setStages(s *load.Scenario) error {
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
			return usagef("--stages %q is no stage; write DURATION:RATE such as 30s:1000/s, or DURATION:USERS such as 30s:100", leg)
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

// setSteps sets what is sent.
func (f *loadFlags) setSteps(s *load.Scenario, path string) error {
	step := load.Step{Request: load.Request{Method: f.method, Path: path, Body: f.body}, ExpectedStatuses: f.expected, Think: [2]time.Duration{f.think, f.think}}
	if f.bodyFile != "" {
		body, err := os.ReadFile(f.bodyFile)
		if err != nil {
			return usagef("--body-file %s cannot be read (%w); write the path of a file", f.bodyFile, errors.Unwrap(err))
		}
		step.Request.Body = string(body)
	}
	if err := parseForm(f.form, &step.Request); err != nil {
		return err
	}
	if f.method == "" {
		step.Request.Method = http.MethodGet
		if f.bodyFile != "" || step.Request.HasBody() {
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
