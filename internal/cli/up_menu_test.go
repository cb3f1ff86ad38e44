package cli

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Every form of the menus starts from the program alone, has the same page and the same
// menu at the published port, and ends.
func TestUpOfMenus(t *testing.T) {
	for _, c := range []struct {
		name, project string
		args, servers []string
		path          string
		admin         int // the status of editors' pages
	}{
		{"embedded", "menu-embedded", []string{"menu", "embedded"}, nil, "/menu/1", http.StatusNotFound},
		{"full", "menu", []string{"menu"}, []string{"nginx", "redis-server", "postgres"}, "/api/menu/1", http.StatusUnauthorized},
	} {
		t.Run(c.name, func(t *testing.T) {
			needServers(t, c.servers)
			s := newSite(t, idle)
			// PostgreSQL, which does not run as root, has to get to its data.
			if err := os.Chmod(filepath.Dir(s.dir), 0o755); err != nil {
				t.Fatal(err)
			}
			s.env = append(s.env, "MENU_COUNT=500")
			out := s.want(0, c.project+" is up", append([]string{"up", "--detach"}, c.args...)...)
			const url = "http://localhost:8090"
			if !strings.Contains(out, url) {
				t.Fatalf("%s is not published: %s", url, out)
			}
			for path, want := range map[string]string{c.path: `{"id":1,"dishes":[`, "/restaurants/1": "<html"} {
				status, body, err := ask(t, http.MethodGet, url+path, "")
				if err != nil || status != http.StatusOK || !strings.Contains(body, want) {
					t.Errorf("GET %s: got status %d, %s and %v, want 200 and %q", path, status, body, err, want)
				}
			}
			if status, _, err := ask(t, http.MethodGet, url+"/admin", ""); err != nil || status != c.admin {
				t.Errorf("GET /admin: got status %d and %v, want %d", status, err, c.admin)
			}
			s.want(0, c.project+" is stopped", "down")
			if _, _, err := ask(t, http.MethodGet, url+"/readyz", ""); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("after down: got %v, want that nobody listens", err)
			}
		})
	}
}
