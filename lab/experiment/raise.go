package experiment

import (
	"maps"
	"math"
	"time"

	"loadstone/block/spelling"
	"loadstone/lab/load"
	"loadstone/lab/load/feed"
)

// checkRaised fills in what rises in the search for capacity, and what follows from it.
func (e *Experiment) checkRaised(s *section) {
	var clients *WebSocket
	if len(e.Load.Scenarios) > 0 {
		clients = e.Load.Scenarios[0].WebSocket
	}
	search := s.fields["search"]
	given := func(key string) (pair, bool) {
		if !search.given() {
			return pair{}, false
		}
		return search.n.pair(key)
	}
	raise, raised := given("raise")
	most, bounded := given("maxVUs")
	switch {
	case clients == nil && raised:
		s.errorf(raise.key, "raise is about WebSocket clients, and the load has none; remove it: what rises is the rate")
	case clients == nil && bounded:
		s.errorf(most.key, "maxVUs is about WebSocket clients, and the load has none; write maxRate")
	}
	if clients == nil {
		return
	}
	if _, ok := given("budget"); !ok {
		e.Search.Budget = socketBudget
	}
	if e.Search.Raise == "" {
		e.Search.Raise = Messages
		if clients.Message == "" {
			e.Search.Raise = Connections
		}
	}
	if s.fields["perturb"].given() && !e.Perturb.Off {
		s.errorf(s.fields["perturb"].place, "perturb changes resources under a steady rate of requests, and this load has WebSocket clients; remove perturb")
	}
	e.Perturb = Perturb{Off: true}
}

// checkSearchedClients checks WebSocket clients of which something is to rise.
func (e *Experiment) checkSearchedClients(s *section, sc *Scenario, at pair) {
	w := sc.WebSocket
	executor, _ := at.value.pair("executor")
	message, _ := at.value.pair("websocket")
	switch {
	case sc.Executor != load.ConstantVUs:
		s.errorf(executor.value, "measure: capacity holds what it tries, and %s moves; write executor: constant-vus, or measure: load", sc.Executor)
	case sc.VUs == 0: // reported
	case e.Search.Raise == Messages && w.Message == "":
		s.errorf(message.value, "raise: messages needs clients that send; write message: '{id}', or raise: connections")
	case e.Search.Raise == Messages && float64(w.Rate)*float64(w.Senders) > float64(e.Search.MaxRate):
		s.errorf(message.value, "scenario %s starts above the search's maxRate, %g/s; write a lower rate, or a higher maxRate", spelling.Quote(sc.Name), float64(e.Search.MaxRate))
	case e.Search.Raise != Messages && sc.VUs > e.Search.MaxVUs:
		vus, _ := at.value.pair("vus")
		s.errorf(vus.value, "scenario %s starts above the search's maxVUs, %d; write fewer vus, or a higher maxVUs", spelling.Quote(sc.Name), e.Search.MaxVUs)
	case e.Search.Raise == Rooms && sc.roomFeed() == "":
		s.errorf(message.value, "raise: rooms needs rooms to count; write room: '{room}', and a feed of that name such as {zipf: [1, 100, 1]}")
	}
}

// roomFeed is the feed of whole numbers that says which room a client is in; "" if it is
// none.
func (sc *Scenario) roomFeed() string {
	m := placeholderForm.FindStringSubmatch(sc.WebSocket.Room)
	if m == nil || m[0] != sc.WebSocket.Room {
		return ""
	}
	f, ok := sc.Feed[m[1]]
	if !ok || f.Uniform == nil && f.Sequential == nil && f.Zipf == nil {
		return ""
	}
	return m[1]
}

// Raised is what rises in a search with WebSocket clients.
type Raised struct {
	// What is Connections, Messages or Rooms; "" for a load of requests, whose rate rises.
	What string
	// From is where the search starts, and Most what it goes up to.
	From, Most float64

	feed       string // of the rooms
	perRoom    float64
	senders    float64 // of all clients, the share
	listenOnly bool
}

// Unit is what an amount of what rises is in.
func (r *Raised) Unit() string {
	if r.What == Messages {
		return Messages + "/s"
	}
	return r.What
}

// Raised says what rises in the search of an experiment.
func (e *Experiment) Raised() Raised {
	if e.Measure != Capacity || len(e.Load.Scenarios) == 0 || e.Load.Scenarios[0].WebSocket == nil {
		return Raised{}
	}
	sc := &e.Load.Scenarios[0]
	w := sc.WebSocket
	r := Raised{What: e.Search.Raise, From: float64(sc.VUs), Most: float64(e.Search.MaxVUs), listenOnly: w.Message == ""}
	r.senders = float64(w.Senders) / float64(sc.VUs)
	switch r.What {
	case Messages:
		r.From, r.Most = float64(w.Rate)*float64(w.Senders), float64(e.Search.MaxRate)
	case Rooms:
		r.feed = sc.roomFeed()
		rooms := sc.Feed[r.feed]
		from, to := ends(rooms.resolve())
		r.From = float64(to - from + 1)
		r.perRoom = float64(sc.VUs) / r.From
		r.Most = max(1, math.Floor(r.Most/r.perRoom)) // or it would take more clients
	}
	return r
}

// At returns the scenario with so much of what rises, and how much that is exactly.
func (r *Raised) At(s load.Scenario, amount float64) (load.Scenario, float64) {
	w := *s.WebSocket
	s.WebSocket = &w
	if r.What == Messages {
		w.Rate = amount / float64(w.Senders)
		return s, amount
	}
	whole := max(1, int(amount+0.5))
	clients := whole
	if r.What == Rooms {
		clients = max(1, int(float64(whole)*r.perRoom+0.5))
		feeds := maps.Clone(s.Feed)
		feeds[r.feed] = widened(feeds[r.feed], int64(whole))
		s.Feed = feeds
	}
	w.SlowClients = int(float64(clients)*float64(w.SlowClients)/float64(s.VUs) + 0.5)
	s.VUs = clients
	if !r.listenOnly {
		w.Senders = min(clients, max(1, int(float64(clients)*r.senders+0.5)))
	}
	return s, float64(whole)
}

// Messages is how many messages a second are sent for one of what rises.
func (r *Raised) Messages(s *load.Scenario) float64 {
	each := r.senders * s.WebSocket.Rate
	switch {
	case r.listenOnly:
		return 0
	case r.What == Messages:
		return 1
	case r.What == Rooms:
		return each * r.perRoom
	}
	return each
}

// ends are the first and the last number of a feed of whole numbers.
func ends(f feed.Feed) (from, to int64) {
	switch {
	case f.Uniform != nil:
		return f.Uniform[0], f.Uniform[1]
	case f.Sequential != nil:
		return f.Sequential[0], f.Sequential[1]
	default:
		return f.Zipf.Low, f.Zipf.High
	}
}

// widened is a feed of n whole numbers that begins as f does.
func widened(f feed.Feed, n int64) feed.Feed {
	from, _ := ends(f)
	to := from + n - 1
	switch {
	case f.Uniform != nil:
		f.Uniform = &[2]int64{from, to}
	case f.Sequential != nil:
		f.Sequential = &[2]int64{from, to}
	default:
		f.Zipf = &feed.Zipf{Low: from, High: to, Exponent: f.Zipf.Exponent}
	}
	return f
}

// Settle is how long after its start a load with so many clients has all of them
// connected, if the system accepts them in time.
func (r *Raised) Settle(s *load.Scenario) time.Duration {
	const joining = time.Second // twice what a client has at most, see engine's joinAfter
	return time.Duration(float64(s.VUs)/s.WebSocket.ConnectRate*float64(time.Second)) + joining
}
