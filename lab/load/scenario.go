package load

import (
	"net/http"
	"slices"
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

// The arrival processes of the open model.
const (
	// Poisson draws independent exponential gaps: what many independent
	// users look like, and the default.
	Poisson = "poisson"
	// Uniform spaces arrivals evenly, as k6 does.
	Uniform = "uniform"
)

// Scenario is one k6 scenario with every unit resolved: rates are per second. It
// is flat, as k6's is; which fields count depends on its executor.
type Scenario struct {
	Name string `json:"name"`
	// Executor says when requests are sent. Open model: constant-arrival-rate (with a
	// rate and a duration), ramping-arrival-rate (a start rate and stages), replay (a
	// log). Closed model: constant-vus (users and a duration), ramping-vus (start users
	// and stages), shared-iterations and per-vu-iterations (users, iterations and a
	// duration).
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
	Rate      float64 `json:"rate"`
	StartRate float64 `json:"start_rate"`
	Arrivals  string  `json:"arrivals"`
	// Stratum is how many Poisson arrivals come, no more and no less, in the time in which so
	// many are due, each moment of it equally likely: a short load then offers its rate, and not a tenth more
	// or less by chance. 0 leaves that to chance. FirstStratum is how many the first one has, if
	// these are fewer.
	Stratum         int `json:"stratum,omitempty"`
	FirstStratum    int `json:"first_stratum,omitempty"`
	PreAllocatedVUs int `json:"pre_allocated_vus"`
	MaxVUs          int `json:"max_vus"`

	// Closed model: a stage's Target is a number of virtual users.
	VUs      int `json:"vus"`
	StartVUs int `json:"start_vus"`
	// MaxRate bounds how many iterations a second all users together begin, evenly; 0 is as
	// many as they can.
	MaxRate float64 `json:"max_rate,omitempty"`
	// RetryAfter is how long after an iteration of which a request failed began its user begins
	// the next at the earliest, and twice as long for each further one that fails, up to
	// RetryMost: so a client tries again. 0 is at once.
	RetryAfter time.Duration `json:"retry_after,omitempty"`
	RetryMost  time.Duration `json:"retry_most,omitempty"`

	Stages []Stage `json:"stages"`

	// Iterations are to be done by all users together (shared-iterations) or
	// by each (per-vu-iterations); Duration then bounds the time they have.
	Iterations uint64 `json:"iterations,omitempty"`

	// Steps are the requests of an iteration, one after the other. An
	// arrival-rate executor starts iterations, as in k6.
	Steps []Step `json:"steps"`
	// Flow is in which order, how often and how many at once the steps are made,
	// where that is not each once, one after the other.
	Flow []Part `json:"flow,omitempty"`
	// Weighted has each iteration make one of the steps, drawn by weight, in
	// place of all of them.
	Weighted bool `json:"weighted,omitempty"`
	// KeepCookies has a virtual user keep its cookies from one iteration to the
	// next. Without it they last for one iteration, as in k6.
	KeepCookies bool `json:"keep_cookies,omitempty"`

	// CacheBytes bounds each virtual user's private HTTP cache, which it keeps from one
	// iteration to the next; 0 is none.
	CacheBytes int64 `json:"cache_bytes,omitempty"`

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

// AccessLog is a web server's log in the combined (or common) format.
type AccessLog struct {
	Path string `json:"path"`
	// Speed divides the log's times: 2 is twice as fast. Above 0.
	Speed float64 `json:"speed"`
}

// WebSocket is what a client of a WebSocket scenario does.
//
// Path, the values of Header, Room, Hello and Message may have placeholders of the scenario's
// feeds, and of what Login extracts. A client has one value for each as long as it stays:
// that of its own number, and another when it has left and joins again.
type WebSocket struct {
	// Login is a request that each client makes once, before it first connects; nil for none.
	Login *Login `json:"login,omitempty"`

	Path         string            `json:"path"`
	Header       map[string]string `json:"header,omitempty"`
	Subprotocols []string          `json:"subprotocols,omitempty"`

	// Room is what a client is in: a message that must arrive everywhere must do so at the
	// clients whose Room is the same text. If it is empty, all are in one.
	Room string `json:"room,omitempty"`
	// Hello is sent once by each client when its connection is open; empty for nothing.
	Hello string `json:"hello,omitempty"`
	// Joined is in the message by which the server tells a client that it has joined: from
	// then on what is sent to all is due at it. If it is empty, that is so from a
	// while after the handshake.
	Joined string `json:"joined,omitempty"`
	// Lifetime is between which times a client stays before it leaves and joins again,
	// uniformly drawn; 0 for as long as there is load.
	Lifetime [2]time.Duration `json:"lifetime,omitzero"`
	// Ping is how often a client sends a ping; 0 for never.
	Ping time.Duration `json:"ping,omitempty"`

	// Message is what a client sends, as text. {id} in it is replaced by the
	// message's id, by which it is known again wherever it arrives.
	Message string `json:"message,omitempty"`
	// Ack and Refused are in the messages by which the server tells a sender that it has
	// accepted a message, or has not; the id in them says which. They are no deliveries. If
	// Ack is empty, none is waited for.
	Ack     string `json:"ack,omitempty"`
	Refused string `json:"refused,omitempty"`
	// Skipped is in the message by which the server tells a client how many messages it
	// left out for it: text, and {count} where the number stands. Empty for none.
	Skipped string `json:"skipped,omitempty"`
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
	// Recover is what a client that connects again says of what it has seen, by the names of
	// placeholders in Path, Header and Hello: in which texts of received messages the value
	// is, with RecoverValue or RecoverNext for where it stands. The last one received
	// counts; before the first the placeholder is empty.
	Recover map[string][]string `json:"recover,omitempty"`
	// Resend has a client that connects again send once more what no ack or refusal has come
	// for, with the same ids: for servers that take a message once by its id.
	Resend bool `json:"resend,omitempty"`

	// SlowClients is how many of the clients, the last of them, read no faster
	// than SlowRate bytes per second.
	SlowClients int     `json:"slow_clients,omitempty"`
	SlowRate    float64 `json:"slow_rate,omitempty"`
}

// What stands for the value in a text of Recover.
const (
	RecoverValue = "{value}"
	RecoverNext  = "{value+1}" // the value is one more than the whole number there
)

// Login is a request whose answer has values that a client needs to connect.
type Login struct {
	Request Request            `json:"request"`
	Extract map[string]Extract `json:"extract,omitempty"`
}

// The names of a WebSocket scenario's steps.
const (
	StepConnect = "connect" // a handshake
	StepMessage = "message" // a message's delivery to one client
	// StepSession is a connection that was ended by the server, or lost. Leaving as
	// planned is none.
	StepSession = "session"
	StepAck     = "ack"
	// StepRefused is a message that the server did not accept. It has no ack, and is due nowhere.
	StepRefused = "refused"
	StepPing    = "ping"
	StepLogin   = "login"
)

// Aside says whether the times of a WebSocket scenario's step are in its own distribution only,
// and not in those of the whole load: what a message takes is not to be mixed with what a
// login or a ping does.
func Aside(socketStep string) bool { return socketStep != StepConnect && socketStep != StepMessage }

// steps are those of the scenario.
func (w *WebSocket) steps() []string {
	steps := []string{StepConnect, StepMessage, StepSession}
	if w.Ack != "" {
		steps = append(steps, StepAck)
	}
	if w.Refused != "" {
		steps = append(steps, StepRefused)
	}
	if w.Ping > 0 {
		steps = append(steps, StepPing)
	}
	if w.Login != nil {
		steps = append(steps, StepLogin)
	}
	return steps
}

// Where a WebSocket message must arrive.
const (
	// DeliverEcho: at the client that sent it.
	DeliverEcho = "echo"
	// DeliverAll: at every client of the sender's room that had joined when it was
	// sent, the sender included. Who was thrown out since counts.
	DeliverAll = "all"
	// DeliverNone: nowhere; messages are sent and not waited for.
	DeliverNone = "none"
)

// Stage is one leg of a ramp: Target is reached, linearly, after Duration.
type Stage struct {
	Duration time.Duration `json:"duration"`
	Target   float64       `json:"target"`
}

// PeakVUs is the most virtual users that the scenario can have.
func (s *Scenario) PeakVUs() int {
	if s.Open() {
		return s.MaxVUs
	}
	ramp := NewUserRamp(s)
	return ramp.Peak()
}

// OneRequest says whether an iteration is one request and no more, so that it takes as
// long as the request does. Only other iterations are journeys.
func (s *Scenario) OneRequest() bool {
	switch {
	case s.WebSocket != nil || s.Executor == Replay:
		return true
	case s.Flow != nil || s.CacheBytes > 0 || len(s.Steps) > 1 && !s.Weighted:
		return false
	}
	return !slices.ContainsFunc(s.Steps, func(step Step) bool { return step.Think[1] > 0 })
}

// CountsIterations says whether the scenario ends when its iterations are done.
func (s *Scenario) CountsIterations() bool {
	return s.Executor == SharedIterations || s.Executor == PerVUIterations
}

// StepNames are the names that the scenario's requests are reported under.
func (s *Scenario) StepNames() []string {
	switch {
	case s.Executor == Replay:
		return replayMethods
	case s.WebSocket != nil:
		return s.WebSocket.steps()
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

// replayMethods are the methods that can be repeated from a log: what had a body
// cannot.
var replayMethods = []string{http.MethodGet, http.MethodHead}
