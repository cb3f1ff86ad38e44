package project

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"loadstone/lab/driver/guardian"
)

func TestAClaimIsSeenUntilItIsReleased(t *testing.T) {
	t.Parallel()
	s := Store{t.TempDir()}
	c, err := s.Claim(t.Context(), Record{Name: "shop", Target: "shop.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Update(Up, func(r *Record) { r.Services = []Service{{Name: "api"}} }); err != nil {
		t.Fatal(err)
	}
	r, ok, err := s.Find("shop")
	if err != nil || !ok || r.Phase != Up || r.Owner.PID != os.Getpid() || len(r.Services) != 1 {
		t.Errorf("got %+v, %v, %v, want it up by this process", r, ok, err)
	}
	_, err = s.Claim(t.Context(), Record{Name: "shop"})
	if up, ok := errors.AsType[*UpError](err); !ok || up.Record.Target != "shop.yaml" {
		t.Errorf("a second claim: got %v, want that shop.yaml is up", err)
	}
	if err := c.Release(); err != nil {
		t.Error(err)
	}
	if all, err := s.Alive(); err != nil || len(all) != 0 {
		t.Errorf("after the release: got %v, %v, want nothing", all, err)
	}
	c, err = s.Claim(t.Context(), Record{Name: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Release(); err != nil {
		t.Error(err)
	}
}

// The record of a process that is gone, or whose pid another one has by now, is
// stale: it is not up, nothing is signalled, and the project can be claimed.
func TestAStaleRecordIsRecognised(t *testing.T) {
	t.Parallel()
	sleeper := exec.CommandContext(t.Context(), "sleep", "60")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sleeper.Process.Kill(); _ = sleeper.Wait() })
	now, err := guardian.Identify(procRoot, sleeper.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	reused := guardian.Process{PID: now.PID, Start: now.Start - 1}
	for name, owner := range map[string]guardian.Process{"reused": reused, "gone": {PID: 1 << 22, Start: 1}, "none": {}} {
		s := Store{t.TempDir()}
		c, err := s.Claim(t.Context(), Record{Name: "shop"})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Update(Up, func(r *Record) { r.Owner = owner }); err != nil {
			t.Fatal(err)
		}
		if err := c.lock.Close(); err != nil { // as the kernel does
			t.Fatal(err)
		}
		r, ok, err := s.Find("shop")
		if ok || err != nil {
			t.Errorf("%s: got %+v, %v, want none", name, r, err)
		}
		if err := r.Signal(syscall.SIGTERM); owner.PID > 0 && err != nil {
			t.Errorf("%s: signal: %v", name, err)
		}
		if _, err := s.Claim(t.Context(), Record{Name: "shop"}); err != nil {
			t.Errorf("%s: claim: %v", name, err)
		}
	}
	if !now.Alive(procRoot) {
		t.Error("a process was signalled that had only the pid of another")
	}
}

func TestDamageIsReported(t *testing.T) {
	t.Parallel()
	s := Store{t.TempDir()}
	if err := os.MkdirAll(s.Path("shop"), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.Path("shop"), recordName), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Find("shop"); err == nil || !strings.Contains(err.Error(), "is damaged; remove it") {
		t.Errorf("got %v", err)
	}
}

func TestAnEndedContextEndsTheWait(t *testing.T) {
	t.Parallel()
	s := Store{t.TempDir()}
	c, err := s.Claim(t.Context(), Record{Name: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(c.dir, recordName)); err != nil { // an owner nobody knows
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Claim(ctx, Record{Name: "shop"}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if err := c.lock.Close(); err != nil {
		t.Error(err)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"results": true, "results-embedded": true, "0a_b": true,
		"": false, "..": false, "a/b": false, "A": false, "-a": false, "a b": false, "ä": false,
	} {
		if err := CheckName(name); (err == nil) != want {
			t.Errorf("%q: got %v, want accepted %v", name, err, want)
		}
	}
}
