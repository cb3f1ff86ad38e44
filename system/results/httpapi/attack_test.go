package httpapi_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"loadstone/block/forwarded"
	"loadstone/system/results/httpapi"
	"loadstone/system/results/httpapi/guard"
)

// Whatever comes in, the server answers for itself, and never with 5xx.
func TestAttacks(t *testing.T) {
	t.Parallel()
	t.Run("without limits", func(t *testing.T) { attack(t, httpapi.Config{Store: students, Access: httpapi.Code}) })
	t.Run("with limits", func(t *testing.T) {
		proxies, err := forwarded.Parse("127.0.0.0/8")
		if err != nil {
			t.Fatal(err)
		}
		attack(t, httpapi.Config{
			Store: students, Access: httpapi.Code,
			Limits: limits(func(*guard.Config) {}), Proxies: proxies,
		})
	})
}

func attack(t *testing.T, cfg httpapi.Config) {
	t.Helper()
	t.Parallel()
	f, hasty := startWith(t, cfg), startReading(t, cfg, 200*time.Millisecond)
	get := func(target string) string {
		return "GET " + target + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
	}
	for name, c := range map[string]struct {
		raw  string
		want int
	}{
		"path traversal":         {get("/student/../../etc/passwd"), 400},
		"encoded traversal":      {get("/student/..%2f..%2fetc%2fpasswd"), 400},
		"traversal to health":    {get("/student/../healthz"), 400},
		"SQL":                    {get("/student/1'%20OR%20'1'='1"), 400},
		"SQL comment":            {get("/student/123456;--"), 400},
		"zero byte":              {get("/student/123456%00"), 400},
		"bad escape":             {get("/student/%zz"), 400},
		"line break in the path": {get("/student/1%0d%0aX-Evil:%201"), 400},
		"many digits":            {get("/student/" + strings.Repeat("9", 5000)), 400},
		"other script's digits":  {get("/student/\xd9\xa1\xd9\xa2\xd9\xa3"), 400},
		"absolute address":       {get("http://elsewhere/student/123456"), 404}, // no code: as unknown
		"huge header":            {"GET /student/1 HTTP/1.1\r\nHost: x\r\nCookie: " + strings.Repeat("c", 20_000) + "\r\n\r\n", 431},
		"many headers":           {"GET /student/1 HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("A: b\r\n", 5000) + "\r\n", 431},
		"huge body":              {"POST /student/1 HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n", 413},
		"slow header":            {"GET /student/1 HTTP/1.1\r\nHost: x\r\nX-", 408},
		"body on a GET":          {"GET /student/5 HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc", 413},
		"chunks on a GET":        {"GET /student/5 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", 413},
		"both lengths":           {"POST /student/5 HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 405},
		"quote in the code":      {get("/student/5?code=%27%20OR%201=1--"), 404},
		"largest id":             {get("/student/999999999999999999"), 404},
		"beyond the largest id":  {get("/student/1000000000000000000"), 400},
		"int64's limit":          {get("/student/9223372036854775807"), 400},
		"minus int64's limit":    {get("/student/-9223372036854775808"), 400},
		"id 0":                   {get("/student/0"), 400},
		"encoded slash":          {get("/student%2f123456"), 404},
		"encoded slash inside":   {get("/student/1%2f2"), 400},
		"backslash":              {get("/student\\123456"), 404},
		"forged addresses":       {"GET /student/5 HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Forwarded-For: ,,[::,%00,\xff, 1.2.3.4.5\r\nX-Forwarded-For:\r\n\r\n", 404},
		"many forged addresses":  {"GET /student/5 HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Forwarded-For: " + strings.Repeat("127.0.0.1,", 700) + "\r\n\r\n", 404},
		"garbage":                {"\x00\x01\x02\x03\r\n\r\n", 400},
		"TLS hello":              {"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03\r\n\r\n", 400},
		"space before the colon": {"GET /student/5 HTTP/1.1\r\nHost : x\r\n\r\n", 400},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := f
			if c.want == 408 {
				f = hasty
			}
			got := parse(t, "GET", f.send(t, c.raw))
			if got.status != c.want {
				t.Errorf("got status %d and %.100q, want %d", got.status, got.body, c.want)
			}
			_ = errorCode(t, got.body)
			checkHeaders(t, got, map[string]string{"Cache-Control": "no-store", "X-Evil": ""})
		})
	}
}

// No path, code or tag makes the API answer with 5xx, or open a page without
// its code.
func FuzzHandle(f *testing.F) {
	f.Add("/openapi.json?code", "", "")
	f.Add("/student/123456", code, etag)
	f.Add("/student/123456?code=7qx4m2kd90az", "", "*")
	f.Add("/student/%31", "\x00", `W/"`)
	f.Add("/healthz", "-", "")
	f.Add("//student//1?code=%zz&code=", " ", ",,,")
	api := newAPI(f, httpapi.Code)
	f.Fuzz(func(t *testing.T, target, given, match string) {
		var ctx fasthttp.RequestCtx
		var req fasthttp.Request
		req.Header.SetMethod("GET")
		req.SetRequestURI(target)
		req.Header.Set("X-Access-Code", given)
		req.Header.Set("If-None-Match", match)
		ctx.Init(&req, nil, nil)
		api.Handle(&ctx)
		status := ctx.Response.StatusCode()
		if status >= 500 {
			t.Errorf("got status %d for %q", status, target)
		}
		opened := bytes.Contains(ctx.Response.Body(), []byte("Abeba")) || status == 304
		wanted := strings.NewReplacer(" ", "", "-", "").Replace(strings.ToUpper(target + given))
		if opened && !strings.Contains(wanted, "7QX4M2KD90AZ") && !strings.Contains(target, "%") && !strings.Contains(target, "+") {
			t.Errorf("target %q and code %q opened the page", target, given)
		}
	})
}
