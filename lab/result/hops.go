package result

// Hops is a map of the system by what passes between its services: who asks whom, how
// often and for how long.
type Hops struct {
	// Unseen is why it is not known, in some trial at least; empty if it is.
	Unseen string     `json:"unseen,omitempty"`
	Boxes  []HopBox   `json:"boxes,omitempty"`  // by name
	Arrows []HopArrow `json:"arrows,omitempty"` // by who asks and who is asked
}

// HopBox is who is asked: a service or, where Outside, an address that is none of the file's.
type HopBox struct {
	Name    string `json:"name"`
	Outside bool   `json:"outside,omitempty"`
	// Visits is how often it is asked for each request of the load.
	Visits float64 `json:"visits"`
	// MS is the time of one visit at the capacity, from the last byte of the request to the
	// first of its answer and less what it waited for others; LightMS at a tenth of the
	// capacity, nil if that was not seen.
	MS      float64  `json:"ms"`
	LightMS *float64 `json:"light_ms,omitempty"`
}

// HopArrow is who asks whom at the capacity.
type HopArrow struct {
	From string `json:"from,omitempty"` // a service; empty for the load
	To   string `json:"to"`
	// PerRequest is how often it does for each request of the load, MS how long one of
	// these takes, and InFlight how many are under way on average.
	PerRequest float64 `json:"per_request"`
	MS         float64 `json:"ms"`
	InFlight   float64 `json:"in_flight"`
	// Stalled is how many pauses of 40 ms there are for each of them.
	Stalled float64 `json:"stalled,omitempty"`
}
