package httpapi_test

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"loadstone/block/forwarded"
	"loadstone/system/results"
	"loadstone/system/results/httpapi"
	"loadstone/system/results/httpapi/guard"
)

// from is a request that a client sent through the peer.
func from(ip string, headers ...string) *fasthttp.RequestCtx {
	var ctx fasthttp.RequestCtx
	var req fasthttp.Request
	req.SetRequestURI("/")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	ctx.Init(&req, &net.TCPAddr{IP: net.ParseIP(ip), Port: 4711}, nil)
	return &ctx
}

// Decide is the decision of GET /student/{id}.
func TestDecide(t *testing.T) {
	t.Parallel()
	busy := &results.BusyError{RetryAfter: 3 * time.Second, Err: errors.New("full")}
	for name, c := range map[string]struct {
		cfg   httpapi.Config
		id    int64
		code  string
		calls int
		want  *results.Error
	}{
		"the right code":     {httpapi.Config{Access: httpapi.Code}, knownID, code, 1, nil},
		"a wrong code":       {httpapi.Config{Access: httpapi.Code}, knownID, "wrong", 1, results.ErrNotFound},
		"an unknown id":      {httpapi.Config{Access: httpapi.Code}, 5, code, 1, results.ErrNotFound},
		"open":               {httpapi.Config{Access: httpapi.Open}, knownID, "wrong", 1, nil},
		"embargo":            {httpapi.Config{Access: httpapi.Code, Publication: inAnHour}, knownID, code, 1, results.ErrEmbargoed},
		"no answer yet":      {httpapi.Config{Access: httpapi.Code, Publication: unknown}, knownID, code, 1, results.ErrUnavailable},
		"locked out":         {httpapi.Config{Access: httpapi.Code, Limits: limits(func(*guard.Config) {})}, knownID, "wrong", 7, results.ErrLockedOut},
		"a busy store":       {httpapi.Config{Access: httpapi.Code, Store: brokenStore{err: busy}}, knownID, code, 1, results.ErrOverloaded},
		"a store that fails": {httpapi.Config{Access: httpapi.Code, Store: brokenStore{err: results.ErrUnavailable}}, knownID, code, 1, results.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := newAPIWith(t, c.cfg)
			var got results.Decision
			for range c.calls {
				got = api.Decide(from("203.0.113.7"), c.id, []byte(c.code))
			}
			if got.Err != c.want || (string(got.Page.Body) == body) != (c.want == nil) {
				t.Errorf("got %+v, want %v, and the page only if it was found", got, c.want)
			}
			waits := c.want == results.ErrEmbargoed || c.want == results.ErrLockedOut || c.want == results.ErrOverloaded
			if (got.RetryAfter > 0) != waits {
				t.Errorf("got a wait of %v", got.RetryAfter)
			}
			if got.PublishAt.IsZero() == (c.want == results.ErrEmbargoed) {
				t.Errorf("it opens at %v", got.PublishAt)
			}
		})
	}
}

func TestBusyStoreIsAnsweredWithItsTime(t *testing.T) {
	t.Parallel()
	busy := &results.BusyError{RetryAfter: 2500 * time.Millisecond, Err: errors.New("secret")}
	f := start(t, brokenStore{err: busy}, httpapi.Open, always)
	got := parse(t, "GET", f.ask(t, "GET", "/student/5"))
	if got.status != 503 || errorCode(t, got.body) != "unavailable" {
		t.Errorf("got status %d and %q, want 503 and unavailable", got.status, got.body)
	}
	checkHeaders(t, got, map[string]string{"Retry-After": "3", "Cache-Control": "no-store"})
	if got := f.sum(t, "results_refused_total", "overloaded"); got != 1 {
		t.Errorf("refused: got %v, want 1", got)
	}
	if got := f.sum(t, "results_store_failures_total"); got != 0 || f.logs.String() != "" {
		t.Errorf("got %v failures and log %q, want none: the store is well", got, f.logs)
	}
}

func TestSecure(t *testing.T) {
	t.Parallel()
	proxies, err := forwarded.Parse("10.0.0.0/8")
	if err != nil {
		t.Fatal(err)
	}
	api := newAPIWith(t, httpapi.Config{Access: httpapi.Code, Proxies: proxies})
	const name = "X-Forwarded-Proto"
	for what, c := range map[string]struct {
		ctx  *fasthttp.RequestCtx
		want bool
	}{
		"HTTPS at the proxy":        {from("10.1.1.1", name, "https"), true},
		"HTTP at the proxy":         {from("10.1.1.1", name, "http"), false},
		"the nearest proxy's":       {from("10.1.1.1", name, "https, http"), false},
		"a list":                    {from("10.1.1.1", name, "http,  HTTPS "), true},
		"nothing said":              {from("10.1.1.1"), false},
		"a client that is no proxy": {from("203.0.113.7", name, "https"), false},
	} {
		if got := api.Secure(c.ctx); got != c.want {
			t.Errorf("%s: got %v, want %v", what, got, c.want)
		}
	}
	if newAPI(t, httpapi.Code).Secure(from("10.1.1.1", name, "https")) {
		t.Error("without limits nobody is believed")
	}
}

func TestServes(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{
		"/student/": true, "/student/5": true, "/healthz": true, "/readyz": true, "/openapi.json": true,
		"/": false, "/student": false, "/healthz/": false, "/x/student/5": false, "": false,
	} {
		others := false
		var ctx fasthttp.RequestCtx
		var req fasthttp.Request
		req.SetRequestURI(path)
		ctx.Init(&req, nil, nil)
		newAPI(t, httpapi.Open).Before(func(*fasthttp.RequestCtx) { others = true })(&ctx)
		if others == want {
			t.Errorf("%s: got %v, want %v", path, !others, want)
		}
	}
}
