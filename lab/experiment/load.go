package experiment

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"loadstone/block/spelling"
)

// Offer is what is offered to every variant: scenarios, or a k6 script.
type Offer struct {
	// Steps that are made once before the load, in turn, such as a login: {token} that
	// one of them extracts is that of every scenario. They are not measured. If one
	// fails, or a check of it, there is no load. Each rate that measure: capacity tries
	// is a load.
	Setup Group `key:"setup" eg:"[{name: login, request: POST /login, extract: {token: token}}]" each:"setup step %d" least:"1" list:"a list with a step in it"`

	// Steps that are made once after the load, however it ended. They are not measured.
	Teardown Group `key:"teardown" eg:"[{name: clean, request: DELETE /orders}]" each:"teardown step %d" least:"1" list:"a list with a step in it"`

	// k6's scenarios by name.
	Scenarios Scenarios `key:"scenarios" eg:"{lookup: {executor: constant-arrival-rate, request: GET /}}" each:"scenario %s" item:"{executor: constant-arrival-rate, rate: 100/s, duration: 30s, request: GET /}" least:"1" list:"a mapping with a scenario in it" names:"scenario"`

	// A k6 script in place of scenarios: its path relative to this file, or
	// script and env. The k6 that is installed runs it. Only for measure: load.
	K6 *K6 `key:"k6" eg:"script.js"`

	// How long one request may take, connecting included, and how long an
	// arrival waits for a free virtual user before it is dropped.
	Timeout time.Duration `key:"timeout" eg:"5s" default:"5s" min:"1ms"`

	// What requests are sent by. h2 is agreed upon in the TLS handshake over
	// https, and used with prior knowledge (h2c) over http.
	Protocol string `key:"protocol" eg:"h2" default:"http/1.1" enum:"http/1.1|h2"`

	// .proto files that describe the gRPC services that steps call, relative to this file:
	// one, or a list. A file imports others from its own directory, or one above. Without it
	// the server is asked, by reflection.
	Proto []string `key:"proto" eg:"shop.proto" least:"1" lone:"" path:"a .proto file"`

	// The most connections that are open at once, over all scenarios: a request
	// waits for one to come free, which counts in its response time. If not
	// given, every virtual user has its own.
	Connections int `key:"connections" eg:"100" max:"100000" min:"1"`

	// The machine's own addresses that connections come from, in turn: an address,
	// or a prefix for all that it covers. If not given, the system chooses. On
	// loopback every address of 127.0.0.0/8 will do: 127.1.0.0/20 stands for 4,096
	// clients, as a system with limits per address sees them. k6 calls it local-ips.
	LocalIPs []string `key:"localIPs" eg:"127.1.0.0/20" form:"prefix" least:"1" lone:""`

	// How many threads of the load generator share the load: half the
	// processors if not given.
	Threads int `key:"threads" eg:"1" max:"256" min:"1"`

	// Has the load generator never sleep, so that requests are on time to
	// microseconds where the machine's timers are late. It takes a whole
	// processor for each thread, which the system under load must not need.
	Spin bool `key:"spin" eg:"true" default:"false"`

	// Trusts any certificate, as k6's option of that name. In an experiment the
	// entry service is spoken to by https if this or tls is given.
	InsecureSkipTLSVerify bool `key:"insecureSkipTLSVerify" eg:"true" default:"false"`

	// Whose certificates are trusted; {} for those that the machine trusts. In
	// an experiment the entry service is spoken to by https if this is given.
	TLS *TLS `key:"tls" eg:"{caFile: ca.pem}"`

	// The base URL to load, or a list of them that connections are dealt to in
	// turn. Only loadstone load uses it: an experiment loads its entry service. A
	// k6 script is told one.
	Target Targets `key:"target" eg:"http://127.0.0.1:8080" form:"url" least:"1" lone:""`

	// The first part of the load, which is offered and not measured. With measure:
	// capacity it is how long each trial offers as much load as the system takes
	// before its search, so that runtimes, caches and databases are warm.
	Warmup time.Duration `key:"warmup" eg:"5s" default:"0s"`
}

// VariantLoad is what of the load a variant gets, if that is not all of it.
type VariantLoad struct {
	// The scenarios that are offered to the variant, by their names under load.
	Scenarios []string `key:"scenarios" eg:"[lookup]" form:"scenario" each:"scenario %d" least:"1" list:"a list of names" lone:"" unique:""`

	// What the variant's requests are sent by, if not by what load says.
	Protocol string `key:"protocol" eg:"h2" enum:"http/1.1|h2"`
}

// Scenarios are the scenarios in the order of the file.
type Scenarios []Scenario

// Targets are base URLs such as http://127.0.0.1:8080.
type Targets []string

// K6 is a k6 script that stands in for scenarios.
type K6 struct {
	// Path of the script, relative to this file.
	Script string `key:"script,need" eg:"script.js" path:"a k6 script"`
	// What the script finds in __ENV, by name.
	Env map[string]string `key:"env" eg:"{NAME: value}" list:"a mapping from names to values" names:"variable" scalar:"text"`
}

// TLS says whom to trust.
type TLS struct {
	// Path of a file of PEM certificates, relative to this file, that are
	// trusted in place of the machine's.
	CAFile string `key:"caFile" eg:"ca.pem" path:"a file of PEM certificates"`
	// The name that the certificate must be for, in place of the target's host.
	ServerName string `key:"serverName" eg:"example.org"`
}

// MaxSteps bounds the steps of all scenarios, as the load generator does.
const MaxSteps = 100

func (l *Offer) prepare(s *section) {
	s.fromSetup = setupOf(s.n)
	s.hints = map[string]hint{
		"thresholds": {"write them under slo, beside load", ""},
		"vus":        {"write it within a scenario", ""},
		"duration":   {"write it within a scenario", ""},
		"rate":       {"write it within a scenario", ""},
		"stages":     {"write them within a scenario", ""},
		"targets":    {"write target", "target"},
		"url":        {"write target", "target"},
	}
	if s.has("k6") {
		s.skipped = func(key string) bool { return key == "scenarios" }
	}
}

func (l *Offer) check(s *section) {
	l.checkTrust(s)
	l.checkOnce(s)
	l.checkCalls(s)
	if script := s.fields["k6"]; script.n != nil {
		l.checkScript(s, script)
		return
	}
	scenarios := s.fields["scenarios"]
	if scenarios.n == nil {
		s.lack("scenarios", scenarios.example)
	}
	steps := 0
	for i := range l.Scenarios {
		n := len(requests(l.Scenarios[i].Steps))
		if steps += n; steps > MaxSteps && steps-n <= MaxSteps {
			s.errorf(scenarios.n.pairs[i].key, "the scenarios have more than %d steps together; write fewer, or several files", MaxSteps)
		}
	}
	if length := l.length(); s.measure != Capacity && l.Warmup > 0 && length > 0 && l.Warmup >= length {
		f := s.fields["warmup"]
		s.errorf(f.n, "warmup %s leaves nothing to measure of a load of %s; write less, or a longer duration", f.n.text, length)
	}
}

// checkScript refuses beside a k6 script what it decides itself.
func (l *Offer) checkScript(s *section, script field) {
	for _, p := range s.n.pairs {
		if key := p.key.text; key != script.key && key != "target" && slices.Contains(s.known, key) {
			s.errorf(p.key, "the k6 script decides %s itself; remove it, or remove k6", key)
		}
	}
	if len(l.Target) > 1 {
		s.errorf(s.fields["target"].place, "a k6 script is told one target, and here are %d; write one", len(l.Target))
	}
	if script.given() && s.measure == Capacity {
		s.errorf(script.place, "measure: capacity sets the rate again and again, and that of a k6 script is in the script; write scenarios, or measure: load")
	}
}

// checkTrust checks whom to trust, and that it matters.
func (l *Offer) checkTrust(s *section) {
	if l.TLS != nil && l.TLS.CAFile != "" && l.InsecureSkipTLSVerify {
		s.errorf(s.fields["insecureSkipTLSVerify"].place, "insecureSkipTLSVerify trusts anybody, and tls.caFile says whom to trust; remove one of the two")
	}
	i := slices.IndexFunc(l.Target, func(target string) bool { return strings.HasPrefix(target, "http:") })
	if i >= 0 && (s.fields["tls"].given() || l.InsecureSkipTLSVerify) {
		s.errorf(s.fields["target"].place, "target %s has no TLS, and tls or insecureSkipTLSVerify is about it; write https://, or remove them", l.Target[i])
	}
}

// length is how long the load lasts; 0 if that is not known before: what is
// searched, or as long as an access log.
func (l *Offer) length() time.Duration {
	var longest time.Duration
	for i := range l.Scenarios {
		d := l.Scenarios[i].length()
		if d == 0 {
			return 0
		}
		longest = max(longest, l.Scenarios[i].StartTime+d)
	}
	return longest
}

// short reads the path of a script.
func (k *K6) short(f field) bool {
	if f.n.kind == mapping {
		return false
	}
	k.Script = f.path("a k6 script")
	return true
}

func (k *K6) prepare(s *section) {
	s.hints = map[string]hint{"args": {"write what the script needs as env: {NAME: value}, and k6's options into the script", ""}}
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

// rules say that a load is scenarios with what goes with them, or a k6 script
// alone.
func (*Offer) rules(s *schema) {
	var others []string
	for p := s.Properties.Oldest(); p != nil; p = p.Next() {
		if p.Key != "k6" && p.Key != "target" {
			others = append(others, p.Key)
		}
	}
	script := without(others...)
	script.Required = []string{"k6"}
	s.OneOf = []*schema{with("scenarios"), script}
}

func (*K6) shortSchema() *schema { return &schema{Type: "string", Pattern: nonEmpty} }
