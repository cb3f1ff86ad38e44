package experiment

import (
	"math"
	"strings"
	"testing"
	"time"
)

func raisedOf(t *testing.T, search, websocket string) (*Experiment, Raised) {
	t.Helper()
	e, err := Parse("x.yaml", []byte(`name: x
system: compose.yaml
entry: api
variants: {one: {}}
load:
  scenarios:
    chat:
      executor: constant-vus
      vus: 1000
      feed: {room: {zipf: [5, 104, 1]}}
      websocket: {path: "/ws?room={room}", `+websocket+`connectRate: 500/s}
slo: {ws_closed: [rate<0.01]}
`+search+`
measure: capacity
trials: 1
`))
	if err != nil {
		t.Fatal(err)
	}
	return e, e.Raised()
}

func TestWhatRises(t *testing.T) {
	t.Parallel()
	const sends = `message: "{id}", rate: 0.5/s, senders: 100, deliver: all, room: "{room}", slowClients: 300, `
	for name, c := range map[string]struct {
		search, websocket        string
		what, unit               string
		from, most, amount, want float64
		vus, senders, slow       int
		rate                     float64
		rooms                    int64
	}{
		"messages":       {"search: {maxRate: 5000/s}", sends, Messages, "messages/s", 50, 5000, 200, 200, 1000, 100, 300, 2, 104},
		"connections":    {"search: {raise: connections, maxVUs: 20000}", sends, Connections, "connections", 1000, 20000, 2000.4, 2000, 2000, 200, 600, 0.5, 104},
		"rooms":          {"search: {raise: rooms, maxVUs: 5000}", sends, Rooms, "rooms", 100, 500, 150, 150, 1500, 150, 450, 0.5, 154},
		"no half room":   {"search: {raise: rooms, maxVUs: 1015}", sends, Rooms, "rooms", 100, 101, 101, 101, 1010, 101, 303, 0.5, 105},
		"fewer rooms":    {"search: {raise: rooms}", sends, Rooms, "rooms", 100, 10000, 0.2, 1, 10, 1, 3, 0.5, 5},
		"who but listen": {"", "", Connections, "connections", 1000, 100000, 1500, 1500, 1500, 0, 0, 0, 104},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, r := raisedOf(t, c.search, c.websocket)
			if r.What != c.what || r.Unit() != c.unit || r.From != c.from || r.Most != c.most {
				t.Errorf("got %+v, want %s from %v to %v", r, c.what, c.from, c.most)
			}
			if e.Search.Budget != socketBudget || !e.Perturb.Off {
				t.Errorf("got a budget of %s, want %s, and nothing perturbed", e.Search.Budget, socketBudget)
			}
			base := e.Plan().Scenarios[0]
			s, amount := r.At(base, c.amount)
			w := s.WebSocket
			if amount != c.want || s.VUs != c.vus || w.Senders != c.senders || w.SlowClients != c.slow || w.Rate != c.rate || s.Feed["room"].Zipf.High != c.rooms {
				t.Errorf("got %v with %d clients, %+v, rooms %+v", amount, s.VUs, w, s.Feed["room"].Zipf)
			}
			if base.VUs != 1000 || base.Feed["room"].Zipf.High != 104 || base.WebSocket.Rate != e.Plan().Scenarios[0].WebSocket.Rate {
				t.Error("the scenario itself was changed")
			}
			if got, want := r.Messages(&base)*amount, float64(w.Senders)*w.Rate; math.Abs(got-want) > 0.6 {
				t.Errorf("got %v messages a second, want about %v", got, want)
			}
			if got, want := r.Settle(&s), time.Duration(c.vus)*2*time.Millisecond+time.Second; got != want {
				t.Errorf("got %s until all are connected, want %s", got, want)
			}
		})
	}
}

func TestALoadOfRequestsRaisesNothing(t *testing.T) {
	t.Parallel()
	e, err := Parse("x.yaml", []byte(strings.Join([]string{
		"name: x", "system: compose.yaml", "entry: api", "variants: {one: {}}",
		"load: {scenarios: {a: {executor: constant-arrival-rate, request: GET /}}}",
		"slo: {http_req_duration: [p(95)<200]}", "measure: capacity", "trials: 1",
	}, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	if r := e.Raised(); r.What != "" || e.Search.Budget != DefaultSearch().Budget {
		t.Errorf("got %+v and a budget of %s, want nothing", r, e.Search.Budget)
	}
}
