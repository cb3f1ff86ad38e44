package cli

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"loadstone/system/feed/feedtest"
)

// Both forms of the feed start from the program alone, have the same page and the same feed
// at the published port, live and as a snapshot, and end.
func TestUpOfTheFeed(t *testing.T) {
	const url = "http://localhost:8095"
	read := map[string]string{}
	for _, c := range []struct {
		name, project string
		args, servers []string
		admin         int // the status of editors' pages
	}{
		{"embedded", "feed-embedded", []string{"feed", "embedded"}, nil, http.StatusNotFound},
		{"full", "feed", []string{"feed"}, []string{"nginx", "postgres", "versitygw"}, http.StatusUnauthorized},
	} {
		t.Run(c.name, func(t *testing.T) {
			needServers(t, c.servers)
			s := newSite(t, idle)
			// PostgreSQL, which does not run as root, has to get to its data.
			if err := os.Chmod(filepath.Dir(s.dir), 0o755); err != nil {
				t.Fatal(err)
			}
			s.env = append(s.env, "FEED_COUNT=500")
			if out := s.want(0, c.project+" is up", append([]string{"up", "--detach"}, c.args...)...); !strings.Contains(out, url) {
				t.Fatalf("%s is not published: %s", url, out)
			}
			status, page, err := ask(t, http.MethodGet, url+"/app", "")
			if err != nil || status != http.StatusOK || !strings.Contains(page, "<h1>Feed</h1>") {
				t.Errorf("GET /app: got status %d, %s and %v", status, page, err)
			}
			if status, _, err := ask(t, http.MethodGet, url+"/admin", ""); err != nil || status != c.admin {
				t.Errorf("GET /admin: got status %d and %v, want %d", status, err, c.admin)
			}
			transport := &http.Transport{}
			defer transport.CloseIdleConnections()
			client := &http.Client{Transport: transport}
			read[c.name] = feedtest.Journey(t, client, url, feedtest.Ways()[2])
			eventually(t, "the feed is published", func() bool {
				status, _, _ := ask(t, http.MethodGet, url+"/feed/pages/1.json", "")
				return status == http.StatusOK
			})
			if published := feedtest.Published(t, client, url); published != read[c.name] {
				t.Errorf("published:\n%.500s\nlive:\n%.500s", published, read[c.name])
			}
			s.want(0, c.project+" is stopped", "down")
			if _, _, err := ask(t, http.MethodGet, url+"/readyz", ""); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("after down: got %v, want that nobody listens", err)
			}
		})
	}
	if full := read["full"]; full != "" && full != read["embedded"] {
		t.Errorf("the forms serve different feeds:\n%.500s\n%.500s", full, read["embedded"])
	}
}
