package capacity

import (
	"strings"
	"testing"
	"time"

	"loadstone/lab/load"
	"loadstone/lab/threshold"
)

func TestRaisedTries(t *testing.T) {
	t.Parallel()
	begin := time.Unix(1_800_000_000, 0)
	good := func() *load.Result {
		return &load.Result{
			From: begin, To: begin.Add(10 * time.Second), Offered: 50_000, Requests: 50_000, Iterations: 50_000,
			WebSocket: &load.WebSocketResult{Clients: 500, LeastOpen: 499, Connects: 500, Sent: 1000, Delivered: 50_000},
			Generator: load.Generator{Cores: 2, Busy: 0.5},
		}
	}
	for name, c := range map[string]struct {
		unit    string
		amount  float64
		change  func(*load.Result)
		missed  bool
		want    string // in the reason; empty if it is held
		limited bool
	}{
		"held":            {unit: "connections", amount: 500},
		"messages":        {unit: "messages/s", amount: 100},
		"not all there":   {unit: "connections", amount: 500, change: func(r *load.Result) { r.WebSocket.LeastOpen = 400 }, want: "400 of 500 clients were connected at the fewest"},
		"nobody":          {unit: "connections", amount: 500, change: func(r *load.Result) { r.WebSocket.Connects = 0 }, want: "nobody could connect"},
		"dropped":         {unit: "messages/s", amount: 100, change: func(r *load.Result) { r.Dropped = 50 }, want: "50 of 1050 messages could not be sent"},
		"refused":         {unit: "messages/s", amount: 100, change: func(r *load.Result) { r.WebSocket.Acked, r.WebSocket.Refused = 980, 20 }, want: "20 of 1000 messages were not accepted"},
		"few refused":     {unit: "messages/s", amount: 100, change: func(r *load.Result) { r.WebSocket.Acked, r.WebSocket.Refused = 990, 10 }},
		"an objective":    {unit: "rooms", amount: 50, missed: true, want: "ws_closed rate<0.1: it was 0.8"},
		"ended early":     {unit: "rooms", amount: 50, change: func(r *load.Result) { r.Aborted = "somebody ended it" }, want: "somebody ended it"},
		"too little sent": {unit: "messages/s", amount: 200, want: "sent 100 messages a second in place of 200", limited: true},
		"who was refused sends nothing": {
			unit: "messages/s", amount: 200, change: func(r *load.Result) { r.WebSocket.LeastOpen = 250 },
			want: "250 of 500 clients were connected at the fewest",
		},
		"generator at its": {unit: "connections", amount: 500, missed: true, change: func(r *load.Result) { r.Generator.Busy = 1.95 }, want: "the load generator used", limited: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := good()
			if c.change != nil {
				c.change(r)
			}
			var outcomes []threshold.Outcome
			if c.missed {
				outcomes = []threshold.Outcome{{Metric: "ws_closed", Threshold: "rate<0.1", Observed: 0.8}}
			}
			got := NewRaisedTry(c.unit, c.amount, r, outcomes)
			if got.Held != (c.want == "") || !strings.Contains(got.Reason, c.want) || got.GeneratorLimited != c.limited || got.Unit != c.unit || got.Rate != c.amount {
				t.Errorf("got %+v, want %q", got, c.want)
			}
			if want := uint64(c.amount * 10); r.IterationsInTime != want || r.Offered != want {
				t.Errorf("got %d iterations of %d offered, want %d: one for each second", r.IterationsInTime, r.Offered, want)
			}
		})
	}
}

// What has too few messages for its percentile says nothing about the system, whether the
// objective was met or not; another objective that was missed does.
func TestTooFewMessagesDecideNothing(t *testing.T) {
	t.Parallel()
	begin := time.Unix(1_800_000_000, 0)
	for name, c := range map[string]struct {
		acks         uint64
		met, closed  bool
		held, decide bool
	}{
		"enough":                     {acks: 100, met: true, held: true, decide: true},
		"enough, missed":             {acks: 100, decide: true},
		"too few":                    {acks: 99, met: true},
		"too few, missed":            {acks: 99},
		"too few, and another fails": {acks: 99, met: true, closed: true, decide: true},
	} {
		r := &load.Result{
			From: begin, To: begin.Add(10 * time.Second),
			Steps:     []load.StepResult{{Scenario: "chat", Name: load.StepAck, Requests: c.acks}},
			WebSocket: &load.WebSocketResult{Clients: 5, LeastOpen: 5, Connects: 5, Sent: c.acks},
		}
		got := NewRaisedTry("connections", 5, r, []threshold.Outcome{
			{Metric: "ws_ack_duration", Threshold: "p(99)<250", Observed: 300, Met: c.met},
			{Metric: "ws_closed", Threshold: "rate<0.1", Met: !c.closed},
			{Metric: "ws_ack_duration", Threshold: "max<500", Met: true},
		})
		if got.Held != c.held || got.GeneratorLimited == c.decide || got.Unit != "connections" || r.Iterations != 50 {
			t.Errorf("%s: got %+v, want held %v and decided %v", name, got, c.held, c.decide)
		}
		if !c.decide && !strings.Contains(got.Reason, "is judged by 100 times or more, and the load had 99 of step ack") {
			t.Errorf("%s: got %q, want what there was too little of", name, got.Reason)
		}
	}
}

func TestAttemptsHaveEnoughMessages(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"ws_msg_duration p(99)<250": 1000, "ws_ack_duration p(99.9)<1000": 10000, "ws_ping p(95)<10": 200,
		"ws_msg_duration max<250": 200, "ws_msg_duration p(100)<250": 200, "ws_connecting p(99)<250": 200,
	} {
		metric, expression, _ := strings.Cut(text, " ")
		o, err := threshold.Parse(metric, expression)
		if err != nil {
			t.Fatal(err)
		}
		if got := MinMessages([]threshold.Threshold{o}); got != want {
			t.Errorf("%s: got %d, want %d", text, got, want)
		}
	}
}
