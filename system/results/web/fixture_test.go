package web

import (
	"bytes"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"loadstone/system/results"
)

// now is the tests' time: 21 November 2026, 06:00 UTC, 09:00 in Addis Ababa.
var now = time.Date(2026, time.November, 21, 6, 0, 0, 0, time.UTC)

var addisAbaba = time.FixedZone("EAT", 3*60*60)

const code = "7QX4M2KD90AZ"

// hanna is the student whom the tests look up.
func hanna() results.Student {
	return results.Student{
		ID: 123456, Name: "Hanna Tesfaye Kebede", Sex: results.Female,
		School: "Debre Birhan Millennium Comprehensive Secondary School", Region: "Amhara",
		BirthDate: results.Date{Year: 2008, Month: 4, Day: 7}, Stream: results.Natural,
		Marks:    [results.SubjectsPerStream]int{74, 68, 91, 55, 83, 60, 7},
		PassMark: results.DefaultPassMark, Code: code,
	}
}

// abdi has not passed, and is in the other stream.
func abdi() results.Student {
	return results.Student{
		ID: 123457, Name: "Abdi Mohammed Ali", Sex: results.Male, School: "Jijiga Secondary School", Region: "Somali",
		BirthDate: results.Date{Year: 2007, Month: 12, Day: 31}, Stream: results.Social,
		Marks:    [results.SubjectsPerStream]int{0, 33, 41, 100, 28, 19, 50},
		PassMark: results.DefaultPassMark, Code: code,
	}
}

// lookup knows hanna and abdi by the tests' code.
func lookup(_ *fasthttp.RequestCtx, id int64, given []byte) results.Decision {
	for _, s := range []results.Student{hanna(), abdi()} {
		if s.ID == id && string(given) == code {
			return results.Decision{Page: results.NewPage(&s)}
		}
	}
	return results.Decision{Err: results.ErrNotFound}
}

func always(o results.Decision) Lookup {
	return func(*fasthttp.RequestCtx, int64, []byte) results.Decision { return o }
}

// newSite returns a site with the tests' clock. change may be nil.
func newSite(tb testing.TB, change func(*Config)) *Site {
	tb.Helper()
	cfg := DefaultConfig()
	cfg.Lookup = lookup
	cfg.Publication = func() results.Publication { return results.Publication{Out: true} }
	cfg.Random = func(int64) int64 { return 0 }
	cfg.Panicked = func(value any, stack []byte) { tb.Errorf("a page panicked: %v\n%s", value, stack) }
	cfg.Registerer = prometheus.NewRegistry()
	if change != nil {
		change(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// ask sends a request to the site without a network. headers are names and
// values in turn.
func ask(s *Site, method, target, body string, headers ...string) *fasthttp.Response {
	var req fasthttp.Request
	req.Header.SetMethod(method)
	req.SetRequestURI(target)
	req.Header.SetHost("results.example")
	if method == "POST" {
		req.Header.SetContentType("application/x-www-form-urlencoded")
		req.SetBodyString(body)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	var ctx fasthttp.RequestCtx
	ctx.Init(&req, nil, nil)
	s.Handle(&ctx)
	var to fasthttp.Response
	ctx.Response.CopyTo(&to)
	return &to
}

func wantStatus(t *testing.T, r *fasthttp.Response, want int) {
	t.Helper()
	if got := r.StatusCode(); got != want {
		t.Errorf("got status %d, want %d; body %.300q", got, want, r.Body())
	}
}

func wantText(t *testing.T, r *fasthttp.Response, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !bytes.Contains(r.Body(), []byte(want)) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

func wantNoText(t *testing.T, r *fasthttp.Response, unwanted ...string) {
	t.Helper()
	for _, text := range unwanted {
		if strings.Contains(strings.ToLower(r.String()), strings.ToLower(text)) {
			t.Errorf("the answer has %q", text)
		}
	}
}

func header(r *fasthttp.Response, name string) string { return string(r.Header.Peek(name)) }

// counting returns a lookup and how often it was called.
func counting(o results.Decision) (Lookup, *atomic.Int64) {
	var n atomic.Int64
	return func(*fasthttp.RequestCtx, int64, []byte) results.Decision {
		n.Add(1)
		return o
	}, &n
}

// good is a form that opens hanna's page.
const good = "id=123456&code=" + code
