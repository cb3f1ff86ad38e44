package load

import (
	"net/http"
	"runtime"
	"time"

	"loadstone/lab/load/feed"
)

// The executors, by k6's names.
const (
	ConstantVUs         = "constant-vus"
	RampingVUs          = "ramping-vus"
	ConstantArrivalRate = "constant-arrival-rate"
	RampingArrivalRate  = "ramping-arrival-rate"
	SharedIterations    = "shared-iterations"
	PerVUIterations     = "per-vu-iterations"
)

// Replay is an executor that k6 has not: it repeats the requests of an access
// log at the log's own times, or faster or slower by a factor.
const Replay = "replay"

// The protocols that requests are sent by.
const (
	HTTP1 = "http/1.1"
	// HTTP2 is HTTP/2: by ALPN over https, with prior knowledge (h2c) over http.
	HTTP2 = "h2"
)

// The arrival processes of the open model.
const (
	// Poisson draws independent exponential gaps: what many independent
	// users look like, and the default.
	Poisson = "poisson"
	// Uniform spaces arrivals evenly, as k6 does.
	Uniform = "uniform"
)

// Plan is one piece of load, complete: everything that a generator process has
// to know to offer it, and nothing that it would have to ask for. It travels
// to the generator as one line of JSON.
type Plan struct {
	// Targets are the base URLs of the entry service's instances, such as
	// http://127.77.0.2:8080. Connections are dealt to them in turn.
	Targets []string `json:"targets"`

	Scenarios []Scenario `json:"scenarios"`

	// Seed fixes the arrival schedule and the feeds: the same seed offers the
	// same requests at the same times.
	Seed uint64 `json:"seed"`

	// Warmup is the first part of the load. Its requests are sent and not
	// recorded in the Result.
	Warmup time.Duration `json:"warmup"`

	// Timeout bounds one request, connecting included.
	Timeout time.Duration `json:"timeout"`

	// Protocol is HTTP1 or HTTP2; empty is HTTP1.
	Protocol string `json:"protocol,omitempty"`

	// TLS is how https and wss targets are spoken to.
	TLS TLS `json:"tls,omitzero"`

	// Connections caps the connections that are open at once, over all
	// scenarios: a request waits for one to come free, which counts in its
	// response time and not in its service time. Over HTTP/2 the virtual users
	// share that many connections. If it is 0, every virtual user has its own.
	Connections int `json:"connections,omitempty"`

	// Threads is how many event loops share the load, each on a thread of its
	// own; if it is 0, half the processors, and one at least.
	Threads int `json:"threads,omitempty"`

	// Spin has each event loop watch its sockets and the clock without ever
	// sleeping. Sends are then on time to microseconds where the machine's
	// timers are late, as in most virtual machines; it takes a whole processor
	// for each thread, which the system under load must not need.
	Spin bool `json:"spin,omitempty"`

	// StopOnOverload ends the load early once the work in flight grows
	// without doubt (see Trend), so that a search does not pay for a rate that
	// has already lost.
	StopOnOverload bool `json:"stop_on_overload"`
}

// TLS says whom to trust. By default it is whom the machine trusts, and the
// certificate must be for the target's host.
type TLS struct {
	// CAFile is a file of PEM certificates to trust in place of the machine's.
	CAFile string `json:"ca_file,omitempty"`
	// ServerName is the name that the certificate must be for, in place of the
	// target's host.
	ServerName string `json:"server_name,omitempty"`
	// InsecureSkipVerify trusts anybody. k6 calls it insecureSkipTLSVerify.
	InsecureSkipVerify bool `json:"insecure_skip_verify,omitempty"`
}

// Scenario is one k6 scenario with every unit resolved: rates are per second.
// Which fields count depends on Executor, as in k6.
type Scenario struct {
	Name     string `json:"name"`
	Executor string `json:"executor"`

	// StartTime delays the scenario within the plan; Duration is that of the
	// constant executors. GracefulStop is how long requests in flight at the
	// end may take before they are cut off and counted as failed.
	StartTime    time.Duration `json:"start_time"`
	Duration     time.Duration `json:"duration"`
	GracefulStop time.Duration `json:"graceful_stop"`

	// Open model. Rate and StartRate are in requests per second; a stage's
	// Target likewise. Arrivals is Poisson or Uniform. MaxVUs bounds the
	// requests under way at once: an arrival that finds none free waits, and is
	// dropped when it has waited for as long as the plan's Timeout.
	Rate            float64 `json:"rate"`
	StartRate       float64 `json:"start_rate"`
	Arrivals        string  `json:"arrivals"`
	PreAllocatedVUs int     `json:"pre_allocated_vus"`
	MaxVUs          int     `json:"max_vus"`

	// Closed model: a stage's Target is a number of virtual users.
	VUs      int `json:"vus"`
	StartVUs int `json:"start_vus"`

	Stages []Stage `json:"stages"`

	// Iterations are to be done by all users together (shared-iterations) or
	// by each (per-vu-iterations); Duration then bounds the time they have.
	Iterations uint64 `json:"iterations,omitempty"`

	// Steps are the requests of an iteration, one after the other. An
	// arrival-rate executor starts iterations, as in k6.
	Steps []Step `json:"steps"`
	// Weighted has each iteration make one of the steps, drawn by weight, in
	// place of all of them.
	Weighted bool `json:"weighted,omitempty"`
	// KeepCookies has a virtual user keep its cookies from one iteration to the
	// next. Without it they last for one iteration, as in k6.
	KeepCookies bool `json:"keep_cookies,omitempty"`

	// Feed supplies the values of the placeholders, by feed name.
	Feed map[string]feed.Feed `json:"feed"`

	// Log is what the replay executor repeats. It needs no Steps.
	Log *AccessLog `json:"log,omitempty"`

	// WebSocket is what each virtual user of a vus executor does in place of
	// Steps: it is a client with one WebSocket connection.
	WebSocket *WebSocket `json:"websocket,omitempty"`
}

// Open says whether the scenario's iterations come from a schedule.
func (s *Scenario) Open() bool {
	return s.Executor == ConstantArrivalRate || s.Executor == RampingArrivalRate || s.Executor == Replay
}

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
	// Checks are looked at on each answer. As in k6 a failed check is counted
	// and is no failed request.
	Checks []Check `json:"checks,omitempty"`
	// Think is how long the virtual user pauses after the step: uniformly drawn
	// between the two.
	Think [2]time.Duration `json:"think,omitzero"`
}

// Extract is where in an answer a value is: one of its fields.
type Extract struct {
	// JSON is a path into a JSON body in gjson's syntax, which k6 uses too.
	JSON string `json:"json,omitempty"`
	// Header is a header's name.
	Header string `json:"header,omitempty"`
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

// AccessLog is a web server's log in the combined (or common) format.
type AccessLog struct {
	Path string `json:"path"`
	// Speed divides the log's times: 2 is twice as fast. Above 0.
	Speed float64 `json:"speed"`
}

// WebSocket is what a client of a WebSocket scenario does.
type WebSocket struct {
	Path         string            `json:"path"`
	Header       map[string]string `json:"header,omitempty"`
	Subprotocols []string          `json:"subprotocols,omitempty"`

	// Message is what a client sends, as text. {id} in it is replaced by the
	// message's id, by which it is known again wherever it arrives.
	Message string `json:"message,omitempty"`
	// Rate is how many messages a sending client sends per second, at Arrivals
	// of its own; 0 to listen only.
	Rate float64 `json:"rate"`
	// Senders is how many of the clients send: the first of them.
	Senders int `json:"senders"`
	// Deliver says where a message must arrive: DeliverEcho, DeliverAll or
	// DeliverNone.
	Deliver string `json:"deliver"`

	// ConnectRate bounds the connections opened per second.
	ConnectRate float64 `json:"connect_rate"`
	// Reconnect has a client whose connection ends open another after a pause
	// that doubles from ReconnectAfter up to ReconnectMost; else it stays away.
	Reconnect      bool          `json:"reconnect,omitempty"`
	ReconnectAfter time.Duration `json:"reconnect_after,omitempty"`
	ReconnectMost  time.Duration `json:"reconnect_most,omitempty"`

	// SlowClients is how many of the clients, the last of them, read no faster
	// than SlowRate bytes per second.
	SlowClients int     `json:"slow_clients,omitempty"`
	SlowRate    float64 `json:"slow_rate,omitempty"`
}

// Where a WebSocket message must arrive.
const (
	// DeliverEcho: at the client that sent it.
	DeliverEcho = "echo"
	// DeliverAll: at every client of the scenario that was connected when it
	// was sent, the sender included.
	DeliverAll = "all"
	// DeliverNone: nowhere; messages are sent and not waited for.
	DeliverNone = "none"
)

// Stage is one leg of a ramp: Target is reached, linearly, after Duration.
type Stage struct {
	Duration time.Duration `json:"duration"`
	Target   float64       `json:"target"`
}

// Request is a request with placeholders: {name} in Path, in a header value or
// in Body is replaced by the next value of the feed of that name, or by what an
// earlier step extracted under that name.
type Request struct {
	Method string            `json:"method"`
	Path   string            `json:"path"`
	Header map[string]string `json:"header,omitempty"`
	Body   string            `json:"body,omitempty"`
}

// ThreadCount is how many event loops the plan is shared by.
func (p *Plan) ThreadCount() int {
	n := p.Threads
	if n == 0 {
		n = max(1, runtime.GOMAXPROCS(0)/2)
	}
	if p.Connections > 0 {
		n = min(n, p.Connections)
	}
	return n
}

// users is the most virtual users that the plan can have.
func (p *Plan) users() int {
	n := 0
	for i := range p.Scenarios {
		if s := &p.Scenarios[i]; s.WebSocket == nil {
			n += s.PeakVUs()
		}
	}
	return n
}

// PeakVUs is the most virtual users that the scenario can have.
func (s *Scenario) PeakVUs() int {
	if s.Open() {
		return s.MaxVUs
	}
	ramp := NewUserRamp(s)
	return ramp.Peak()
}

// CountsIterations says whether the scenario ends when its iterations are done.
func (s *Scenario) CountsIterations() bool {
	return s.Executor == SharedIterations || s.Executor == PerVUIterations
}

// SharesConnections says whether virtual users have to take turns on connections. Over
// HTTP/2 they share them without.
func (p *Plan) SharesConnections() bool {
	return p.Connections > 0 && p.Protocol != HTTP2 && p.Connections < p.users()
}

// StepNames are the names that the scenario's requests are reported under.
func (s *Scenario) StepNames() []string {
	switch {
	case s.Executor == Replay:
		return replayMethods
	case s.WebSocket != nil:
		return []string{"connect", "message"}
	}
	var names []string
	for i := range s.Steps {
		name := s.Steps[i].Name
		if name == "" {
			name = s.Name // a step that is alone needs no name of its own
		}
		names = append(names, name)
	}
	return names
}

// ChecksOf are the checks of the scenario's step k.
func (s *Scenario) ChecksOf(k int) []Check {
	if k >= len(s.Steps) {
		return nil // a replay's, or a WebSocket client's
	}
	return s.Steps[k].Checks
}

// Length is how long the plan offers load, warm-up included. A replay counts
// as no time, because its log has not been read.
func (p *Plan) Length() time.Duration {
	var end time.Duration
	for i := range p.Scenarios {
		s := &p.Scenarios[i]
		end = max(end, s.StartTime+s.Length())
	}
	return end
}

// replayMethods are the methods that can be repeated from a log: what had a body
// cannot.
var replayMethods = []string{http.MethodGet, http.MethodHead}
