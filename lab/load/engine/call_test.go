package engine

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	"loadstone/lab/load"
	"loadstone/lab/load/failure"
	"loadstone/lab/load/feed"
)

// checked is a server of grpc-go's own: its health service, which knows two services.
type checked struct {
	health.UnimplementedHealthServer
	mu    sync.Mutex
	asked []string
}

func (c *checked) Check(ctx context.Context, r *health.HealthCheckRequest) (*health.HealthCheckResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, strings.Join(append(md["x-token"], r.GetService()), " "))
	switch r.GetService() {
	case "":
		return &health.HealthCheckResponse{Status: health.HealthCheckResponse_SERVING}, nil
	case "serv\"ing é":
		return &health.HealthCheckResponse{Status: health.HealthCheckResponse_NOT_SERVING}, nil
	}
	return nil, status.Error(codes.NotFound, "no such service: "+r.GetService())
}

// serveChecked starts the server, with reflection if asked for.
func serveChecked(t *testing.T, reflects bool, options ...grpc.ServerOption) (*checked, string) {
	t.Helper()
	c := &checked{}
	s := grpc.NewServer(options...)
	health.RegisterHealthServer(s, c)
	if reflects {
		reflection.Register(s)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := s.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
	})
	t.Cleanup(func() { s.Stop(); serving.Wait() })
	return c, l.Addr().String()
}

const healthProto = `syntax = "proto3";
package grpc.health.v1;
import "google/protobuf/timestamp.proto";
import "status.proto";
message HealthCheckRequest { string service = 1; google.protobuf.Timestamp at = 15; }
message HealthCheckResponse { Status status = 1; }
service Health {
  rpc Check(HealthCheckRequest) returns (HealthCheckResponse);
  rpc Watch(HealthCheckRequest) returns (stream HealthCheckResponse);
}
`

// calls is a load of calls: of a message that is always the same, of one with a value, and
// of one that takes what an answer brought.
func calls(address string) load.Plan {
	check := func(name, message string) load.Step {
		return load.Step{Name: name, Request: load.Request{
			Method: "POST", Path: "/grpc.health.v1.Health/Check", Body: message, GRPC: true, Header: map[string]string{"X-Token": "t{n}"},
		}}
	}
	all, one, none := check("all", ""), check("one", `{"service": "serv\"{name}"}`), check("none", `{"service": "{status}"}`)
	notServing := "NOT_SERVING"
	one.Extract = map[string]load.Extract{"status": {JSON: "status"}}
	one.Checks = []load.Check{{Name: "not serving", JSON: "status", Equals: &notServing}}
	none.ExpectedStatuses = []int{404}
	return load.Plan{
		Targets: []string{"http://" + address}, Seed: 1, Timeout: time.Minute, Protocol: load.HTTP2,
		Scenarios: []load.Scenario{{
			Name: "c", Executor: load.SharedIterations, VUs: 2, Iterations: 6, Duration: 2 * time.Minute, GracefulStop: time.Second,
			Feed:  map[string]feed.Feed{"n": {Sequential: &[2]int64{1, 6}}, "name": {JSONL: &feed.File{Path: "", Column: "name"}}},
			Steps: []load.Step{all, one, none},
		}},
	}
}

// wantCalls runs a plan of calls and looks at what came of it.
func wantCalls(t *testing.T, c *checked, plan load.Plan) {
	t.Helper()
	names := filepath.Join(t.TempDir(), "names.jsonl")
	if err := os.WriteFile(names, []byte(`{"name": "ing é"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	plan.Scenarios[0].Feed["name"].JSONL.Path = names
	r, err := Run(t.Context(), plan, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.Requests != 18 || r.Failed > 0 || r.Status[200] != 12 || r.Status[404] != 6 || r.Iterations != 6 {
		t.Fatalf("%d requests, %d failed, statuses %v, errors %v; want 18, none failed, 12 of 200 and 6 of 404", r.Requests, r.Failed, r.Status, r.Errors)
	}
	wantChecks(t, r, "not serving 6/0")
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := map[string]int{}
	for _, asked := range c.asked {
		seen[asked]++
	}
	for _, want := range []string{"t1 ", "t6 ", "t3 serv\"ing é", "t4 NOT_SERVING"} {
		if seen[want] != 1 {
			t.Errorf("the server was asked %v; want %q once", seen, want)
		}
	}
}

func TestCallsByReflection(t *testing.T) {
	t.Parallel()
	c, address := serveChecked(t, true)
	wantCalls(t, c, calls(address))
}

func TestCallsByProto(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"health.proto": healthProto,
		"status.proto": "syntax = \"proto3\";\npackage grpc.health.v1;\nenum Status { UNKNOWN = 0; SERVING = 1; NOT_SERVING = 2; }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, address := serveChecked(t, false)
	plan := calls(address)
	plan.Protos, plan.Connections = []string{filepath.Join(dir, "health.proto")}, 1
	wantCalls(t, c, plan)
}

func TestCallsOverTLS(t *testing.T) {
	t.Parallel()
	certificate := certificateOf(t)
	c, address := serveChecked(t, true, grpc.Creds(credentials.NewServerTLSFromCert(&certificate)))
	plan := calls(address)
	plan.Targets[0], plan.TLS.InsecureSkipVerify = "https://"+address, true
	wantCalls(t, c, plan)
}

func TestCallsThatCannotBeMade(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.proto"), filepath.Join(dir, "bad.proto")
	for path, text := range map[string]string{
		good: strings.Replace(strings.Replace(healthProto, `import "status.proto";`, "", 1), "Status status", "string status", 1), bad: "syntax = \"proto3\";\nmessage {",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, address := serveChecked(t, false)
	for want, change := range map[string]func(*load.Plan){
		"does not describe it by server reflection": func(*load.Plan) {},
		"bad.proto:2:": func(p *load.Plan) { p.Protos = []string{bad} },
		`has no method "Chack": it has Check, Watch`:                                  func(p *load.Plan) { p.Scenarios[0].Steps[0].Request.Path = "/grpc.health.v1.Health/Chack" },
		"there is no service grpc.health.v2.Health":                                   func(p *load.Plan) { p.Scenarios[0].Steps[0].Request.Path = "/grpc.health.v2.Health/Check" },
		"is a stream, and a load makes unary calls":                                   func(p *load.Plan) { p.Scenarios[0].Steps[0].Request.Path = "/grpc.health.v1.Health/Watch" },
		`step "a": the message of Check is not a grpc.health.v1.HealthCheckRequest: `: func(p *load.Plan) { p.Scenarios[0].Steps[0].Request.Body = `{"servise": ""}` },
	} {
		plan := calls(address)
		plan.Scenarios[0].Feed = nil
		plan.Scenarios[0].Steps = []load.Step{{Name: "a", Request: load.Request{Method: "POST", Path: "/grpc.health.v1.Health/Check", GRPC: true}}}
		if !strings.Contains(want, "reflection") {
			plan.Protos = []string{good}
		}
		change(&plan)
		if _, err := Run(t.Context(), plan, nil, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// A value that makes the message none is a failure of that request, and what is not gRPC is
// one too.
func TestCallsThatFail(t *testing.T) {
	t.Parallel()
	c, address := serveChecked(t, true)
	plan := calls(address)
	s := &plan.Scenarios[0]
	s.Steps = s.Steps[:1]
	s.Steps[0].Request.Body, s.Steps[0].Request.Header = `{"service": {n}}`, nil
	delete(s.Feed, "name")
	r, _ := mustRun(t, plan)
	if e := r.Errors[failure.Protocol.String()]; r.Requests != 6 || e.Count != 6 || !strings.Contains(e.Example, "is not a grpc.health.v1.HealthCheckRequest") {
		t.Errorf("%d requests, errors %v; want 6 that could not be sent", r.Requests, r.Errors)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.asked) > 0 {
		t.Errorf("the server was asked %q", c.asked)
	}
}

// A proxy's answer counts as what it is, and what is no gRPC at all is a failure.
func TestCallsOfOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	proto := filepath.Join(dir, "health.proto")
	text := strings.Replace(strings.Replace(healthProto, `import "status.proto";`, "", 1), "Status status", "string status", 1)
	if err := os.WriteFile(proto, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for status, want := range map[int]string{http.StatusBadGateway: "", http.StatusOK: "it is not gRPC"} {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("TE") != "trailers" || r.Header.Get("Grpc-Timeout") != "60000000u" || r.Header.Get("Content-Type") != "application/grpc" {
				t.Errorf("asked with the header %v", r.Header)
			}
			w.WriteHeader(status)
			fmt.Fprint(w, "<h1>no gateway</h1>")
		}))
		s.Config.Protocols = new(http.Protocols)
		s.Config.Protocols.SetUnencryptedHTTP2(true)
		s.Start()
		plan := calls(s.Listener.Addr().String())
		plan.Protos = []string{proto}
		plan.Scenarios[0].Feed = nil
		plan.Scenarios[0].Steps = []load.Step{{
			Name: "a", Request: load.Request{Method: "POST", Path: "/grpc.health.v1.Health/Check", GRPC: true},
			Checks: []load.Check{{Name: "said", Contains: "no gateway"}},
		}}
		r, _ := mustRun(t, plan)
		s.Close()
		if want == "" && (r.Status[status] != 6 || r.Failed != 6 || r.Checks[0].Passes != 6) {
			t.Errorf("status %d: counted as %v, %d failed, checks %v; want it 6 times, failed, and its body", status, r.Status, r.Failed, r.Checks)
		}
		if e := r.Errors[failure.Protocol.String()]; want != "" && (e.Count != 6 || !strings.Contains(e.Example, want)) {
			t.Errorf("status %d: errors %v, want %s", status, r.Errors, want)
		}
	}
}

// certificateOf is one for 127.0.0.1.
func certificateOf(t *testing.T) tls.Certificate {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	return s.TLS.Certificates[0]
}
