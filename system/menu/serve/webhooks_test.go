package serve

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"loadstone/block/webhook"
)

const whsec = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// Each change is told, with a signature, and those of a time without a server when there
// is one again. An endpoint that is down makes nobody unready.
func TestTellsOfChanges(t *testing.T) {
	t.Parallel()
	key, err := webhook.ParseKey(whsec)
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan string, 100)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		at, _ := strconv.ParseInt(r.Header.Get("Webhook-Timestamp"), 10, 64)
		if want := webhook.Sign([]webhook.Key{key}, r.Header.Get("Webhook-Id"), time.Unix(at, 0), body); r.Header.Get("Webhook-Signature") != want {
			t.Errorf("got signature %s, want %s", r.Header.Get("Webhook-Signature"), want)
		}
		told <- r.Header.Get("Webhook-Id") + " " + string(body)
	}))
	defer receiver.Close()
	cfg := DefaultConfig()
	cfg.Store, cfg.Token, cfg.Webhooks = filled(t), token, filepath.Join(t.TempDir(), "webhooks")
	if err := os.WriteFile(cfg.Webhooks, []byte("kitchen "+receiver.URL+" "+whsec+"\ndown http://127.0.0.1:1/s3cret-path "+whsec+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	bearer, kind := "Authorization: Bearer "+token, "Content-Type: application/json"
	t.Run("first", func(t *testing.T) {
		api, admin, said := serving(t, cfg)
		// An endpoint is told of what is new, so its place has to be made before the change.
		for first := ""; first == ""; {
			ask(t, "PUT", api+"/menu/51", shiro, bearer, kind)
			select {
			case first = <-told:
				if !strings.HasPrefix(first, "menu_51_") || !strings.Contains(first, ` {"type":"menu.changed","timestamp":"`) || !strings.Contains(first, `"deleted":false,"editor":"api"}`) {
					t.Errorf("got %s, want a change of menu 51", first)
				}
			case <-time.After(100 * time.Millisecond):
			case <-t.Context().Done():
				t.Fatal("nobody was told")
			}
		}
		want(t, "DELETE "+api+"/menu/51", 204, "", "", bearer)
		for gone := ""; !strings.Contains(gone, `"deleted":true`); {
			select {
			case gone = <-told:
			case <-time.After(3 * time.Minute):
				t.Fatal("nobody was told of the end")
			}
		}
		want(t, "GET "+api+"/readyz", 200, "ok")
		want(t, "GET "+admin+"/metrics", 200, `webhook_behind_seconds{endpoint="down"}`)
		if strings.Contains(said.String(), "s3cret-path") || strings.Contains(said.String(), whsec[7:]) {
			t.Errorf("a secret is in the log: %s", said)
		}
	})
	quiet := cfg
	quiet.Webhooks = ""
	t.Run("without", func(t *testing.T) {
		api, _, _ := serving(t, quiet)
		want(t, "PUT "+api+"/menu/52", 201, "", shiro, bearer, kind)
	})
	t.Run("again", func(t *testing.T) {
		serving(t, cfg)
		for got := ""; !strings.HasPrefix(got, "menu_52_1 "); { // the last one may come again
			select {
			case got = <-told:
			case <-time.After(3 * time.Minute): // more than the lease of a sender that could not end it
				t.Fatal("nobody was told of what changed without a sender")
			}
		}
	})
}

func TestMistakesInWebhooks(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "webhooks")
	cfg := DefaultConfig()
	cfg.Webhooks = file
	if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("got %v, want that there is no file", err)
	}
	if err := os.WriteFile(file, []byte("kitchen http://127.0.0.1:1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), file+": line 1: something is missing") {
		t.Errorf("got %v, want what is missing", err)
	}
	if err := addWebhooks("", nil, nil); err != nil {
		t.Errorf("without a file: %v", err)
	}
	if err := os.WriteFile(file, []byte("kitchen http://127.0.0.1:1 "+whsec+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := addWebhooks(file, nil, nil); err == nil || !strings.Contains(err.Error(), "write one that is a database") {
		t.Errorf("a store without a log: %v", err)
	}
}
