package k6

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// point is one line of k6's JSON output, of type Point: one sample of one
// metric. Only the tags that are used here are read.
type point struct {
	Metric string `json:"metric"`
	Type   string `json:"type"`
	Data   struct {
		Time  time.Time `json:"time"`
		Value float64   `json:"value"`
		Tags  tags      `json:"tags"`
	} `json:"data"`
}

type tags struct {
	Name      string `json:"name"`
	Scenario  string `json:"scenario"`
	Status    string `json:"status"`
	Group     string `json:"group"`
	ErrorCode string `json:"error_code"`
	Error     string `json:"error"`
	Check     string `json:"check"`
	URL       string `json:"url"`
}

// read are the metrics that count; see the package's comment.
var read = map[string]bool{
	"http_req_duration": true, "http_req_failed": true, "iterations": true, "iteration_duration": true, "dropped_iterations": true,
	"checks": true, "data_sent": true, "data_received": true, "vus": true,
	"ws_sessions": true, "ws_msgs_sent": true, "ws_msgs_received": true,
}

// How a point's line begins as k6 writes it.
var lineStart = []byte(`{"metric":"`)

// decode reads one line. It returns false for a good line that does not matter:
// another metric, a metric's description, or what setup and teardown did.
//
// Most lines do not matter: k6 writes nine for each request. Those are told
// from their beginning, which costs a fiftieth of decoding them; a k6 that
// writes its keys in another order costs more and is understood all the same.
func decode(line []byte) (point, bool, error) {
	if rest, ok := bytes.CutPrefix(line, lineStart); ok {
		if name, _, ok := bytes.Cut(rest, []byte{'"'}); ok && !read[string(name)] && bytes.HasSuffix(line, []byte{'}'}) {
			return point{}, false, nil
		}
	}
	var p point
	if err := json.Unmarshal(line, &p); err != nil {
		return point{}, false, err
	}
	switch p.Type {
	case "Metric":
		return point{}, false, nil
	case "Point":
	default:
		return point{}, false, fmt.Errorf("its type is %q, want Point or Metric", p.Type)
	}
	if !read[p.Metric] || strings.HasPrefix(p.Data.Tags.Group, "::setup") || strings.HasPrefix(p.Data.Tags.Group, "::teardown") {
		return point{}, false, nil
	}
	// A counter's value is a number of things, far below this; beyond it a
	// float64 no longer counts by one.
	if p.Data.Time.IsZero() || p.Data.Value < 0 || p.Data.Value > 1<<53 || math.IsNaN(p.Data.Value) {
		return point{}, false, errors.New("its time or value is no measurement")
	}
	return p, true, nil
}
