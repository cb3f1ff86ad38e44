package nginx_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"loadstone/system/results/web"
)

var update = flag.Bool("update", false, "write html/down.html anew") //nolint:gochecknoglobals // a flag

// The page is what the site itself would show.
func TestDownPageIsTheSites(t *testing.T) {
	t.Parallel()
	want, err := web.DownPage("en")
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("html/down.html", want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile("html/down.html")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(bytes.TrimSpace(got), bytes.TrimSpace(want)) {
		t.Error("html/down.html is not what the site shows: go test ./system/results/nginx -run DownPage -update")
	}
}

func TestNobodyIsLeft(t *testing.T) {
	t.Parallel()
	program(t)
	b := run(t, []string{address(), address()}, settings{}) // where nobody listens
	page, err := os.ReadFile("html/down.html")
	if err != nil {
		t.Fatal(err)
	}
	const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
	for _, c := range []struct{ method, path, accept, kind, body string }{
		{"GET", "/", browser, "text/html; charset=utf-8", string(page)},
		{"POST", "/", browser, "text/html; charset=utf-8", string(page)},
		{"HEAD", "/", browser, "text/html; charset=utf-8", ""},
		{"GET", "/student/1", "application/json", "application/json; charset=utf-8", "{\"error\":{\"code\":\"unavailable\",\"message\":\"results cannot be looked up now; try again in a moment\"}}"},
		{"GET", "/student/1", "", "application/json; charset=utf-8", "{\"error\":{\"code\":\"unavailable\",\"message\":\"results cannot be looked up now; try again in a moment\"}}"},
	} {
		got := ask(t, nil, c.method+" http://"+b.http+c.path, strings.NewReader(""), "Accept", c.accept, "If-None-Match", "*", "Range", "bytes=0-1")
		retry, err := strconv.Atoi(got.header.Get("Retry-After"))
		if got.status != 503 || got.body != c.body || got.header.Get("Content-Type") != c.kind || got.header.Get("Cache-Control") != "no-store" || err != nil || retry < 30 || retry > 60 {
			t.Errorf("%s %s: got status %d, %v, %.200q", c.method, c.path, got.status, got.header, got.body)
		}
		if got.header.Get("X-Content-Type-Options") != "nosniff" || strings.Contains(got.header.Get("Server"), "/") {
			t.Errorf("%s %s: got headers %v", c.method, c.path, got.header)
		}
	}
	// They are not pages of their own.
	for _, path := range []string{"/down.html", "/down.json"} {
		if got := ask(t, nil, "GET http://"+b.http+path, nil); got.status != 404 {
			t.Errorf("%s: got status %d, want 404", path, got.status)
		}
	}
}

// A page that brings its headers has them once, and what brings none gets them.
func TestHeadersAreSentOnce(t *testing.T) {
	t.Parallel()
	program(t)
	for _, headers := range [][]string{nil, {"X-Content-Type-Options", "nosniff"}} {
		f := startFake(t, says(200, "x", headers...))
		b := run(t, []string{f.address}, settings{})
		got := ask(t, nil, "GET http://"+b.http+"/", nil)
		if all := got.header.Values("X-Content-Type-Options"); len(all) != 1 || all[0] != "nosniff" {
			t.Errorf("the API sends %v: got %v", headers, all)
		}
	}
}

// trusted is the balancer's own certificate.
func trusted(t *testing.T, b *balancer) *x509.CertPool {
	t.Helper()
	roots := x509.NewCertPool()
	public, err := os.ReadFile(b.dir + "/etc/tls/tls.crt")
	if err != nil || !roots.AppendCertsFromPEM(public) {
		t.Fatal(err)
	}
	return roots
}

// As shipped, no code is answered without TLS: not the API's, not the form's.
func TestWithoutTLSThereIsOnlyARedirect(t *testing.T) {
	t.Parallel()
	program(t)
	f := startFake(t, says(200, "a result"))
	b := run(t, []string{f.address}, settings{env: map[string]string{"RESULTS_TLS": "redirect", "RESULTS_HTTPS_PORT": "443"}})
	client := &http.Client{
		Timeout:       deadline,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted(t, b)}},
	}
	defer client.CloseIdleConnections()
	for _, request := range []string{"GET /", "POST /", "GET /student/7?code=1", "HEAD /student/7", "PUT /anything"} {
		method, path, _ := strings.Cut(request, " ")
		got := ask(t, client, method+" http://"+b.http+path, strings.NewReader("id=7"))
		if want := "https://" + host() + ":443" + path; got.status != http.StatusPermanentRedirect || got.header.Get("Location") != want {
			t.Errorf("%s: got status %d to %q, want a redirect to %s", request, got.status, got.header.Get("Location"), want)
		}
		if got.header.Get("Strict-Transport-Security") != "" {
			t.Errorf("%s: what comes without TLS may not speak of it", request)
		}
	}
	if n := f.requests.Load(); n != 0 {
		t.Errorf("%d requests without TLS reached a replica", n)
	}
	// A browser that has been told so comes with TLS, to the same port.
	for _, address := range []string{b.https, b.http} {
		got := ask(t, client, "GET https://"+address+"/student/7", nil)
		if got.body != "a result" || got.header.Get("Strict-Transport-Security") != "max-age=31536000" {
			t.Errorf("%s: got %+v", address, got)
		}
	}
	f.end()
	if got := ask(t, client, "GET https://"+b.https+"/", nil, "Accept", "text/html"); got.status != 503 || got.header.Get("Strict-Transport-Security") == "" {
		t.Errorf("without replicas: got %d with %v", got.status, got.header)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	program(t)
	f := startFake(t, func(w http.ResponseWriter, r *http.Request) {
		says(200, r.Header.Get("X-Forwarded-Proto"))(w, r)
	})
	b := run(t, []string{f.address}, settings{})
	roots := trusted(t, b)
	for name, c := range map[string]*tls.Config{
		"1.2": {MaxVersion: tls.VersionTLS12}, "1.3": {MinVersion: tls.VersionTLS13},
	} {
		c.RootCAs = roots
		client := &http.Client{Timeout: deadline, Transport: &http.Transport{TLSClientConfig: c, ForceAttemptHTTP2: true}}
		resp, err := client.Get("https://" + b.https + "/")
		if err != nil {
			t.Fatalf("TLS %s: %v", name, err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK || resp.ProtoMajor != 2 {
			t.Errorf("TLS %s: got status %d over %s", name, resp.StatusCode, resp.Proto)
		}
		if got := ask(t, client, "GET https://"+b.https+"/", nil); got.body != "https" {
			t.Errorf("TLS %s: the replica was told %q", name, got.body)
		}
	}
	if got := ask(t, nil, "GET http://"+b.http+"/", nil); got.body != "http" {
		t.Errorf("without TLS: the replica was told %q", got.body)
	}
	old := &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11, RootCAs: roots}
	if conn, err := tls.Dial("tcp", b.https, old); err == nil {
		_ = conn.Close()
		t.Error("TLS 1.1 was accepted")
	}
}
