package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/atomicfile"
)

// Variables that make the test binary the sender that is killed.
const (
	victimURL = "WEBHOOK_VICTIM_URL"
	victimDir = "WEBHOOK_VICTIM_DIR"
)

// files are places of one process at a time.
type files string

func (f files) path(endpoint string) string { return filepath.Join(string(f), endpoint) }

func (f files) Load(_ context.Context, endpoint string) ([]byte, error) {
	text, err := os.ReadFile(f.path(endpoint))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return text, err
}

func (f files) Swap(ctx context.Context, endpoint string, old, place []byte) error {
	if now, err := f.Load(ctx, endpoint); err != nil || !bytes.Equal(now, old) {
		return errors.Join(err, ErrTaken)
	}
	return atomicfile.Write(f.path(endpoint), place, 0o600)
}

const victimMessages = 40

// runAsVictim sends, if this process was started for it, until it is killed.
func runAsVictim() bool {
	url := os.Getenv(victimURL)
	if url == "" {
		return false
	}
	h := &history{}
	for n := range victimMessages {
		h.add(fmt.Sprint("k", n), 1)
	}
	cfg := DefaultConfig()
	cfg.Source, cfg.Places, cfg.Registerer, cfg.Kept = h, files(os.Getenv(victimDir)), prometheus.NewRegistry(), 24*time.Hour
	cfg.Timeout, cfg.Lease, cfg.Poll, cfg.First, cfg.Most, cfg.Batch = 5*time.Second, 8*time.Second, 20*time.Millisecond, 10*time.Millisecond, 100*time.Millisecond, 8
	key, err := ParseKey(keyText)
	if err != nil {
		panic(err)
	}
	cfg.Endpoints = []Endpoint{{Name: "a", URL: url, Keys: []Key{key}}}
	s, err := New(cfg)
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute) // in case the test is killed
	defer cancel()
	_ = s.Run(ctx)
	return true
}

// A sender that is killed when a message was delivered, and the place not written, loses
// nothing.
func TestKilledBetweenDeliveryAndPlace(t *testing.T) {
	t.Parallel()
	var (
		mu     sync.Mutex
		times  = map[string]int{}
		victim *exec.Cmd
		kills  int
	)
	done := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		times[r.Header.Get("Webhook-Id")]++
		if len(times) > 15*(kills+1) && kills < 2 {
			kills++
			_ = victim.Process.Kill() // before it is answered
		}
		if len(times) == victimMessages {
			select {
			case <-done:
			default:
				close(done)
			}
		}
	}))
	defer server.Close()
	dir := t.TempDir()
	// The first place is at the beginning, as nobody has seen the log before.
	if err := os.WriteFile(filepath.Join(dir, "a"), fmt.Appendf(nil, `{"cursor":"","since":"%s"}`, time.Now().UTC().Format(time.RFC3339)), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for life := range 3 {
		cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^$")
		cmd.Env = append(os.Environ(), victimURL+"="+server.URL, victimDir+"="+dir)
		mu.Lock()
		victim = cmd
		err := cmd.Start()
		mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		if life == 2 {
			select {
			case <-done:
			case <-ctx.Done():
			}
			_ = cmd.Process.Kill()
		}
		_ = cmd.Wait()
	}
	mu.Lock()
	defer mu.Unlock()
	twice := 0
	for _, n := range times {
		if n > 1 {
			twice++
		}
	}
	if len(times) != victimMessages || kills != 2 || twice == 0 {
		t.Errorf("got %d of %d messages in spite of %d kills, %d more than once; want all, and those that were under way again", len(times), victimMessages, kills, twice)
	}
}
