package httpapi_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"loadstone/system/results/httpapi"
	"loadstone/system/results/httpapi/guard"
)

// clock is set by hand.
type clock struct{ at atomic.Int64 }

func (c *clock) now() time.Time       { return time.Unix(0, c.at.Load()) }
func (c *clock) set(at time.Time)     { c.at.Store(at.UnixNano()) }
func (c *clock) pass(d time.Duration) { c.at.Add(int64(d)) }
func clockAt(at time.Time) *clock     { c := &clock{}; c.set(at); return c }
func limits(change func(*guard.Config)) *guard.Config {
	c := guard.DefaultConfig()
	change(&c)
	return &c
}

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

const rightCode = "X-Access-Code: " + code

// The same steps for a known and an unknown id, through wrong codes, lock-out and
// its end, are answered with the same bytes.
func TestLockOutTellsNobodyWhoExists(t *testing.T) {
	t.Parallel()
	clock := clockAt(noon)
	f := startWith(t, httpapi.Config{
		Store: students, Access: httpapi.Code, Now: clock.now,
		Limits: limits(func(c *guard.Config) { c.Tries, c.Window = 3, 10*time.Minute }),
	})
	ask := func(id int, headers ...string) (answer, string) {
		raw := f.ask(t, "GET", "/student/"+strconv.Itoa(id), headers...)
		return parse(t, "GET", raw), date.ReplaceAllString(string(raw), "")
	}
	const unknownID = 5
	for i, want := range []int{404, 404, 404, 429, 429, 404} {
		if i == 5 {
			clock.pass(10 * time.Minute)
		}
		known, knownRaw := ask(knownID, "X-Access-Code: wrong")
		_, unknownRaw := ask(unknownID, "X-Access-Code: wrong")
		if known.status != want || knownRaw != unknownRaw {
			t.Errorf("wrong code %d: want status %d for both, got\nknown id:   %q\nunknown id: %q", i+1, want, knownRaw, unknownRaw)
		}
		if want == 429 {
			checkHeaders(t, known, map[string]string{"Retry-After": "600", "Cache-Control": "no-store"})
			if got := errorCode(t, known.body); got != "locked_out" {
				t.Errorf("got error %q, want locked_out", got)
			}
		}
	}
	if got, _ := ask(knownID, rightCode); got.status != 200 {
		t.Errorf("the right code after the lock-out: got status %d, want 200", got.status)
	}
	if got := f.sum(t, "results_refused_total", "locked_out"); got != 4 {
		t.Errorf("locked out: got %v, want 4", got)
	}
}

func TestLockedOutRightCode(t *testing.T) {
	t.Parallel()
	proxies, err := guard.ParseProxies("127.0.0.0/8")
	if err != nil {
		t.Fatal(err)
	}
	f := startWith(t, httpapi.Config{
		Store: students, Access: httpapi.Code, Now: clockAt(noon).now,
		Limits: limits(func(*guard.Config) {}), Proxies: proxies,
	})
	ask := func(from, code string) int {
		headers := []string{"X-Forwarded-For: 203.0.113.99, " + from}
		if code != "" {
			headers = append(headers, code)
		}
		return parse(t, "GET", f.ask(t, "GET", "/student/123456", headers...)).status
	}
	for range 5 {
		ask("198.51.100.1", "X-Access-Code: wrong")
	}
	for _, c := range []struct {
		name, from, code string
		want             int
	}{
		{"the right code from there", "198.51.100.1", rightCode, 429},
		{"no code from there", "198.51.100.1", "", 404},
		{"the right code from elsewhere", "198.51.100.2", rightCode, 200},
	} {
		if got := ask(c.from, c.code); got != c.want {
			t.Errorf("%s: got status %d, want %d", c.name, got, c.want)
		}
	}
	// No code is no try.
	for range 10 {
		ask("198.51.100.3", "")
	}
	if got := ask("198.51.100.3", rightCode); got != 200 {
		t.Errorf("the right code after none: got status %d, want 200", got)
	}
}

func TestRateLimit(t *testing.T) {
	t.Parallel()
	proxies, err := guard.ParseProxies("127.0.0.0/8")
	if err != nil {
		t.Fatal(err)
	}
	clock := clockAt(noon)
	f := startWith(t, httpapi.Config{
		Store: students, Access: httpapi.Open, Now: clock.now,
		Limits: limits(func(c *guard.Config) { c.Rate, c.Burst = 0.5, 3 }), Proxies: proxies,
	})
	ask := func(target, forwarded string) answer {
		return parse(t, "GET", f.ask(t, "GET", target, "X-Forwarded-For: "+forwarded))
	}
	for i := range 3 { // each from another forged address on the left
		if got := ask("/student/123456", fmt.Sprintf("192.0.2.%d, 2001:db8::%d", i, i)); got.status != 200 {
			t.Errorf("request %d: got status %d, want 200", i+1, got.status)
		}
	}
	for _, target := range []string{"/student/123456", "/student/5", "/student/x", "/nothing", "/openapi.json"} {
		got := ask(target, "192.0.2.77, 2001:db8::ffff")
		if got.status != 429 || errorCode(t, got.body) != "rate_limited" {
			t.Errorf("%s beyond the burst: got status %d and %s, want 429 and rate_limited", target, got.status, got.body)
		}
		checkHeaders(t, got, map[string]string{"Retry-After": "2", "Cache-Control": "no-store"})
	}
	if got := ask("/student/123456", "2001:db8:0:1::1"); got.status != 200 {
		t.Errorf("another /64: got status %d, want 200", got.status)
	}
	for range 10 {
		if got := ask("/readyz", "2001:db8::1"); got.status != 200 {
			t.Errorf("probe: got status %d, want 200", got.status)
		}
	}
	clock.pass(2 * time.Second)
	if got := ask("/student/123456", "2001:db8::1"); got.status != 200 {
		t.Errorf("after Retry-After: got status %d, want 200", got.status)
	}
	if got := f.sum(t, "results_refused_total", "rate_limited"); got != 5 {
		t.Errorf("rate limited: got %v, want 5", got)
	}
}

// Without configured proxies the header is the client's own invention.
func TestForwardedIsNotBelieved(t *testing.T) {
	t.Parallel()
	f := startWith(t, httpapi.Config{
		Store: students, Access: httpapi.Open, Now: clockAt(noon).now,
		Limits: limits(func(c *guard.Config) { c.Rate, c.Burst = 1, 3 }),
	})
	passed := 0
	for i := range 10 {
		got := parse(t, "GET", f.ask(t, "GET", "/student/123456", fmt.Sprintf("X-Forwarded-For: 192.0.2.%d", i)))
		if got.status == 200 {
			passed++
		}
	}
	if passed != 3 {
		t.Errorf("got %d requests answered from forged addresses, want 3", passed)
	}
}

func TestEmbargo(t *testing.T) {
	t.Parallel()
	clock := clockAt(noon.Add(-90*time.Second - time.Nanosecond))
	publish := noon.In(time.FixedZone("EAT", 3*3600))
	f := startWith(t, httpapi.Config{Store: students, Access: httpapi.Code, Now: clock.now, PublishAt: &publish})
	ask := func(target string, headers ...string) (answer, string) {
		raw := f.ask(t, "GET", target, headers...)
		return parse(t, "GET", raw), date.ReplaceAllString(string(raw), "")
	}
	first, want := ask("/student/123456", rightCode)
	for _, target := range []string{"/student/123456", "/student/5", "/student/999999999999999999"} {
		for _, header := range []string{"A: b", rightCode, "X-Access-Code: wrong", "If-None-Match: " + etag, "If-None-Match: *"} {
			if _, got := ask(target, header); got != want {
				t.Errorf("%s with %q:\ngot  %q\nwant %q", target, header, got, want)
			}
		}
	}
	if first.status != 403 || errorCode(t, first.body) != "embargoed" {
		t.Errorf("got status %d and %s, want 403 and embargoed", first.status, first.body)
	}
	checkHeaders(t, first, map[string]string{"Retry-After": "91", "Cache-Control": "no-store", "Etag": "", "Expires": ""})
	for target, want := range map[string]int{"/readyz": 200, "/openapi.json": 200, "/student/x": 400} {
		if got, _ := ask(target); got.status != want {
			t.Errorf("%s: got status %d, want %d", target, got.status, want)
		}
	}
	clock.set(noon.Add(-1))
	if got, _ := ask("/student/123456", rightCode); got.status != 403 || got.header.Get("Retry-After") != "1" {
		t.Errorf("a nanosecond before: got status %d and %q to wait, want 403 and 1", got.status, got.header.Get("Retry-After"))
	}
	if got := f.sum(t, "results_refused_total", "embargoed"); got != 17 {
		t.Errorf("embargoed: got %v, want 17", got)
	}
	clock.set(noon)
	if got, _ := ask("/student/123456", rightCode); got.status != 200 || got.body != body {
		t.Errorf("at the instant: got status %d, want 200", got.status)
	}
	if got, _ := ask("/student/5", rightCode); got.status != 404 {
		t.Errorf("an unknown id at the instant: got status %d, want 404", got.status)
	}
	clock.set(noon.Add(-time.Hour))
	if got, _ := ask("/student/123456", rightCode); got.status != 200 {
		t.Errorf("with the clock set back: got status %d, want 200", got.status)
	}
}

// Replicas with the same instant agree at every moment.
func TestReplicasAgree(t *testing.T) {
	t.Parallel()
	clock := clockAt(noon)
	var replicas []fixture
	for _, zone := range []*time.Location{time.UTC, time.FixedZone("EAT", 3*3600), time.FixedZone("", -5*3600)} {
		at := noon.Add(time.Second).In(zone)
		replicas = append(replicas, startWith(t, httpapi.Config{Store: students, Access: httpapi.Code, Now: clock.now, PublishAt: &at}))
	}
	for i := range 4 {
		want := date.ReplaceAllString(string(replicas[0].ask(t, "GET", "/student/123456", rightCode)), "")
		for n, f := range replicas[1:] {
			if got := date.ReplaceAllString(string(f.ask(t, "GET", "/student/123456", rightCode)), ""); got != want {
				t.Errorf("step %d, replica %d: got %q, want %q", i, n+2, got, want)
			}
		}
		clock.pass(499_999_999 * time.Nanosecond)
		if i == 2 {
			clock.set(noon.Add(time.Second))
		}
	}
}

func TestLimitsAreChecked(t *testing.T) {
	t.Parallel()
	var never time.Time
	err := httpapi.Config{Limits: &guard.Config{}, PublishAt: &never}.Validate()
	for _, want := range []string{"burst is 0", "year 1"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to say %q", err, want)
		}
	}
}
