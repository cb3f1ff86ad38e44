package docker

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/types"

	"loadstone/lab/driver"
)

// Twice, so that the second life's end is seen as the first one's was.
func testAgain(t *testing.T, env map[string]string, image string) {
	dir := t.TempDir()
	s := system(t, dir, `services: {api: {image: `+image+`, command: [serve, "0.0.0.0:8080", /data/notes], expose: ["8080"], deploy: {replicas: 2}}}`)
	t.Cleanup(func() { removeVolumes(t, env, testConfig(s, dir, env).VolumePrefix) })
	r, err := bringUp(t.Context(), testConfig(s, dir, env))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Down(context.Background()) }()
	if _, err := r.Start(t.Context(), "api-1"); err == nil || err.Error() != "start api-1: it has not ended" {
		t.Errorf("one that runs: got %v", err)
	}
	if _, err := r.Start(t.Context(), "api-9"); err == nil || err.Error() != "there is no instance api-9" {
		t.Errorf("got %v", err)
	}
	other := r.Instances()[1]
	for range 2 {
		before := r.Instances()[0]
		crash(t, r)
		launched, err := r.Start(t.Context(), "api-1")
		now := r.Instances()[0]
		if err != nil || !launched.After(before.StartedAt) || !now.StartedAt.Equal(launched) || now.ReadyAt.Before(launched) || now.PID == before.PID {
			t.Errorf("got %v, %v; before %+v, now %+v", launched, err, before, now)
		}
		conn, err := net.DialTimeout("tcp", net.JoinHostPort(now.Host, "8080"), time.Minute)
		if err != nil {
			t.Fatalf("it is not ready: %v", err)
		}
		_ = conn.Close()
	}
	if now := r.Instances()[1]; now.PID != other.PID {
		t.Errorf("the other instance: got %+v, want %+v", now, other)
	}
	log, err := os.ReadFile(filepath.Join(dir, "logs", "api-1.log"))
	if err != nil || bytes.Count(log, []byte("about to crash")) != 2 {
		t.Errorf("got %q, %v, want the log of all lives", log, err)
	}
	if err := r.Down(context.Background()); err != nil {
		t.Error(err)
	}
	if w := r.Warnings(); len(w) > 0 {
		t.Errorf("got warnings %q", w)
	}
	if _, err := r.Start(t.Context(), "api-1"); !errors.Is(err, driver.ErrDown) {
		t.Errorf("after Down: got %v", err)
	}
}

// crash has api-1 end and waits until that is reported.
func crash(t *testing.T, r *Running) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+net.JoinHostPort(r.Instances()[0].Host, "8080")+"/crash", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if res, err := http.DefaultClient.Do(req); err == nil {
		_ = res.Body.Close()
	}
	select {
	case err := <-r.Failed():
		if e, ok := errors.AsType[*driver.ExitError](err); !ok || e.Instance != "api-1" || !strings.Contains(e.Status, "status 7") {
			t.Errorf("got %v, want the end of api-1", err)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("the end of api-1 is not reported")
	}
}

func TestPortsAreForThisMachineUnlessAllIsAskedFor(t *testing.T) {
	t.Parallel()
	ports := []types.ServicePortConfig{
		{Target: 80, Published: "8080", Protocol: "tcp"}, {Target: 81},
		{Target: 82, Published: "82", HostIP: "0.0.0.0"}, {Target: 83, Published: "83", HostIP: "::1"},
	}
	stated := []string{"0.0.0.0:82:82", "[::1]:83:83"}
	if got, want := published(ports, &Driver{}), slices.Concat([]string{"127.0.0.1:8080:80/tcp", "127.0.0.1::81"}, stated); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := published(ports[:1], &Driver{AnyPort: true}); !slices.Equal(got, []string{"127.0.0.1::80/tcp"}) {
		t.Errorf("got %q, want a port that Docker chooses", got)
	}
	if got, want := published(ports, &Driver{PublishAll: true}), slices.Concat([]string{"8080:80/tcp", "81"}, stated); !slices.Equal(got, want) {
		t.Errorf("all: got %q, want %q", got, want)
	}
}
