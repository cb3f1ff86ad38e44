package load

import (
	"slices"
	"strings"
	"time"
)

// Step is one named request of an iteration.
type Step struct {
	// Name is what the step is reported under, unique in its scenario.
	Name    string  `json:"name"`
	Request Request `json:"request"`
	// Weight is the step's share of the iterations of a Weighted scenario.
	Weight float64 `json:"weight,omitempty"`
	// Extract takes values from the answer, by the name of the placeholder that
	// later steps of the same iteration use them by.
	Extract map[string]Extract `json:"extract,omitempty"`
	// ExpectedStatuses are the statuses of answers that have not failed; without any,
	// those below 400 are. k6 sets them by http.expectedStatuses.
	ExpectedStatuses []int `json:"expected_statuses,omitempty"`
	// Checks are looked at on each answer. As in k6 a failed check is counted
	// and is no failed request.
	Checks []Check `json:"checks,omitempty"`
	// Think is how long the virtual user pauses after the step: uniformly drawn
	// between the two.
	Think [2]time.Duration `json:"think,omitzero"`
}

// Calls says whether a step is a call of gRPC.
func (s *Scenario) Calls() bool {
	return slices.ContainsFunc(s.Steps, func(step Step) bool { return step.Request.GRPC })
}

// Expects reports whether an answer of that status has not failed.
func (s *Step) Expects(status int) bool {
	if len(s.ExpectedStatuses) == 0 {
		return status < 400
	}
	return slices.Contains(s.ExpectedStatuses, status)
}

// Extract is where in an answer a value is: JSON or Header.
type Extract struct {
	// JSON is a path into a JSON body in gjson's syntax, which k6 uses too.
	JSON string `json:"json,omitempty"`
	// Header is a header's name.
	Header string `json:"header,omitempty"`
	// Join makes one value of a JSON list: its values, in turn, with this text between
	// them. If it is empty, the value is what is at the path.
	Join string `json:"join,omitempty"`
	// Metric has the values be in the Result: numbers from 0 to MaxValue, true and false.
	Metric bool `json:"metric,omitempty"`
	// Default is the value where an answer has none, which would fail otherwise; nil if
	// there is none.
	Default *string `json:"default,omitempty"`
	// Initial is the value that the placeholder has in an iteration before a step has
	// extracted one; nil if that cannot be.
	Initial *string `json:"initial,omitempty"`
}

// Metrics are the names of the values that are in the Result, in alphabetical order.
func (s *Step) Metrics() []string {
	var out []string
	for name := range s.Extract {
		if s.Extract[name].Metric {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// Check is a claim about an answer: exactly one of Status, Contains and JSON.
type Check struct {
	// Name is what it is reported under.
	Name string `json:"name"`
	// Status holds if the answer's status is one of these.
	Status []int `json:"status,omitempty"`
	// Contains holds if the body has this text in it.
	Contains string `json:"contains,omitempty"`
	// JSON is a path (see Extract); the check holds if there is a value there,
	// and if it reads as Equals where that is given.
	JSON   string  `json:"json,omitempty"`
	Equals *string `json:"equals,omitempty"`
}

// Request is a request with placeholders: {name} in Path, in a header value or
// in its body is replaced by the next value of the feed of that name, or by what an
// earlier step extracted under that name. At most one of Body, Form and Multipart is
// given; see Pieces for what each becomes.
type Request struct {
	Method string            `json:"method"`
	Path   string            `json:"path"`
	Header map[string]string `json:"header,omitempty"`
	Body   string            `json:"body,omitempty"`
	// Form are the fields of a form that is sent as application/x-www-form-urlencoded.
	Form map[string]string `json:"form,omitempty"`
	// GRPC says that the request is a unary call of gRPC: Path is /package.Service/Method,
	// Body the message as JSON, and Header the metadata. The plan's Protocol is HTTP2 then.
	// An answer counts as the HTTP status that its code stands for (google.rpc.Code).
	GRPC bool `json:"grpc,omitempty"`
	// Multipart are the fields of a form that is sent as multipart/form-data, in turn.
	Multipart []FormField `json:"multipart,omitempty"`
}

// Line is the request in a line: GET /item/{id}, or gRPC shop.v1.Catalogue/GetItem.
func (r *Request) Line() string {
	if r.GRPC {
		return "gRPC " + strings.TrimPrefix(r.Path, "/")
	}
	return r.Method + " " + r.Path
}
