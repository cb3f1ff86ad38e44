package threshold_test

import (
	"slices"
	"testing"
	"time"

	"loadstone/lab/load"
	"loadstone/lab/threshold"
)

// The scenarios that loads are made of here.
var (
	lookup = load.Scenario{Name: "lookup", Executor: load.ConstantArrivalRate, Steps: []load.Step{{Name: "student"}}}
	shop   = load.Scenario{Name: "shop", Executor: load.ConstantVUs, Steps: []load.Step{
		{Name: "login", Checks: []load.Check{{Name: "status is 200"}}}, {Name: "buy"},
	}}
	room   = load.Scenario{Name: "room", Executor: load.ConstantVUs, WebSocket: &load.WebSocket{}}
	replay = load.Scenario{Name: "yesterday", Executor: load.Replay, Log: &load.AccessLog{}}
)

func TestMetricsOfALoad(t *testing.T) {
	t.Parallel()
	every := []string{threshold.HTTPReqFailed, threshold.HTTPReqs, threshold.DataSent, threshold.DataReceived}
	http := append(slices.Clone(every), threshold.HTTPReqDuration, threshold.HTTPReqService, threshold.Iterations, threshold.IterationDuration)
	ws := []string{threshold.WSConnecting, threshold.WSMsgDuration, threshold.WSSessions, threshold.WSMsgsSent, threshold.WSMsgsReceived}
	tests := []struct {
		name      string
		scenarios []load.Scenario
		want      []string
	}{
		{"open", []load.Scenario{lookup}, append(slices.Clone(http), threshold.DroppedIterations)},
		{"replay", []load.Scenario{replay}, append(slices.Clone(http), threshold.DroppedIterations)},
		{"closed, with checks", []load.Scenario{shop}, append(slices.Clone(http), threshold.Checks)},
		{"WebSocket", []load.Scenario{room}, append(slices.Clone(every), ws...)},
		{"all of them", []load.Scenario{lookup, shop, room, replay}, metrics},
	}
	for _, tt := range tests {
		got := threshold.MetricsOf(tt.scenarios).Names()
		for _, m := range metrics {
			if slices.Contains(got, m) != slices.Contains(tt.want, m) {
				t.Errorf("%s: produces %s: got %v, want %v", tt.name, m, slices.Contains(got, m), slices.Contains(tt.want, m))
			}
		}
		for _, m := range got {
			mixes := tt.name == "all of them" && (m == threshold.HTTPReqDuration || m == threshold.HTTPReqService || m == threshold.IterationDuration)
			err := threshold.MetricsOf(tt.scenarios).Check(parse(t, m+" "+threshold.Example(m)))
			if (err != nil) != mixes {
				t.Errorf("%s: Check of %s: got %v", tt.name, m, err)
			}
		}
	}
}

func TestCheckSaysWhatToWriteInstead(t *testing.T) {
	t.Parallel()
	tests := []struct {
		scenarios []load.Scenario
		text      string
		want      string // empty: it is good
	}{
		{[]load.Scenario{shop}, "dropped_iterations count<5", "dropped_iterations is not produced by virtual users, who drop nothing; write an arrival-rate executor, or remove it"},
		{[]load.Scenario{lookup}, "checks rate>0.9", "the load has no checks; write some in a step of the scenario, or remove the threshold"},
		{[]load.Scenario{lookup}, "ws_sessions count>5", "ws_sessions is of WebSocket scenarios, and the load has none; write one of: http_req_duration, http_req_service, http_req_failed, http_reqs, iterations, iteration_duration, dropped_iterations, data_sent, data_received"},
		{[]load.Scenario{room}, "http_req_duration p(95)<5", "http_req_duration is of HTTP requests, and the load has WebSocket scenarios only; write one of: http_req_failed, http_reqs, data_sent, data_received, ws_connecting, ws_msg_duration, ws_msgs_lost, ws_msgs_duplicates, ws_closed, ws_sessions, ws_msgs_sent, ws_msgs_received"},

		{[]load.Scenario{lookup, shop}, "http_req_duration{scenario:shop,step:buy} p(95)<5", ""},
		{[]load.Scenario{lookup, shop}, "http_req_duration{scenario:shops} p(95)<5", `the load has no scenario "shops" for http_req_duration; write "shop"`},
		{[]load.Scenario{lookup, shop}, "http_req_duration{scenario:lookup,step:buy} p(95)<5", `the load has no step "buy" for http_req_duration; write "student"`},
		{[]load.Scenario{lookup, shop}, "http_reqs{name:cart} rate>5", `the load has no step "cart" for http_reqs; write one of: "student", "login", "buy"`},
		{[]load.Scenario{replay}, "http_reqs{step:a} rate>5", "there is no step for http_reqs{step:a} to select; remove it from the selector"},
		{[]load.Scenario{shop}, "checks{check:status is 200} rate>0.9", ""},
		{[]load.Scenario{shop}, "checks{check:status is 20} rate>0.9", `the load has no check "status is 20" for checks; write "status is 200"`},
		{[]load.Scenario{shop}, "checks{step:buy,check:status is 200} rate>0.9", "there is no check for checks{step:buy,check:status is 200} to select; remove it from the selector"},

		{[]load.Scenario{shop, room}, "http_req_duration p(95)<5", "http_req_duration would mix HTTP requests with WebSocket messages; write http_req_duration{scenario:shop}, and ws_msg_duration for the messages"},
		{[]load.Scenario{shop, room}, "http_req_service{scenario:room} p(95)<5", "http_req_service{scenario:room} selects WebSocket clients; write ws_msg_duration or ws_connecting in place of http_req_service"},
		{[]load.Scenario{shop, room}, "http_req_service{step:message} p(95)<5", "http_req_service{step:message} would mix HTTP requests with WebSocket messages; write http_req_service{scenario:shop}, and ws_msg_duration for the messages"},
		{[]load.Scenario{shop, room}, "http_req_duration{scenario:shop} p(95)<5", ""},
		{[]load.Scenario{shop, room}, "http_req_duration{step:login} p(95)<5", ""},
		{[]load.Scenario{shop, room}, "http_req_failed rate<0.1", ""},
		{[]load.Scenario{shop, room}, "ws_connecting{scenario:room} p(95)<5", ""},
		{[]load.Scenario{shop, room}, "ws_connecting{scenario:rom} p(95)<5", `the load has no scenario "rom" for ws_connecting; write "room"`},
	}
	for _, tt := range tests {
		err := threshold.MetricsOf(tt.scenarios).Check(parse(t, tt.text))
		if got := sentence(err); got != tt.want {
			t.Errorf("Check(%s)\n got %s\nwant %s", tt.text, got, tt.want)
		}
	}
	if err := threshold.MetricsOf([]load.Scenario{lookup}).Check(threshold.Threshold{Metric: "vus"}); err == nil {
		t.Error("Check takes a metric that there is not")
	}
}

func sentence(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestCheckOfThresholdsThatEndTheLoad(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text  string
		abort bool
		delay time.Duration
		want  string
	}{
		{"http_req_duration{scenario:shop} p(95)<5 over 10s", true, 10 * time.Second, ""},
		{"http_reqs count<500", true, 0, ""},
		{"http_reqs count>500 over 10s", true, 0, ""},
		{"http_reqs count>500", true, 0, "http_reqs count>500 can be met until the load has ended, and so cannot end it; write the threshold without abortOnFail"},
		{"ws_msgs_sent count<5", true, 0, "ws_msgs_sent is known only when the load has ended, and cannot end it; write the threshold without abortOnFail"},
		{"checks{step:login} rate>0.9", true, 0, "checks{step:login} is known only when the load has ended, and cannot end it; write the threshold without abortOnFail"},
		{"http_reqs rate>5", false, time.Second, "delayAbortEval says when to begin to end the load, and the threshold does not end it; write abortOnFail: true beside it, or leave it out"},
		{"http_reqs rate>5", true, -time.Second, "delayAbortEval is negative (-1s); write a time such as 10s, or leave it out"},
	}
	for _, tt := range tests {
		x := parse(t, tt.text)
		x.AbortOnFail, x.DelayAbortEval = tt.abort, tt.delay
		if got := sentence(threshold.MetricsOf([]load.Scenario{shop, room}).Check(x)); got != tt.want {
			t.Errorf("Check(%s)\n got %s\nwant %s", tt.text, got, tt.want)
		}
	}
}
