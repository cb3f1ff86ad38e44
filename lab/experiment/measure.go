package experiment

import "time"

// Search says how measure: capacity searches.
type Search struct {
	// How much load one trial may offer in total, probes and confirmation
	// together; starting the variant and load.warmup are not counted.
	// For WebSocket clients, who have to connect for each attempt, it is 2m if not given.
	Budget time.Duration `key:"budget" eg:"11s" default:"11s" min:"1s"`

	// How long the highest rate that was sustained is offered once more at the end of each
	// trial, in addition to the budget. If it does not last, the next lower one is, up to
	// three in all, and the report says so. Without it that rate is offered for 3/20 of the budget.
	Hold time.Duration `key:"hold" eg:"60s" min:"1s"`

	// What rises, of WebSocket clients: connections is how many there are; messages is how
	// many messages a second they send, all together; rooms is how many rooms there are,
	// each with as many clients on average as the scenario has. If not given it is
	// messages, or connections where clients only listen.
	Raise string `key:"raise" eg:"connections" enum:"connections|messages|rooms"`

	// How close the search gets to the capacity: 5% or 0.05.
	Tolerance Share `key:"tolerance" eg:"5%" default:"5%" max:"0.5" min:"0.001"`

	// The highest rate that is tried. A variant that sustains it is reported as
	// sustaining at least that.
	MaxRate Rate `key:"maxRate" eg:"100000/s" default:"100000/s"`

	// The most connections that are tried, with raise: connections or rooms.
	MaxVUs int `key:"maxVUs" eg:"20000" default:"100000" max:"100000" min:"1"`
}

// What rises in a search with WebSocket clients.
const (
	Connections = "connections"
	Messages    = "messages"
	Rooms       = "rooms"
)

// socketBudget is that of a search with WebSocket clients: each attempt opens all
// connections anew.
const socketBudget = 2 * time.Minute

// Share is a part of one: 0.05 is 5 %.
type Share float64

// Rate is in iterations per second.
type Rate float64

// DefaultSearch returns the search of an experiment that says nothing about it.
func DefaultSearch() Search {
	var search Search
	fillIn(&search)
	return search
}

// Perturb says whether and for how long to perturb.
type Perturb struct {
	// How long it may take, for each variant: at least 10s. It ends earlier once
	// its intervals are narrow.
	Budget time.Duration `key:"budget" eg:"30s" default:"30s" min:"10s"`

	// Asked and Off are true and false in the file; neither is the default.
	Asked bool
	Off   bool
}

// DefaultPerturbBudget is that of an experiment that asks to be perturbed and
// says no more.
const DefaultPerturbBudget = 30 * time.Second

// short reads true or false.
func (p *Perturb) short(f field) bool {
	if f.n.kind == boolean {
		p.Asked = f.boolean()
		p.Off = !p.Asked
	}
	return f.n.kind == boolean
}

func (p *Perturb) check(*section) { p.Asked = true }

func (*Perturb) shortSchema() *schema { return &schema{Type: "boolean"} }
