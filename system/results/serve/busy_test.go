package serve

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"loadstone/system/results"
	"loadstone/system/results/httpapi"
	"loadstone/system/results/web"
)

// busyStore refuses everything.
type busyStore struct{}

func (busyStore) Lookup(context.Context, int64) (results.Page, error) {
	return results.Page{}, &results.BusyError{RetryAfter: 3 * time.Second, Err: errors.New("full")}
}

func (busyStore) Close() error { return nil }

// A refused look-up is a page that waits by itself, and 503 with Retry-After for
// programs.
func TestBusy(t *testing.T) {
	t.Parallel()
	for _, cookie := range []string{web.CookieOn, web.CookieOff, web.CookieAuto} {
		registry := prometheus.NewRegistry()
		logger := slog.New(slog.DiscardHandler)
		api, err := httpapi.New(httpapi.Config{
			Store: busyStore{}, Access: httpapi.Code, Ready: func() bool { return true }, Logger: logger, Registerer: registry,
			Publication: func() results.Publication { return results.Publication{Out: true} },
		})
		if err != nil {
			t.Fatal(err)
		}
		cfg := DefaultConfig()
		cfg.SecureCookie = cookie
		handler, err := withPage(cfg, api, logger, registry)
		if err != nil {
			t.Fatal(err)
		}
		form := ask(handler, "POST", "/", "id=77&code=7QX4M2KD90AZ")
		set := string(form.Header.Peek("Set-Cookie"))
		if form.StatusCode() != 503 || !strings.Contains(set, "results_wait=1.") || strings.Contains(set, "Secure") != (cookie == web.CookieOn) {
			t.Errorf("cookie %s: got status %d and cookie %q, want 503 and one that waits", cookie, form.StatusCode(), set)
		}
		if program := ask(handler, "GET", "/student/77?code=x", ""); program.StatusCode() != 503 || string(program.Header.Peek("Retry-After")) != "3" {
			t.Errorf("for programs: got status %d and Retry-After %q, want 503 and 3", program.StatusCode(), program.Header.Peek("Retry-After"))
		}
	}
}

func ask(handler fasthttp.RequestHandler, method, target, body string) *fasthttp.Response {
	var req fasthttp.Request
	req.Header.SetMethod(method)
	req.SetRequestURI(target)
	req.Header.SetHost("results.example")
	if body != "" {
		req.Header.SetContentType("application/x-www-form-urlencoded")
		req.SetBodyString(body)
	}
	var ctx fasthttp.RequestCtx
	ctx.Init(&req, nil, nil)
	handler(&ctx)
	var to fasthttp.Response
	ctx.Response.CopyTo(&to)
	return &to
}
