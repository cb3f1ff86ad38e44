package nginx

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"loadstone/block/forwarded"
	"loadstone/system/feed/serve"
	"loadstone/system/feed/serve/servetest"
)

const (
	password = "correct-horse"
	account  = "ada editor $2a$04$OhTJgG4MjKtp24Fv5vv5vuRHZ01sp01DLBGbLFaBHb0UDVGqdV3Rq\n"
	asForm   = "Content-Type: application/x-www-form-urlencoded"
)

// answer is what came back, read to its end.
type answer struct {
	*http.Response

	text string
}

// from sends a request from an address of this machine, with headers and a body, and returns the answer.
func (s system) from(t *testing.T, client, request, body string, headers ...string) answer {
	t.Helper()
	host := strings.TrimPrefix(s.url, "http://")
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(client)}, Timeout: time.Minute}
	conn, err := dialer.DialContext(t.Context(), "tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }() // read to its end
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	lines := append([]string{request + " HTTP/1.1", "Host: " + host, "Connection: close"}, headers...)
	if body != "" {
		lines = append(lines, fmt.Sprintf("Content-Length: %d", len(body)))
	}
	// What is refused early is not read to its end.
	_, _ = io.WriteString(conn, strings.Join(lines, "\r\n")+"\r\n\r\n"+body)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(response.Body)
	_ = response.Body.Close() // as above
	if err != nil {
		t.Fatal(err)
	}
	return answer{response, string(text)}
}

// Editors sign in and take a post down through NGINX, at any of the servers; others may not, and
// where they guess from is not theirs to say.
func TestEditorsThroughNGINX(t *testing.T) {
	store, accounts := filled(t), filepath.Join(t.TempDir(), "accounts")
	if err := os.WriteFile(accounts, []byte(account), 0o600); err != nil {
		t.Fatal(err)
	}
	proxies, err := forwarded.Parse("127.0.0.0/8")
	if err != nil {
		t.Fatal(err)
	}
	server := func() string {
		return servetest.Start(t, store, func(c *serve.Config) {
			c.Accounts, c.SessionKey, c.Proxies = accounts, strings.Repeat("k", 32), proxies
		})
	}
	s := startNGINX(t, nobody, server(), server())
	t.Run("guessing", s.guessing)
	t.Run("bodies", s.bodies)
	t.Run("editing", s.editing)
	t.Run("crowd", s.crowd)
}

// signIn tries a password from an address.
func (s system) signIn(t *testing.T, client, with string, headers ...string) answer {
	t.Helper()
	return s.from(t, client, "POST /admin/sign-in", "name=ada&password="+with, append(headers, asForm, "Origin: "+s.url)...)
}

func (s system) guessing(t *testing.T) {
	limited := false
	for i := 0; i < 40 && !limited; i++ { // each server counts for itself
		claim := fmt.Sprintf("192.0.2.%d", i)
		got := s.signIn(t, "127.0.0.7", "wrong", "X-Forwarded-For: "+claim, "X-Real-IP: "+claim, "Forwarded: for="+claim).StatusCode
		if limited = got == http.StatusTooManyRequests; !limited && got != http.StatusUnauthorized {
			t.Fatalf("got %d", got)
		}
	}
	if !limited {
		t.Error("one address may guess as often as it likes")
	}
	if got := s.signIn(t, "127.0.0.8", password, "X-Forwarded-For: 127.0.0.7").StatusCode; got != http.StatusSeeOther {
		t.Errorf("another address: got %d", got)
	}
}

// bodies are taken with forms alone.
func (s system) bodies(t *testing.T) {
	large := "password=" + strings.Repeat("x", 128<<10)
	for _, c := range []struct {
		request, body string
		headers       []string
		want          int
	}{
		{"POST /admin/sign-in", large, nil, http.StatusRequestEntityTooLarge},
		{"POST /admin/sign-in", "", []string{"Transfer-Encoding: chunked"}, http.StatusRequestEntityTooLarge},
		{"POST /admin/sign-in", large[:64<<10], nil, http.StatusForbidden}, // from no page
		{"GET /admin", "x", nil, http.StatusRequestEntityTooLarge},
		{"PUT /admin/new", "x", nil, http.StatusRequestEntityTooLarge},
		{"POST /administration", "x", nil, http.StatusRequestEntityTooLarge},
		{"POST //admin/sign-in", "x", nil, http.StatusRequestEntityTooLarge},
		{"POST /feed", "x", nil, http.StatusRequestEntityTooLarge},
		{"GET /administration", "", nil, http.StatusNotFound},
		{"GET /admin", "", nil, http.StatusUnauthorized},
		{"POST /admin/posts/5/take-down", "", []string{"Origin: http://elsewhere"}, http.StatusForbidden},
	} {
		if got := s.from(t, "127.0.0.9", c.request, c.body, append(c.headers, asForm)...); got.StatusCode != c.want {
			t.Errorf("%s with %d bytes: got %d and %.200s, want %d", c.request, len(c.body), got.StatusCode, got.text, c.want)
		}
	}
	down := system{url: s.down}
	if got := down.from(t, "127.0.0.9", "POST /admin/sign-in", "name=ada", asForm); got.StatusCode != http.StatusServiceUnavailable || !strings.Contains(got.text, `"unavailable"`) {
		t.Errorf("before nobody: got %d and %s", got.StatusCode, got.text)
	}
}

func (s system) editing(t *testing.T) {
	cookies := s.signIn(t, "127.0.0.10", password).Cookies()
	if len(cookies) != 1 || !cookies[0].HttpOnly {
		t.Fatalf("got the cookies %v", cookies)
	}
	cookie := "Cookie: " + cookies[0].Name + "=" + cookies[0].Value
	for range 4 { // of which some ask the other server
		if got := s.from(t, "127.0.0.10", "GET /admin", "", cookie); got.StatusCode != http.StatusOK || got.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("got %d, %v and %.200s", got.StatusCode, got.Header, got.text)
		}
	}
	for post, origin := range map[int]string{5: "http://elsewhere", 6: s.url} {
		s.from(t, "127.0.0.10", fmt.Sprintf("POST /admin/posts/%d/take-down", post), "", cookie, asForm, "Origin: "+origin)
		want := http.StatusOK
		if origin == s.url {
			want = http.StatusNotFound
		}
		if got := s.from(t, "127.0.0.10", fmt.Sprintf("GET /posts/%d/author", post), ""); got.StatusCode != want {
			t.Errorf("post %d, taken down from a page of %s: got %d, want %d", post, origin, got.StatusCode, want)
		}
	}
}

// crowd has one address send slow forms: it is told to wait, and others are not.
func (s system) crowd(t *testing.T) {
	head := "POST /admin/sign-in HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nname="
	limited := false
	for round := 0; round < 20 && !limited; round++ { // NGINX may read them after the request below
		var slow []net.Conn
		for range 60 {
			dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.0.11")}, Timeout: time.Minute}
			conn, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(s.url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.WriteString(conn, head) // one that is refused may be closed
			slow = append(slow, conn)
		}
		got := s.from(t, "127.0.0.11", "GET /admin", "")
		limited = got.StatusCode == http.StatusTooManyRequests && strings.Contains(got.text, `"rate_limited"`) && got.Header.Get("Retry-After") == "1"
		if other := s.from(t, "127.0.0.12", "GET /admin", ""); other.StatusCode != http.StatusUnauthorized {
			t.Errorf("another address: got %d", other.StatusCode)
		}
		for _, conn := range slow {
			_ = conn.Close()
		}
	}
	if !limited {
		t.Error("one address may have as many forms under way as it likes")
	}
}
