package result

// Fault is what one fault cost a variant. Over several trials every figure is
// the worst that any of them had.
type Fault struct {
	What string  `json:"what"` // "kill api-1"
	At   float64 `json:"at"`   // seconds since the load began
	// Trials is in how many trials it was carried out.
	Trials int `json:"trials"`
	// Back is after how many seconds everything was there again; absent if in
	// some trial it was not while the load lasted.
	Back *float64 `json:"back,omitempty"`
	// Recovered is after how many seconds the objectives held for good, second by
	// second; 0 if they always did, absent if in some trial they did not hold
	// at the end of the time that is put down to the fault.
	Recovered *float64 `json:"recovered,omitempty"`
	// BadSeconds are those in which they did not hold.
	BadSeconds int `json:"bad_seconds"`
	// Window is for how long the fault was felt, in seconds: until everything
	// was back and the objectives held. Failed are the requests that failed in
	// it, dropped arrivals included, and Kinds how.
	Window float64           `json:"window"`
	Failed uint64            `json:"failed"`
	Kinds  map[string]uint64 `json:"kinds,omitempty"`
	// Response times before, in and after the window. What is absent had no
	// answers.
	Before *FaultFigures `json:"before,omitempty"`
	During *FaultFigures `json:"during,omitempty"`
	After  *FaultFigures `json:"after,omitempty"`
	// Watched are the watched metrics, as far as they are known then.
	Watched []FaultWatched `json:"watched,omitempty"`
}

// FaultFigures are response times in milliseconds.
type FaultFigures struct {
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
}

// FaultWatched is a watched metric around a fault: its mean before it and the
// most of any second in its window.
type FaultWatched struct {
	Name   string   `json:"name"`
	Before *float64 `json:"before,omitempty"`
	Most   *float64 `json:"most,omitempty"`
}

// Course is one trial second by second. All lists have one entry for each second.
type Course struct {
	Trial   int       `json:"trial"`
	Seconds []float64 `json:"seconds"` // since the load began, at each second's start
	Rate    []float64 `json:"rate"`    // requests answered per second
	Failed  []float64 `json:"failed"`  // requests failed and arrivals dropped, per second
	// P95 is of response times in ms; null where nothing was answered.
	P95     []*float64     `json:"p95"`
	Watched []CourseMetric `json:"watched,omitempty"`
	Faults  []CourseFault  `json:"faults,omitempty"`
}

// CourseMetric is a watched metric; null where it is not known.
type CourseMetric struct {
	Name   string     `json:"name"`
	As     string     `json:"as"` // rate or value
	Values []*float64 `json:"values"`
}

// CourseFault is when a fault was under way: from when it was asked for until
// everything was back, or the load ended.
type CourseFault struct {
	What string  `json:"what"`
	From float64 `json:"from"` // seconds since the load began
	To   float64 `json:"to"`
}
