package cli

import (
	"errors"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"loadstone/block/servertest"
)

// The chat starts from the program alone, has its page and its streams at the published port,
// and ends.
func TestUpOfTheChat(t *testing.T) {
	s := newSite(t, idle)
	s.env = append(s.env, "CHAT_STREAMS=3")
	const url = "http://localhost:8097"
	if out := s.want(0, "chat-embedded is up", "up", "--detach", "chat", "embedded"); !strings.Contains(out, url) {
		t.Fatalf("%s is not published: %s", url, out)
	}
	for path, want := range map[string]string{"/app": "<h1>Chat</h1>", "/api/streams": `"id":3,`, "/readyz": ""} {
		status, page, err := ask(t, http.MethodGet, url+path, "")
		if err != nil || status != http.StatusOK || !strings.Contains(page, want) {
			t.Errorf("GET %s: got status %d, %s and %v, want 200 and %q", path, status, page, err, want)
		}
	}
	s.want(0, "chat-embedded is stopped", "down")
	if _, _, err := ask(t, http.MethodGet, url+"/readyz", ""); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("after down: got %v, want that nobody listens", err)
	}
}

// The chat of several servers starts, has the same page, and stores what is said.
func TestUpOfTheChatOfSeveralServers(t *testing.T) {
	servertest.Large(t)
	needServers(t, []string{"nginx", "redis-server", "mariadbd"})
	s := newSite(t, idle)
	s.env = append(s.env, "CHAT_STREAMS=3")
	const url = "http://localhost:8097"
	if out := s.want(0, "chat is up", "up", "--detach", "chat"); !strings.Contains(out, url) {
		t.Fatalf("%s is not published: %s", url, out)
	}
	for path, want := range map[string]string{"/app": "<h1>Chat</h1>", "/api/streams": `"id":3,`, "/readyz": ""} {
		status, page, err := ask(t, http.MethodGet, url+path, "")
		if err != nil || status != http.StatusOK || !strings.Contains(page, want) {
			t.Errorf("GET %s: got status %d, %s and %v, want 200 and %q", path, status, page, err, want)
		}
	}
	s.want(0, "", "chat", "reconcile", "--url", url, "--streams", "1,2", "--for", "5s")
	const account = `{"email":"ada@example.com","password":"correct horse battery","name":"Ada"}`
	for _, r := range []struct {
		path   string
		status int
		want   string
	}{{"/api/users", http.StatusAccepted, "sign in"}, {"/api/session", http.StatusCreated, `"name":"Ada"`}} {
		if status, page, err := ask(t, http.MethodPost, url+r.path, account); err != nil || status != r.status || !strings.Contains(page, r.want) {
			t.Errorf("POST %s: got status %d, %s and %v, want %d and %q", r.path, status, page, err, r.status, r.want)
		}
	}
	s.want(0, "chat is stopped", "down")
}
