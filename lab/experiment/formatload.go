package experiment

import "time"

// Offer is what is offered to every variant: scenarios, or a k6 script.
type Offer struct {
	// k6's scenarios by name.
	Scenarios Scenarios `json:"scenarios,omitempty"`

	// A k6 script in place of scenarios: its path relative to this file, or
	// script and env. The k6 that is installed runs it. Only for measure: load.
	K6 *K6 `json:"k6,omitempty"`

	// How long one request may take, connecting included, and how long an
	// arrival waits for a free virtual user before it is dropped.
	Timeout time.Duration `json:"timeout,omitempty" jsonschema:"default=5s"`

	// What requests are sent by. h2 is agreed upon in the TLS handshake over
	// https, and used with prior knowledge (h2c) over http.
	Protocol string `json:"protocol,omitempty" jsonschema:"enum=http/1.1,enum=h2,default=http/1.1"`

	// The most connections that are open at once, over all scenarios: a request
	// waits for one to come free, which counts in its response time. If not
	// given, every virtual user has its own.
	Connections int `json:"connections,omitempty" jsonschema:"minimum=1,maximum=100000"`

	// How many threads of the load generator share the load: half the
	// processors if not given.
	Threads int `json:"threads,omitempty" jsonschema:"minimum=1,maximum=256"`

	// Has the load generator never sleep, so that requests are on time to
	// microseconds where the machine's timers are late. It takes a whole
	// processor for each thread, which the system under load must not need.
	Spin bool `json:"spin,omitempty" jsonschema:"default=false"`

	// Trusts any certificate, as k6's option of that name. In an experiment the
	// entry service is spoken to by https if this or tls is given.
	InsecureSkipTLSVerify bool `json:"insecureSkipTLSVerify,omitempty" jsonschema:"default=false"`

	// Whose certificates are trusted; {} for those that the machine trusts. In
	// an experiment the entry service is spoken to by https if this is given.
	TLS *TLS `json:"tls,omitempty"`

	// The base URL to load, or a list of them that connections are dealt to in
	// turn. Only loadstone load uses it: an experiment loads its entry service. A
	// k6 script is told one.
	Target Targets `json:"target,omitempty"`

	// The first part of the load, which is offered and not measured. measure:
	// capacity warms up each of its tries by itself.
	Warmup time.Duration `json:"warmup,omitempty" jsonschema:"default=0s"`

	// understood says that the load was read without an error.
	understood bool
}

// Targets are base URLs such as http://127.0.0.1:8080.
type Targets []string

// K6 is a k6 script that stands in for scenarios.
type K6 struct {
	// Path of the script, relative to this file.
	Script string `json:"script"`
	// What the script finds in __ENV, by name.
	Env map[string]string `json:"env,omitempty"`
}

// TLS says whom to trust.
type TLS struct {
	// Path of a file of PEM certificates, relative to this file, that are
	// trusted in place of the machine's.
	CAFile string `json:"caFile,omitempty"`
	// The name that the certificate must be for, in place of the target's host.
	ServerName string `json:"serverName,omitempty"`
}

// Scenarios are the scenarios in the order of the file.
type Scenarios []Scenario

// Scenario is one of k6's scenarios, with k6's options by k6's names, and what
// an iteration of it does: a request, steps, or a WebSocket client's work.
type Scenario struct {
	Name string `json:"-"`

	// How the load is shaped, by k6's names. The arrival-rate executors start
	// iterations at a rate, whatever the system answers (open model); the vus
	// executors keep a number of virtual users busy, and the iterations
	// executors do until a number of iterations is done (closed model). replay
	// repeats an access log.
	Executor string `json:"executor" jsonschema:"enum=shared-iterations,enum=per-vu-iterations,enum=constant-vus,enum=ramping-vus,enum=constant-arrival-rate,enum=ramping-arrival-rate,enum=replay"`

	// The request that is repeated: "GET /path", or method, path, headers and
	// body. {name} in the path, a header value or the body takes the next value
	// of the feed of that name.
	Request Request `json:"request,omitzero"`

	// The requests of an iteration, in place of request: all of them in turn,
	// or one of them if the scenario is weighted.
	Steps []Step `json:"steps,omitempty"`

	// Has each iteration make one of the steps, drawn by weight, in place of
	// all of them.
	Weighted bool `json:"weighted,omitempty" jsonschema:"default=false"`

	// Has a virtual user keep its cookies from one iteration to the next. They
	// last for one iteration otherwise, as in k6.
	KeepCookies bool `json:"keepCookies,omitempty" jsonschema:"default=false"`

	// The access log that executor: replay repeats.
	Replay *Replay `json:"replay,omitempty"`

	// What each virtual user of a vus executor does in place of requests: it is
	// a client with one WebSocket connection. Its path, or path and more.
	WebSocket *WebSocket `json:"websocket,omitempty"`

	// Where the values of the {placeholders} come from, by name.
	Feed map[string]Feed `json:"feed,omitempty"`

	// How long after the start of the load this scenario starts.
	StartTime time.Duration `json:"startTime,omitempty" jsonschema:"default=0s"`

	// How long what is under way at the end may take before it is cut off.
	GracefulStop time.Duration `json:"gracefulStop,omitempty" jsonschema:"default=30s"`

	// How long the load lasts. measure: capacity chooses it itself.
	Duration time.Duration `json:"duration,omitempty"`

	// How many iterations start, which are requests where an iteration is one:
	// 5000/s, 300/m or 1/h; a bare number beside timeUnit. For measure:
	// capacity it is where the search starts.
	Rate Rate `json:"rate,omitempty"`

	// The rate at the start of the first stage, 0/s if not given. For measure:
	// capacity it is where the search starts.
	StartRate Rate `json:"startRate,omitempty"`

	// What rates without a unit are counted by, as in k6: rate: 300 with
	// timeUnit: 1m is 300/m.
	TimeUnit time.Duration `json:"timeUnit,omitempty"`

	// The legs of the ramp, one after the other.
	Stages []Stage `json:"stages,omitempty"`

	// poisson spaces arrivals as many independent users do; uniform spaces them
	// evenly, as k6 does.
	Arrivals string `json:"arrivals,omitempty" jsonschema:"enum=poisson,enum=uniform,default=poisson"`

	// How many virtual users are made before the load starts: 64 if not given,
	// or maxVUs where that is lower.
	PreAllocatedVUs int `json:"preAllocatedVUs,omitempty" jsonschema:"minimum=1,maximum=100000"`

	// How many iterations may be under way at once: preAllocatedVUs if only
	// that is given, as in k6, and 1024 if neither is.
	MaxVUs int `json:"maxVUs,omitempty" jsonschema:"minimum=1,maximum=100000"`

	// How many virtual users there are, each of which begins an iteration when
	// its last one has ended.
	VUs int `json:"vus,omitempty" jsonschema:"minimum=1,maximum=100000"`

	// The number of virtual users at the start of the first stage.
	StartVUs int `json:"startVUs,omitempty" jsonschema:"minimum=0,maximum=100000,default=1"`

	// How many iterations are done: by all virtual users together
	// (shared-iterations), or by each of them (per-vu-iterations).
	Iterations uint64 `json:"iterations,omitempty" jsonschema:"minimum=1,maximum=1000000000000"`

	// How long the iterations may take; what is not begun by then is not done.
	MaxDuration time.Duration `json:"maxDuration,omitempty" jsonschema:"default=10m"`
}

// Stage is one leg of a ramp.
type Stage struct {
	// How long the leg takes; 0s jumps to the target at once.
	Duration time.Duration `json:"duration"`
	// What the leg ends at: a rate such as 5000/s (a bare number beside
	// timeUnit), or a number of virtual users.
	Target Target `json:"target"`
}

// Target is what a stage ends at: iterations per second for the arrival-rate
// executors, else virtual users.
type Target float64

// Rate is in iterations per second.
type Rate float64

// Step is one named request of an iteration.
type Step struct {
	// What the step is reported under, unique in its scenario: letters, digits,
	// dots, dashes and underscores, at most 63.
	Name string `json:"name"`
	// The request: "GET /path", or method, path, headers and body. {name} in
	// the path, a header value or the body takes the value of the feed of that
	// name, or what an earlier step extracted under it.
	Request Request `json:"request"`
	// The step's share of the iterations of a weighted scenario: 3 is three
	// times as often as 1.
	Weight float64 `json:"weight,omitempty" jsonschema:"default=1,minimum=0.001,maximum=1000"`
	// Values to take from the answer for later steps of the iteration, by the
	// name of their placeholder: a path into a JSON body (user.token, in
	// gjson's syntax, as in k6), {json: path}, or {header: Name}.
	Extract map[string]Extract `json:"extract,omitempty"`
	// What must be so of each answer, by a name of your choice: {status: 200},
	// {status: [200, 201]}, {contains: text}, {json: path} for a value that is
	// there, or {json: path, equals: value}. As in k6 a check that does not
	// hold is counted and is no failed request.
	Checks Checks `json:"checks,omitempty"`
	// How long the virtual user pauses after the step: 2s, or [1s, 3s] to draw
	// it between the two.
	Think Think `json:"think,omitzero"`
}

// Checks are checks in the order of the file.
type Checks []Check

// Check is a claim about an answer: exactly one of status, contains and json.
type Check struct {
	Name string `json:"-"`
	// The status that the answer has, or a list of those that it may have.
	Status []int `json:"status,omitempty"`
	// Text that is somewhere in the body.
	Contains string `json:"contains,omitempty"`
	// A path into a JSON body, in gjson's syntax, at which there is a value.
	JSON string `json:"json,omitempty"`
	// What the value at json reads as.
	Equals *string `json:"equals,omitempty"`
}

// Extract is where in an answer a value is: one of its keys.
type Extract struct {
	// A path into a JSON body, in gjson's syntax, such as items.0.id.
	JSON string `json:"json,omitempty"`
	// A header's name.
	Header string `json:"header,omitempty"`
}

// Think is a pause, drawn between its ends.
type Think [2]time.Duration

// Request is a request, written in full.
type Request struct {
	// The HTTP method, in capitals.
	Method string `json:"method"`
	// The path and query, such as /student/{id}?lang=en.
	Path string `json:"path"`
	// Header fields by name.
	Headers map[string]string `json:"headers,omitempty"`
	// The body as text.
	Body string `json:"body,omitempty"`
}

// Replay is an access log to repeat, each request at the log's own time.
type Replay struct {
	// Path of a web server's log in the combined (or common) format, relative
	// to this file.
	Log string `json:"log"`
	// How much faster than in the log: 2 is twice as fast, 0.5 half as fast.
	Speed float64 `json:"speed,omitempty" jsonschema:"default=1,minimum=0.001,maximum=1000"`
}

// WebSocket is what a WebSocket client does, in full.
type WebSocket struct {
	// The path and query that it connects to, such as /chat?room=1.
	Path string `json:"path"`
	// Header fields of the handshake, by name.
	Headers map[string]string `json:"headers,omitempty"`
	// The subprotocols that it offers, best first.
	Subprotocols []string `json:"subprotocols,omitempty"`

	// What a client sends, as text. {id} in it is replaced by the message's id,
	// by which it is known again where it arrives. Without a message clients
	// only listen.
	Message string `json:"message,omitempty"`
	// How many messages each sending client sends: 5/s, 300/m or 1/h.
	Rate Rate `json:"rate,omitempty"`
	// poisson spaces messages as independent people do; uniform spaces them
	// evenly.
	Arrivals string `json:"arrivals,omitempty" jsonschema:"enum=poisson,enum=uniform,default=poisson"`
	// How many of the clients send, the first of them: all if not given.
	Senders int `json:"senders,omitempty" jsonschema:"minimum=1,maximum=100000"`
	// Where a message must arrive: at the client that sent it (echo), at every
	// client that was connected (all), or nowhere (none). Each delivery is one
	// latency. echo if there is a message.
	Deliver string `json:"deliver,omitempty" jsonschema:"enum=echo,enum=all,enum=none"`

	// How many connections are opened per second at most.
	ConnectRate Rate `json:"connectRate,omitempty"`
	// Has a client whose connection ends open another after a pause; {} for the
	// usual pauses. Without it the client stays away.
	Reconnect *Reconnect `json:"reconnect,omitempty"`

	// How many of the clients, the last of them, read slowly.
	SlowClients int `json:"slowClients,omitempty" jsonschema:"minimum=1,maximum=100000"`
	// How many bytes a slow client reads per second: 1000/s.
	SlowRate Rate `json:"slowRate,omitempty"`
}

// Reconnect says how long a client waits before it connects again.
type Reconnect struct {
	// The first pause, which doubles with each try that fails.
	After time.Duration `json:"after,omitempty" jsonschema:"default=1s"`
	// The longest pause.
	Most time.Duration `json:"most,omitempty" jsonschema:"default=30s"`
}

// Feed supplies the values of one placeholder: exactly one of its keys but
// perVU.
type Feed struct {
	// Draws whole numbers at random from the first to the second, both included.
	Uniform *[2]int64 `json:"uniform,omitempty"`
	// Counts from the first to the second, both included, and starts again.
	Sequential *[2]int64 `json:"sequential,omitempty"`
	// Draws whole numbers, the lower the more often: [low, high, exponent], or
	// the three by name. An exponent of 1 is Zipf's law, 0.99 is YCSB's.
	Zipf *Zipf `json:"zipf,omitempty"`
	// Takes the rows of a CSV file, whose first line names the columns: its
	// path relative to this file, or file, column and order. {user.email} is
	// the column email of the feed user.
	CSV *Rows `json:"csv,omitempty"`
	// Takes the lines of a file, each a JSON object: its path relative to this
	// file, or file, column and order. {user.email} is the key email of the
	// feed user.
	JSONL *Rows `json:"jsonl,omitempty"`
	// Gives every virtual user a walk of its own through the values. They share
	// one otherwise.
	PerVU bool `json:"perVU,omitempty" jsonschema:"default=false"`
}

// Zipf is a Zipf distribution over whole numbers.
type Zipf struct {
	// The number that is drawn most.
	Low int64 `json:"low"`
	// The number that is drawn least.
	High int64 `json:"high"`
	// The k-th number is drawn with a probability proportional to k^-exponent.
	Exponent float64 `json:"exponent" jsonschema:"minimum=0.001,maximum=20"`
}

// Rows is a file of rows.
type Rows struct {
	// Path of the file, relative to this file.
	File string `json:"file"`
	// The column whose value {name} takes. Without it placeholders name their
	// column, as in {user.email}.
	Column string `json:"column,omitempty"`
	// sequential takes the rows in order, again and again; random draws them.
	Order string `json:"order,omitempty" jsonschema:"enum=sequential,enum=random,default=sequential"`
}
