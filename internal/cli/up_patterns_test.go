package cli

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Both forms of the patterns start from the program alone and have every endpoint
// at the published port, which is closed afterwards. It is 8080 in every shipped
// system, so they are not up beside another.
func TestUpOfAllPatterns(t *testing.T) {
	for _, c := range []struct {
		name, project string
		args, servers []string
		switches      map[string]string
	}{
		{"embedded", "patterns-embedded", []string{"patterns", "embedded"}, nil, map[string]string{"PATTERNS_REFRESH_AHEAD": "on", "PATTERNS_DO_ONCE": "local", "PATTERNS_POOL": "wait"}},
		{"full", "patterns", []string{"patterns"}, []string{"nginx", "redis-server", "postgres"}, map[string]string{"PATTERNS_DO_ONCE": "redis", "PATTERNS_POOL": "reject"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			needServers(t, c.servers)
			s := newSite(t, idle)
			// PostgreSQL, which does not run as root, has to get to its data.
			if err := os.Chmod(filepath.Dir(s.dir), 0o755); err != nil {
				t.Fatal(err)
			}
			for name, value := range c.switches {
				s.env = append(s.env, name+"="+value)
			}
			out := s.want(0, c.project+" is up", append([]string{"up", "--detach"}, c.args...)...)
			url := regexp.MustCompile(`http://localhost:\d+`).FindString(out)
			if url == "" {
				t.Fatalf("no port is published: %s", out)
			}
			wantEveryPattern(t, url)
			log, err := os.ReadFile(filepath.Join(s.dir, "state/loadstone/up", c.project, "logs/api-1.log"))
			if err != nil {
				t.Fatal(err)
			}
			for name, value := range c.switches {
				flag := map[string]string{"PATTERNS_REFRESH_AHEAD": "refresh-ahead=true", "PATTERNS_DO_ONCE": "do-once=" + value, "PATTERNS_POOL": "pool=" + value}[name]
				if !strings.Contains(string(log), flag) {
					t.Errorf("%s=%s is without effect: %s", name, value, log)
				}
			}
			s.want(0, c.project+" is stopped", "down")
			s.want(0, "no system is running", "ps")
			if _, _, err := ask(t, http.MethodGet, url+"/handle", ""); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("after down: got %v, want that nobody listens", err)
			}
		})
	}
}

// needServers skips a test for which servers are not installed.
func needServers(t *testing.T, programs []string) {
	t.Helper()
	debians, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	for _, p := range programs {
		if _, err := exec.LookPath(p); err == nil || p == "postgres" && len(debians) > 0 {
			continue
		}
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s is not installed, and CI=true asks for it", p)
		}
		t.Skipf("%s is not installed", p)
	}
}

// wantEveryPattern asks every endpoint of the patterns, again while it is too busy: for a
// minute at the most.
func wantEveryPattern(t *testing.T, url string) {
	t.Helper()
	const activity = `{"id":"order-1","user":"user-7","kind":"order","at":"2026-05-31T18:30:00Z","details":"two coffees"}`
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "/getPopularMovies", "", 200, "title"},
		{"GET", "/getBook/100", "", 200, `"id":100`},
		{"GET", "/handle", "", 200, ""},
		{"POST", "/handle", `{"user": 7}`, 202, `"id"`},
		{"POST", "/activities", activity, 201, "order-1"},
		{"GET", "/activities/order-1", "", 200, "two coffees"},
	} {
		status, body, err := ask(t, c.method, url+c.path, c.body)
		for deadline := time.Now().Add(time.Minute); status == http.StatusServiceUnavailable && time.Now().Before(deadline); {
			time.Sleep(100 * time.Millisecond)
			status, body, err = ask(t, c.method, url+c.path, c.body)
		}
		if err != nil || status != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%s %s: got status %d, %s and %v, want %d and %q", c.method, c.path, status, body, err, c.status, c.want)
		}
	}
}

// ask sends a request and returns what is answered.
func ask(t *testing.T, method, url, body string) (status int, answer string, err error) {
	t.Helper()
	const patience = 30 * time.Second // the slowest answers within five, on a busy machine in some more
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, string(text), err
}
