package nginx_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// Behind a load balancer clients are who it says, in what the API is told and in the limits.
// Nobody else is believed.
func TestBehindALoadBalancer(t *testing.T) {
	t.Parallel()
	program(t)
	free, holding := make(chan struct{}), atomic.Int64{}
	upstream := startFake(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/held" {
			holding.Add(1)
			<-free
		}
		said := strings.Split(r.Header.Get("X-Forwarded-For"), ", ")
		says(200, said[len(said)-1]+" "+r.Header.Get("X-Forwarded-Proto"))(w, r)
	})
	behind := map[string]string{"RESULTS_BALANCER": "127.0.0.7"}
	b := run(t, []string{upstream.address}, settings{env: behind})
	for name, c := range map[string]struct {
		source, forwarded, proto string
		want                     string
		secure                   bool
	}{
		"over TLS":                  {"127.0.0.7", "203.0.113.9", "https", "203.0.113.9 https", true},
		"without TLS":               {"127.0.0.7", "203.0.113.9", "http", "203.0.113.9 http", false},
		"the client lies":           {"127.0.0.7", "192.0.2.1, 203.0.113.9", "https", "203.0.113.9 https", true},
		"the balancer says nothing": {"127.0.0.7", "", "", "127.0.0.7 http", false},
		"by somebody else":          {"127.0.0.8", "203.0.113.9", "https", "127.0.0.8 http", false},
		"through it twice":          {"127.0.0.7", "203.0.113.9, 127.0.0.7", "https", "203.0.113.9 https", true},
	} {
		var headers []string
		if c.forwarded != "" {
			headers = []string{"X-Forwarded-For", c.forwarded, "X-Forwarded-Proto", c.proto}
		}
		got := ask(t, from(c.source), "GET http://"+b.http+"/student/1", nil, headers...)
		if got.status != 200 || got.body != c.want || (got.header.Get("Strict-Transport-Security") != "") != c.secure {
			t.Errorf("%s: got status %d, %q, %v; want %q, secure %v", name, got.status, got.body, got.header, c.want, c.secure)
		}
	}
	b = run(t, []string{upstream.address}, settings{env: behind, replace: []string{"limit_conn under_way 500", "limit_conn under_way 1", "proxy_read_timeout 7s", "proxy_read_timeout 60s"}})
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, err := try(t.Context(), from("127.0.0.7"), "GET http://"+b.http+"/held", nil, "X-Forwarded-For", "203.0.113.9"); err != nil {
			t.Error(err)
		}
	}()
	wait(t, "the request is held", func() bool { return holding.Load() == 1 })
	for client, want := range map[string]int{"203.0.113.9": 429, "203.0.113.10": 200} {
		if got := ask(t, from("127.0.0.7"), "GET http://"+b.http+"/student/1", nil, "X-Forwarded-For", client); got.status != want {
			t.Errorf("%s: got status %d while a request of 203.0.113.9 is under way, want %d", client, got.status, want)
		}
	}
	close(free)
	<-done
}
