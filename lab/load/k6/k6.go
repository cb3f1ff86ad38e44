// Package k6 has the user's own k6 offer the load that a k6 script describes,
// and reads what k6 measures into the load package's words: a stream of
// load.Window while it runs, a load.Result at the end.
//
// k6 is a program of its own that this package starts, watches and ends; none
// of its code is in here. It writes its metrics as JSON lines into a pipe, so
// that nothing is kept on disk and memory does not grow with the load.
//
// What k6 cannot say is not made up. It has no intended time for a request, so
// what both Response and Service hold is its http_req_duration: sending,
// waiting and receiving, without connecting. A server that stalls hides behind
// that (coordinated omission); Report.Notes says so, and a summary must not call
// it response time. Nor does k6 know how late its requests were sent:
// Generator.Lateness is empty.
//
// What becomes of k6's metrics:
//
//	http_req_duration    Requests, Status, Response, Service, Steps by the tag name
//	http_req_failed      Failed, and Errors by the tag error_code
//	iteration_duration   Journeys by scenario
//	iterations           Iterations; dropped_iterations: Dropped; both: Offered
//	checks               Checks by the tag check
//	data_sent, _received Sent, Received
//	vus                  InFlight of a Window, MaxInFlight: active users, an upper bound
//	ws_*                 WebSocket
//
// What the script's setup and teardown do is no load and is left out.
package k6

import (
	"errors"
	"fmt"
	"io"
	"os/exec"

	"loadstone/lab/load"
)

// Version is the release of k6 that this package is tested with.
const Version = "v1.8.1"

// The variables that tell the script where the load goes, unless Config.Env
// sets them: `http.get(__ENV.BASE_URL + "/student/1")`.
const (
	BaseURLVariable = "BASE_URL"
	TargetVariable  = "TARGET"
)

// Config is what to run.
type Config struct {
	// Binary is the k6 program, as Find returns it.
	Binary string
	// Script is the k6 script, relative to Dir.
	Script string
	// Dir is the directory that k6 runs in; empty is the caller's.
	Dir string
	// Env is added to the environment of the caller. A script reads it as
	// __ENV; k6 itself reads the variables that begin with K6_.
	Env map[string]string
	// Target is the base URL of the system under load, such as
	// http://127.77.0.2:8080. If it is not empty the script finds it in
	// BaseURLVariable and TargetVariable.
	Target string
	// Log takes what k6 prints: its log and its own summary.
	Log io.Writer
}

// Report is what came of a run of k6.
type Report struct {
	// Result holds k6's figures; From and To are those of its first request's
	// beginning and its last point.
	Result load.Result
	// Failed says why k6 holds that the test failed, in k6's own words: its
	// thresholds were crossed, or the script marked it so. Empty if it did not.
	Failed string
	// Notes say what in Result is not what the words promise. There is always
	// one: that k6 measures service time only.
	Notes []string
}

// ServiceTimeOnly is the note that every Report has.
const ServiceTimeOnly = "k6 measures service time only (http_req_duration: from sending to the end of the answer, without connecting); " +
	"it has no intended time, so there is no response time, and a server that stalls looks better than it is"

// Find returns the path of k6, which lookPath (such as exec.LookPath) knows.
// Its error says how to get k6.
func Find(lookPath func(name string) (string, error)) (string, error) {
	path, err := lookPath("k6")
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return "", fmt.Errorf("a k6 script needs k6, which is not on PATH: "+
			"install the package k6 of your system or of k6's own package repository, or build it with `go install go.k6.io/k6@%s`: %w", Version, err)
	}
	if err != nil {
		return "", fmt.Errorf("a k6 script needs k6: %w; write its directory into PATH in full", err)
	}
	return path, nil
}

// variables are what is added to the caller's environment, as NAME=value.
func (c *Config) variables() []string {
	var vars []string
	if c.Target != "" {
		vars = append(vars, BaseURLVariable+"="+c.Target, TargetVariable+"="+c.Target)
	}
	for name, value := range c.Env {
		vars = append(vars, name+"="+value) // the last of two counts
	}
	return vars
}
