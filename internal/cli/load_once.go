package cli

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"loadstone/lab/format"
	"loadstone/lab/load"
	"loadstone/lab/load/engine"
	"loadstone/lab/load/exchange"
	"loadstone/lab/load/failure"
	"loadstone/lab/load/httpclient"
	"loadstone/lab/load/rpc"
)

// once makes one request of each step of a load, one after the other, and prints requests
// and answers as they are on the wire. It is an error if one of them failed.
func (a *app) once(ctx context.Context, j job) error {
	log.SetOutput(io.Discard)
	plan, err := oncePlan(&j)
	if err != nil {
		return err
	}
	target, err := url.Parse(plan.Targets[0])
	if err != nil {
		return usageError{err}
	}
	trust, err := httpclient.TLSConfig(plan.TLS.CAFile, plan.TLS.ServerName, plan.TLS.InsecureSkipVerify)
	if err != nil {
		return usageError{err}
	}
	open, show := exchange.Open, a.showExchange
	if plan.Protocol == load.HTTP2 { // calls of gRPC
		open, show = exchange.OpenHTTP2, a.showCalls(ctx, &plan, target, trust)
	}
	var unanswered []error
	seen := func(e exchange.Exchange) {
		if e.Err != nil {
			unanswered = append(unanswered, e.Err)
		}
		show(e)
	}
	tap, err := open(ctx, exchange.Config{Target: target, TLS: trust, Timeout: plan.Timeout, Seen: seen})
	if err != nil {
		return err
	}
	plan.Targets, plan.TLS = []string{tap.URL()}, load.TLS{}
	for _, s := range scenarios(&plan) {
		for k := range s.Steps {
			setHost(&s.Steps[k].Request, target.Host)
		}
	}
	r, err := engine.Run(ctx, plan, nil, nil)
	if err = errors.Join(asUsage(err), tap.Close()); err != nil { // from here on nothing is seen
		return err
	}
	explain(&r, unanswered)
	return a.onceResult(&r)
}

// explain puts why the target gave no answer in the place of what the generator saw of it,
// which is no more than that whoever stands between the two closed the connection.
func explain(r *load.Result, unanswered []error) {
	if len(unanswered) == 0 {
		return
	}
	maps.DeleteFunc(r.Errors, func(kind string, _ load.ErrorCount) bool { return kind != failure.NoValue.String() })
	r.Errors["no answer"] = load.ErrorCount{Count: uint64(len(unanswered)), Example: unanswered[0].Error()}
}

// oncePlan is a plan of one iteration of each scenario, in which each step is made.
func oncePlan(j *job) (load.Plan, error) {
	p := j.plan
	if j.k6 != nil {
		return p, usagef("--once is for loads that this program sends; k6 run --iterations 1 --http-debug=full shows those of a script")
	}
	p.Warmup, p.Connections, p.Spin = 0, 0, false
	if !slices.ContainsFunc(scenarios(&p), (*load.Scenario).Calls) {
		p.Protocol = load.HTTP1 // what is on the wire is text
	}
	p.Scenarios = nil
	for _, s := range j.plan.Scenarios {
		if len(s.Steps) == 0 || s.WebSocket != nil {
			return p, usagef("--once shows requests, and scenario %s has none: it is a replay, or of WebSocket clients; leave --once out", s.Name)
		}
		s.Executor, s.VUs, s.Iterations, s.Stages, s.Weighted, s.CacheBytes = load.SharedIterations, 1, 1, nil, false, 0
		s.StartTime, s.GracefulStop = 0, p.Timeout
		s.Duration = p.Timeout * time.Duration(len(s.Steps)+1)
		s.Steps = slices.Clone(s.Steps)
		for i := range s.Steps {
			s.Steps[i].Think = [2]time.Duration{}
		}
		p.Scenarios = append(p.Scenarios, s)
	}
	return p, nil
}

// scenarios are all of a plan, with its setup and teardown.
func scenarios(p *load.Plan) []*load.Scenario {
	all := []*load.Scenario{p.Setup, p.Teardown}
	for i := range p.Scenarios {
		all = append(all, &p.Scenarios[i])
	}
	return slices.DeleteFunc(all, func(s *load.Scenario) bool { return s == nil })
}

// setHost has a request name the target that it is for.
func setHost(r *load.Request, host string) {
	header := map[string]string{}
	for name, value := range r.Header {
		if strings.EqualFold(name, "host") {
			host = value
			continue
		}
		header[name] = value
	}
	header["Host"] = host
	r.Header = header
}

// showCalls prints exchanges over HTTP/2 as showExchange does, with the messages of gRPC as
// JSON, as far as it is known what they are made of.
func (a *app) showCalls(ctx context.Context, p *load.Plan, target *url.URL, trust *tls.Config) func(exchange.Exchange) {
	var paths []string
	for _, s := range scenarios(p) {
		for i := range s.Steps {
			if q := &s.Steps[i].Request; q.GRPC {
				paths = append(paths, strings.TrimPrefix(q.Path, "/"))
			}
		}
	}
	methods := map[string]*rpc.Method{}
	if len(p.Protos) > 0 {
		if services, err := rpc.Compile(p.Protos); err == nil { //nolint:contextcheck // it waits for nobody
			methods, _ = services.Methods(paths) // the load says what is wrong with them
		}
	} else {
		port := "443"
		if target.Scheme != "https" {
			trust, port = nil, "80"
		}
		address := net.JoinHostPort(target.Hostname(), cmp.Or(target.Port(), port))
		methods, _ = rpc.Reflect(ctx, address, trust, paths) // as above
	}
	return func(e exchange.Exchange) {
		if m := methods[strings.TrimPrefix(e.Path, "/")]; m != nil {
			e.Request, e.Answer = asJSON(e.Request, m.DecodeRequest), asJSON(e.Answer, m.Decode)
		}
		a.showExchange(e)
	}
}

// asJSON is a raw message whose body is decoded, if it can be.
func asJSON(raw []byte, decode func(dst, frame []byte) ([]byte, error)) []byte {
	const between = "\r\n\r\n"
	head, body, _ := bytes.Cut(raw, []byte(between))
	if len(body) == 0 {
		return raw
	}
	text, err := decode(append(bytes.Clone(head), between...), body)
	if err != nil {
		return raw
	}
	return text
}

// showExchange prints a request and its answer in the way of curl -v.
func (a *app) showExchange(e exchange.Exchange) {
	var b strings.Builder
	writeMessage(&b, "> ", e.Request)
	if len(e.Answer) > 0 {
		writeMessage(&b, "< ", e.Answer)
	}
	for _, name := range slices.Sorted(maps.Keys(e.Trailer)) {
		for _, value := range e.Trailer[name] {
			fmt.Fprintf(&b, "< %s: %s\n", name, value)
		}
	}
	if e.Err != nil {
		fmt.Fprintf(&b, "* no answer: %v\n", e.Err)
	}
	fmt.Fprintf(&b, "* after %s\n\n", format.Milliseconds(float64(e.Took)/float64(time.Millisecond)))
	_, _ = io.WriteString(a.Stdout, b.String()) // as with any output, nobody may be listening
}

// mostBody is how much of a body is shown, in bytes.
const mostBody = 4 << 10

func writeMessage(b *strings.Builder, mark string, raw []byte) {
	head, body, _ := bytes.Cut(raw, []byte("\r\n\r\n"))
	for line := range strings.SplitSeq(string(head), "\r\n") {
		b.WriteString(mark + line + "\n")
	}
	b.WriteString(mark + "\n")
	switch shown := body[:min(len(body), mostBody)]; {
	case len(body) == 0:
	case !utf8.Valid(body) || bytes.IndexByte(body, 0) >= 0:
		fmt.Fprintf(b, "(%s that are no text)\n", format.Plural(len(body), "byte"))
	default:
		b.WriteString(strings.ToValidUTF8(string(shown), "?"))
		if shown[len(shown)-1] != '\n' {
			b.WriteByte('\n')
		}
		if more := len(body) - len(shown); more > 0 {
			fmt.Fprintf(b, "(and %s more)\n", format.Plural(more, "byte"))
		}
	}
}

// onceResult says what is not as the load expects.
func (a *app) onceResult(r *load.Result) error {
	for _, c := range r.Checks {
		mark := "✓"
		if c.Fails > 0 {
			mark = "✗"
		}
		fmt.Fprintf(a.Stdout, "%s %s\n", mark, c.Name)
	}
	failedChecks := slices.ContainsFunc(r.Checks, func(c load.CheckResult) bool { return c.Fails > 0 })
	switch {
	case r.Failed > 0:
		return fmt.Errorf("%d of %s failed: %s", r.Failed, format.Plural(r.Requests, "request"), r.Failures())
	case r.Requests == 0:
		return errors.New("no request was made")
	case failedChecks:
		return errors.New("not every check held")
	}
	return nil
}
