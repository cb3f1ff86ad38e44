package experiment

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"loadstone/block/spelling"
	"loadstone/lab/load"
)

const (
	offerExample    = "load: {scenarios: {lookup: {executor: constant-arrival-rate, request: GET /}}}"
	maxThreads      = 256
	targetExample   = "target: http://127.0.0.1:8080"
	variablePattern = `^[A-Za-z_][A-Za-z0-9_]*$`
)

var variableForm = regexp.MustCompile(variablePattern)

// offer reads what is offered, to be measured so; measure is empty if that was
// not read.
func (f field) offer(measure string) Offer {
	l := Offer{Timeout: defaultTimeout, Protocol: load.HTTP1}
	if !f.given() {
		return l
	}
	s := f.section(f.n, f.place, "load", offerExample)
	if s == nil {
		return l
	}
	before := len(s.errs)
	s.hints = map[string]hint{
		"thresholds": {"write them under slo, beside load", ""},
		"vus":        {"write it within a scenario", ""},
		"duration":   {"write it within a scenario", ""},
		"rate":       {"write it within a scenario", ""},
		"stages":     {"write them within a scenario", ""},
		"targets":    {"write target", "target"},
		"url":        {"write target", "target"},
	}
	script := s.may("k6", "k6: script.js")
	s.generator(&l)
	s.peers(&l)
	warmup := s.may("warmup", "warmup: 5s")
	l.Warmup = warmup.duration(0)
	if script.n != nil {
		s.script(&l, script, measure)
	} else {
		s.scenarios(&l, measure == AsWritten)
	}
	s.done()
	s.warms(warmup, &l)
	l.understood = len(s.errs) == before
	return l
}

// scenarios reads the scenarios. complete says that they are driven as written
// and must be there in full.
func (s *section) scenarios(l *Offer, complete bool) {
	f := s.need("scenarios", "scenarios: {lookup: {executor: constant-arrival-rate, request: GET /}}")
	if !f.given() {
		return
	}
	if f.n.kind != mapping || len(f.n.pairs) == 0 {
		f.wrong("a mapping with a scenario in it")
		return
	}
	steps := 0
	for _, p := range f.n.pairs {
		scenario := s.scenario(p, complete)
		l.Scenarios = append(l.Scenarios, scenario)
		if steps += len(scenario.Steps); steps > maxSteps && steps-len(scenario.Steps) <= maxSteps {
			s.errorf(p.key, "the scenarios have more than %d steps together; write fewer, or several files", maxSteps)
		}
	}
}

// script reads the k6 script, and refuses beside it what it decides itself.
func (s *section) script(l *Offer, f field, measure string) {
	s.known = append(s.known, "scenarios")
	for _, p := range s.n.pairs {
		if key := p.key.text; key != f.key && key != "target" && slices.Contains(s.known, key) {
			s.errorf(p.key, "the k6 script decides %s itself; remove it, or remove k6", key)
		}
	}
	if target, _ := s.n.pair("target"); len(l.Target) > 1 {
		s.errorf(target.key, "a k6 script is told one target, and here are %d; write one", len(l.Target))
	}
	l.K6 = &K6{}
	if !f.given() {
		return
	}
	if measure == Capacity {
		s.errorf(f.place, "measure: capacity sets the rate again and again, and that of a k6 script is in the script; write scenarios, or measure: load")
	}
	if f.n.kind != mapping {
		l.K6.Script = f.file("a k6 script")
		return
	}
	sec := s.section(f.n, f.place, "k6", f.example)
	if sec == nil {
		return
	}
	sec.hints = map[string]hint{"args": {"write what the script needs as env: {NAME: value}, and k6's options into the script", ""}}
	l.K6.Script = sec.need("script", "script: script.js").file("a k6 script")
	l.K6.Env = sec.may("env", "env: {NAME: value}").variables()
	sec.done()
}

// variables reads environment variables. Numbers and booleans are taken as
// they are written, as Compose does.
func (f field) variables() map[string]string {
	if !f.given() {
		return nil
	}
	if f.n.kind != mapping {
		f.wrong("a mapping from names to values")
		return nil
	}
	out := make(map[string]string, len(f.n.pairs))
	for _, p := range f.n.pairs {
		v := f.at(p.key.text, p.key.text+": value", p)
		switch {
		case !variableForm.MatchString(p.key.text):
			f.errorf(p.key, "%s cannot name a variable; write letters, digits and _", spelling.Quote(p.key.text))
		case !f.plain(p.value):
		case p.value.kind == null || p.value.kind == list || p.value.kind == mapping:
			v.wrong("text")
		default:
			out[p.key.text] = p.value.text
		}
	}
	return out
}

// at is the field of a pair within the mapping that f is.
func (f field) at(key, example string, p pair) field {
	return field{decoder: f.decoder, key: key, example: example, n: p.value, place: p.key}
}

// generator reads how the load generator is to work.
func (s *section) generator(l *Offer) {
	if f := s.may("timeout", "timeout: 5s"); f.given() {
		l.Timeout = f.duration(time.Millisecond)
	}
	if f := s.may("protocol", "protocol: h2"); f.given() {
		l.Protocol = f.oneOf(load.HTTP1, load.HTTP2)
	}
	if f := s.may("connections", "connections: 100"); f.given() {
		l.Connections = int(f.whole(1, maxVUs))
	}
	if f := s.may("threads", "threads: 1"); f.given() {
		l.Threads = int(f.whole(1, maxThreads))
	}
	l.Spin = s.may("spin", "spin: true").boolean()
}

// peers reads who is spoken to, and whom to trust.
func (s *section) peers(l *Offer) {
	insecure := s.may("insecureSkipTLSVerify", "insecureSkipTLSVerify: true")
	l.InsecureSkipTLSVerify = insecure.boolean()
	tls := s.may("tls", "tls: {caFile: ca.pem}")
	if tls.given() {
		if sec := s.section(tls.n, tls.place, "tls", tls.example); sec != nil {
			l.TLS = &TLS{
				CAFile:     sec.may("caFile", "caFile: ca.pem").file("a file of PEM certificates"),
				ServerName: sec.may("serverName", "serverName: example.org").text(),
			}
			sec.done()
			if l.InsecureSkipTLSVerify && l.TLS.CAFile != "" {
				s.errorf(insecure.place, "insecureSkipTLSVerify trusts anybody, and tls.caFile says whom to trust; remove one of the two")
			}
		}
	}
	target := s.may("target", targetExample)
	l.Target = target.targets()
	for _, t := range l.Target {
		if (tls.given() || l.InsecureSkipTLSVerify) && strings.HasPrefix(t, "http:") {
			s.errorf(target.place, "target %s has no TLS, and tls or insecureSkipTLSVerify is about it; write https://, or remove them", t)
			break
		}
	}
}

// targets reads one base URL or a list of them.
func (f field) targets() Targets {
	if !f.given() {
		return nil
	}
	if f.n.kind == list && len(f.n.items) == 0 {
		f.errorf(f.n, "target is an empty list; write %s", f.example)
		return nil
	}
	var out Targets
	for _, item := range f.values() {
		if u := item.baseURL(); u != "" {
			out = append(out, u)
		}
	}
	return out
}

// values are the items of a list, or the one value that stands for a list.
func (f field) values() []field {
	if f.n.kind != list {
		return []field{f}
	}
	out := make([]field, len(f.n.items))
	for i, n := range f.n.items {
		out[i] = field{decoder: f.decoder, key: f.key, example: f.example, n: n, place: f.place, broken: !f.plain(n)}
	}
	return out
}

// baseURL reads a base URL. It is empty if it is none.
func (f field) baseURL() string {
	raw := f.text()
	if raw == "" {
		return ""
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil || strings.ContainsAny(raw, "{} "):
		f.errorf(f.n, "target %s is no URL; write %s", spelling.Quote(raw), f.example)
	case u.Scheme != "http" && u.Scheme != "https":
		f.errorf(f.n, "target %s does not begin with http:// or https://; write %s", spelling.Quote(raw), f.example)
	case u.Hostname() == "":
		f.errorf(f.n, "target %s names no host; write %s", spelling.Quote(raw), f.example)
	case u.RawQuery != "" || u.ForceQuery || strings.Contains(raw, "#") || u.User != nil:
		f.errorf(f.n, "target %s has a user, a query or a fragment; write only scheme, host and port, and the rest in the request", spelling.Quote(raw))
	default:
		return raw
	}
	return ""
}

// warms refuses a warm-up that leaves nothing to measure.
func (s *section) warms(f field, l *Offer) {
	if l.Warmup == 0 || len(l.Scenarios) == 0 {
		return
	}
	var longest time.Duration
	for _, scenario := range l.Scenarios {
		length := scenario.length()
		if length == 0 {
			return // broken, searched, or as long as an access log
		}
		longest = max(longest, scenario.StartTime+length)
	}
	if l.Warmup >= longest {
		s.errorf(f.n, "warmup %s leaves nothing to measure of a load of %s; write less, or a longer duration", f.n.text, longest)
	}
}

// boolean reads true or false.
func (f field) boolean() bool {
	if !f.given() {
		return false
	}
	if f.n.kind != boolean {
		f.wrong("true or false")
		return false
	}
	return strings.EqualFold(f.n.text, "true")
}
