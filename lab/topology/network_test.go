package topology

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func loadText(t *testing.T, text string) (*System, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "compose.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(t.Context(), Config{ComposeFiles: []string{file}})
}

func TestWhoIsToldNoAddress(t *testing.T) {
	t.Parallel()
	s, err := loadText(t, `
services:
  fixed: {x-process: [./fixed], ports: ["8890"]}
  bound: {x-process: [./bound, "${BIND_HOST:-0.0.0.0}:80"], ports: ["80"]}
  told: {x-process: [./told], ports: ["80"], environment: {LOGS: "http://${FIXED_HOST:-fixed}:8890"}}
  other: {x-process: [./other, "${SMTP_HOST:-mail}"], ports: ["80"]}
  silent: {x-process: [./silent]}
  own: {image: loadstone, command: [patterns, serve], ports: ["80"]}
  stored: {image: redis, expose: ["6379"]}
  calling: {x-process: [./calling], environment: {URL: "http://fixed:8890"}}
`)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"fixed", "other"}; !slices.Equal(s.Unaddressed, want) {
		t.Errorf("got %q, want %q", s.Unaddressed, want)
	}
	if want := []string{"calling", "fixed", "other", "silent", "told"}; !slices.Equal(s.Unbound, want) {
		t.Errorf("told nowhere to listen: got %q, want %q", s.Unbound, want)
	}
	named := func(w string) bool { return strings.Contains(w, "only Docker resolves") }
	if slices.ContainsFunc(s.Warnings, named) || len(s.BareNames) != 1 {
		t.Errorf("warnings %q, of names %q", s.Warnings, s.BareNames)
	}
}

func TestNetworkIsOneOfTwo(t *testing.T) {
	t.Parallel()
	for _, network := range []string{OwnNetwork, Loopback} {
		s, err := loadText(t, "x-network: "+network+"\nservices: {api: {x-process: [./api]}}")
		if err != nil || s.Network != network {
			t.Errorf("%s: got %+v, %v", network, s, err)
		}
	}
	if _, err := loadText(t, "x-network: host\nservices: {api: {x-process: [./api]}}"); err == nil || !strings.Contains(err.Error(), "write own, for") {
		t.Errorf("got %v", err)
	}
}

func TestLinks(t *testing.T) {
	t.Parallel()
	s, err := loadText(t, `services: {api: {x-process: [./api], x-link: {delay: 5ms, loss: 0.5%, bandwidth: 10mbit}}, db: {x-process: [./db]}}`)
	if err != nil {
		t.Fatal(err)
	}
	if api, _ := s.Service("api"); api.Link != (Link{Delay: 5 * time.Millisecond, Loss: 0.005, Bandwidth: 10_000_000}) || !slices.Equal(s.Linked(), []string{"api"}) {
		t.Errorf("got %+v, linked %q", api.Link, s.Linked())
	}
	for _, wrong := range []string{`5ms`, `{}`, `{delay: 5}`, `{delay: -5ms}`, `{loss: 1}`, `{loss: 100%}`, `{loss: NaN%}`, `{bandwidth: 10}`, `{bandwidth: 1kbit}`, `{jitter: 5ms}`} {
		if _, err := loadText(t, "services: {api: {x-process: [./api], x-link: "+wrong+"}}"); err == nil || !strings.Contains(err.Error(), "x-link") {
			t.Errorf("%s: got %v", wrong, err)
		}
	}
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	s, err := loadText(t, `
services:
  api: {x-addresses: ["127.0.0.1:8080", "127.0.0.1:8081"]}
  store: {x-addresses: {node-b: ["10.0.0.2:5432"], node-a: ["10.0.0.1:5432"]}}
`)
	if err != nil {
		t.Fatal(err)
	}
	store, _ := s.Service("store")
	if len(store.Addresses) != 2 || store.Addresses[0].Node != "node-a" || store.Addresses[1].At.String() != "10.0.0.2:5432" {
		t.Errorf("got %+v", store.Addresses)
	}
	for _, wrong := range []string{`{"-oProxyCommand=id": ["10.0.0.1:80"]}`, `{"a b": ["10.0.0.1:80"]}`, `"127.0.0.1:8080"`, `[]`, `["api:8080"]`, `["127.0.0.1"]`, `{a: "10.0.0.1:80"}`} {
		if _, err := loadText(t, "services: {api: {x-addresses: "+wrong+"}}"); err == nil || !strings.Contains(err.Error(), "x-addresses") {
			t.Errorf("%s: got %v", wrong, err)
		}
	}
}

func TestAliases(t *testing.T) {
	t.Parallel()
	s, err := loadText(t, `
services:
  db: {image: postgres, container_name: my-db, networks: {back: {aliases: [database, db]}, front: {}}}
networks: {back: {}, front: {}}
`)
	if err != nil {
		t.Fatal(err)
	}
	if db, _ := s.Service("db"); !slices.Equal(db.Aliases, []string{"database", "my-db"}) {
		t.Errorf("got %q", db.Aliases)
	}
}
