package httpapi_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"loadstone/block/forwarded"
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
	proxies, err := forwarded.Parse("127.0.0.0/8")
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
	proxies, err := forwarded.Parse("127.0.0.0/8")
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

// Whatever header names another address, the client's is the one that the proxy appended
// to X-Forwarded-For.
func TestForgedAddresses(t *testing.T) {
	t.Parallel()
	proxies, err := forwarded.Parse("127.0.0.0/8")
	if err != nil {
		t.Fatal(err)
	}
	f := startWith(t, httpapi.Config{
		Store: students, Access: httpapi.Open, Now: clockAt(noon).now,
		Limits: limits(func(c *guard.Config) { c.Rate, c.Burst = 1, 3 }), Proxies: proxies,
	})
	passed := 0
	for i, forged := range []string{
		"X-Real-IP: %s", "X-Client-IP: %s", "Client-IP: %s", "True-Client-IP: %s", "CF-Connecting-IP: %s", "Fastly-Client-IP: %s",
		"X-Cluster-Client-IP: %s", "X-Originating-IP: %s", "X-Remote-IP: %s", "X-Remote-Addr: %s", "X-Forwarded: %s", "Forwarded-For: %s",
		"Forwarded: for=%s", "Via: 1.1 %s", "X_Forwarded_For: %s", "x-forwarded-for: %s", "X-Forwarded-For: %s, 127.0.0.1",
		"X-Forwarded-For: %s\r\nX-Forwarded-For: 127.0.0.1, 127.0.0.2", "X-Forwarded-For: ,,%s,,", "X-Forwarded-For: \"%s\"", "X-Forwarded-For:\t%s ",
	} {
		got := parse(t, "GET", f.ask(t, "GET", "/student/123456",
			fmt.Sprintf(forged, fmt.Sprintf("192.0.2.%d", i)), "X-Forwarded-For: 198.51.100.7"))
		if got.status == 200 {
			passed++
		}
	}
	if passed != 3 {
		t.Errorf("got %d requests answered from forged addresses, want 3", passed)
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

func TestLimitsAreChecked(t *testing.T) {
	t.Parallel()
	if err := (httpapi.Config{Limits: &guard.Config{}}).Validate(); err == nil || !strings.Contains(err.Error(), "burst is 0") {
		t.Errorf("got %v, want it to say that the burst is 0", err)
	}
}
