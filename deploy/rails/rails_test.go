package rails

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"loadstone/block/servertest"
	"loadstone/system/feed/feedtest"
	"loadstone/system/feed/serve/servetest"
	"loadstone/system/feed/stores"
)

func TestMain(m *testing.M) { os.Exit(servertest.Main(m.Run)) }

// A batched journey reads the same of Rails as of our own server, byte for byte.
func TestRailsSaysTheSame(t *testing.T) {
	servertest.Large(t)
	puma, err := exec.LookPath("puma")
	if err != nil {
		servertest.Missing(t, "puma is not installed: scripts/setup rails")
	}
	database := servertest.Database(t)
	store, err := stores.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	db, err := store.Make(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = db.Fill(t.Context(), feedtest.Generator(t, 1, 100), nil); err == nil {
		err = db.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	address, log := servertest.Host()+":8080", filepath.Join(t.TempDir(), "log")
	rails := servertest.New(t, servertest.Program{
		Command: []string{puma, "--bind", "tcp://" + address, "--threads", "5:5", "config.ru"},
		Env:     append(os.Environ(), "DATABASE_URL="+database), Log: log, Ready: ready("http://" + address + "/readyz"),
	})
	rails.Start()
	transport := &http.Transport{DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport, Timeout: time.Minute}
	batched := feedtest.Ways()[2]
	if got, want := feedtest.Journey(t, client, "http://"+address, batched), feedtest.Journey(t, client, "http://"+servetest.Start(t, database, nil), batched); got != want {
		t.Errorf("got\n%.2000s\nwant\n%.2000s", got, want)
	}
	if text, err := os.ReadFile(log); err != nil || strings.Contains(string(text), "rror") {
		t.Errorf("the log: %s, %v", text, err)
	}
}

// ready asks an address until it answers 200.
func ready(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", url, response.Status)
		}
		return nil
	}
}
