package web

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"loadstone/system/results"
)

// cookie returns the value that the answer sets, "" if it deletes it or sets none,
// and all of the header.
func cookie(t *testing.T, r *fasthttp.Response) (value, whole string) {
	t.Helper()
	for _, c := range r.Header.Cookies() {
		if whole != "" {
			t.Errorf("two cookies: %s and %s", whole, c)
		}
		whole = string(c)
		value, _, _ = strings.Cut(strings.TrimPrefix(whole, cookieName+"="), ";")
	}
	return value, whole
}

// Whoever meets a busy service comes back by itself and sees the result,
// without having typed the code again.
func TestWait(t *testing.T) {
	t.Parallel()
	outcome := results.Decision{Err: results.ErrOverloaded, RetryAfter: 2 * time.Second}
	s := newSite(t, func(c *Config) {
		c.Lookup = func(ctx *fasthttp.RequestCtx, id int64, given []byte) results.Decision {
			if outcome.Err == nil {
				return lookup(ctx, id, given)
			}
			return outcome
		}
	})
	r := ask(s, "POST", "/?lang=am", good)
	for i, want := range []string{"4", "8", "16", "32", "60", "60", "60"} {
		wantStatus(t, r, 503)
		wantText(t, r, `http-equiv="refresh" content="`+want+`;url=/wait?lang=am"`)
		wantNoText(t, r, code, "123456\"")
		if got := header(r, "Retry-After"); got != want {
			t.Errorf("try %d: Retry-After: got %s, want %s", i, got, want)
		}
		kept, whole := cookie(t, r)
		for _, part := range []string{"HttpOnly", "SameSite=Strict", "Secure", "Path=/wait"} {
			if !strings.Contains(whole, part) {
				t.Errorf("cookie %q lacks %s", whole, part)
			}
		}
		r = ask(s, "GET", "/wait?lang=am", "", "Cookie", cookieName+"="+kept)
	}
	kept, _ := cookie(t, r)
	outcome.Err = nil
	r = ask(s, "GET", "/wait?lang=am", "", "Cookie", cookieName+"="+kept)
	wantStatus(t, r, 200)
	wantText(t, r, "Hanna Tesfaye Kebede")
	if kept, whole := cookie(t, r); kept != "" || !strings.Contains(whole, "Max-Age=0;") {
		t.Errorf("the code is still kept: %q", whole)
	}
	if got, want := header(r, "Cache-Control"), "no-store"; got != want {
		t.Errorf("Cache-Control: got %q, want %q", got, want)
	}
}

// A page does not wait by itself for longer than it may keep the code, nor for
// ever.
func TestWaitEnds(t *testing.T) {
	t.Parallel()
	retry := time.Second
	s := newSite(t, func(c *Config) {
		c.Lookup = func(*fasthttp.RequestCtx, int64, []byte) results.Decision {
			return results.Decision{Err: results.ErrRateLimited, RetryAfter: retry}
		}
	})
	r := ask(s, "POST", "/", good)
	tries := 0
	for kept, _ := cookie(t, r); kept != ""; kept, _ = cookie(t, r) {
		wantStatus(t, r, 429)
		r = ask(s, "GET", "/wait", "", "Cookie", cookieName+"="+kept)
		if tries++; tries > 2*maxTries {
			t.Fatal("no end")
		}
	}
	if tries != maxTries {
		t.Errorf("got %d tries, want %d", tries, maxTries)
	}
	retry = 15 * time.Minute
	r = ask(s, "POST", "/", good)
	wantStatus(t, r, 429)
	wantText(t, r, "Please try again in 15 minutes.", "Try again</a>")
	wantNoText(t, r, "http-equiv=\"refresh\"")
	if kept, _ := cookie(t, r); kept != "" {
		t.Errorf("the code is kept for nothing: %q", kept)
	}
	for retry, want := range map[time.Duration]string{-time.Hour: "4", 0: "4", 1 << 62: "86400"} {
		s := newSite(t, func(c *Config) { c.Lookup = always(results.Decision{Err: results.ErrOverloaded, RetryAfter: retry}) })
		if got := header(ask(s, "POST", "/", good), "Retry-After"); got != want {
			t.Errorf("retry after %v: got %s, want %s", retry, got, want)
		}
	}
}

// Every request counts, and who asks too often gets a short page, whatever was asked for.
// Only who has sent id and code comes back by itself.
func TestWhoAsksTooOftenWaits(t *testing.T) {
	t.Parallel()
	asked, wait := 0, time.Duration(0)
	s := newSite(t, func(c *Config) {
		c.Admit = func(*fasthttp.RequestCtx) time.Duration { asked++; return wait }
	})
	cookied := []string{"Cookie", cookieName + "=1.0.123456.N1FYNE0yS0Q5MEFa"} // that code
	wantStatus(t, ask(s, "GET", "/wait", "", cookied...), 200)
	wait = 20 * time.Second
	for i, c := range []struct {
		method, target, body string
		again                bool
	}{
		{"GET", "/", "", false}, {"HEAD", "/", "", false}, {"PUT", "/", "", false}, {"GET", "/elsewhere", "", false}, {"GET", "/wait", "", true},
		{"POST", "/", "", false}, {"POST", "/", "id=x&code=" + code, false}, {"POST", "/", good, true},
	} {
		r := ask(s, c.method, c.target, c.body, cookied...)
		wantStatus(t, r, 429)
		if got := header(r, "Retry-After"); got != "20" {
			t.Errorf("%s %s: Retry-After %q, want 20", c.method, c.target, got)
		}
		if kept, _ := cookie(t, r); (kept != "") != c.again {
			t.Errorf("%s %s %s: the cookie is %q", c.method, c.target, c.body, kept)
		}
		if asked != i+2 {
			t.Errorf("%s %s: counted %d times, want once", c.method, c.target, asked-i-1)
		}
	}
}

// Those who wait for the same thing do not come back in the same second.
func TestJitter(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		outcome     results.Decision
		least, most int // seconds
	}{
		"embargo, soon":  {results.Decision{Err: results.ErrEmbargoed, RetryAfter: 10 * time.Second}, 11, 71},
		"embargo, later": {results.Decision{Err: results.ErrEmbargoed, RetryAfter: 48 * time.Hour}, 25 * 60, 30 * 60},
		"busy":           {results.Decision{Err: results.ErrOverloaded, RetryAfter: 20 * time.Second}, 20, 32},
		"limited":        {results.Decision{Err: results.ErrRateLimited, RetryAfter: 20 * time.Second}, 20, 32},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, func(cfg *Config) {
				cfg.Lookup, cfg.Random = always(c.outcome), DefaultConfig().Random
			})
			seen := map[int]int{}
			for range 2000 {
				r := ask(s, "POST", "/", good)
				n, err := strconv.Atoi(regexp.MustCompile(`content="(\d+);url=`).FindStringSubmatch(string(r.Body()))[1])
				if err != nil || n < c.least || n > c.most {
					t.Fatalf("got %d, %v, want %d to %d", n, err, c.least, c.most)
				}
				if got := header(r, "Retry-After"); got != strconv.Itoa(n) {
					t.Fatalf("Retry-After %s beside a reload after %d", got, n)
				}
				seen[n]++
			}
			// Even enough: no second has six deviations more than its share, which chance
			// does to one of some thousand runs of this test.
			share := 2000 / float64(c.most-c.least)
			for n, times := range seen {
				if float64(times) > share+6*math.Sqrt(share) {
					t.Errorf("second %d has %d of 2000, its share is %.1f", n, times, share)
				}
			}
		})
	}
}

func TestReadCookie(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	for _, bad := range []string{
		"", ".", "...", "1.0.5", "1.0.5.", "0.0.5.QQ", "31.0.5.QQ", "-1.0.5.QQ", "1.0.05.QQ", "1.0.x.QQ", "1.0.5.Q?", "1.0.5.QQ.",
		"1.0.5." + strings.Repeat("Q", 2000), "1.0.5." + strings.Repeat("QUFB", 43), "999999999999999999999.0.5.QQ",
	} {
		if in, ok := readCookie([]byte(bad)); ok {
			t.Errorf("cookie %q: got %+v", bad, in)
		}
		r := ask(s, "GET", "/wait?lang=am", "", "Cookie", cookieName+"="+bad)
		wantStatus(t, r, 303)
		if got, want := header(r, "Location"), "/?lang=am"; got != want {
			t.Errorf("got location %q, want %q", got, want)
		}
	}
	in, ok := readCookie([]byte("3.1.5.QQ"))
	if got, want := fmt.Sprintf("%d %v %d %s %v", in.tries, in.save, in.id, in.code, ok), "3 true 5 A true"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
