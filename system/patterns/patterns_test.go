package patterns_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// script runs scripts/patterns with a loadstone that ends with status 99 for one
// experiment and with 0 for the others. It returns the script's status and what it
// said.
func script(t *testing.T, crossing string, args ...string) (status int, said string) {
	t.Helper()
	dir := t.TempDir()
	text, err := os.ReadFile("../../scripts/patterns")
	if err != nil {
		t.Fatal(err)
	}
	stub := "#!/bin/sh\ncase $2 in */" + crossing + ".yaml) echo 'missing 12'; exit 99;; esac\n"
	for name, text := range map[string]string{"scripts/patterns": string(text), "bin/loadstone": stub} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.CommandContext(t.Context(), "bash", append([]string{filepath.Join(dir, "scripts/patterns")}, args...)...).CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), string(out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return 0, string(out)
}

// A crossed objective ends the experiments, unless "off" is there to cross it: an event
// that was lost is none of those.
func TestACrossedObjectiveEndsThePatterns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		experiment string
		args       []string
		may        bool
	}{
		{"refresh-ahead", nil, true},
		{"do-once", nil, true},
		{"pool", nil, true},
		{"scaling", nil, false},
		{"async", nil, false},
		{"async-kill", nil, false},
		{"nosql", nil, false},
		{"do-once-full", []string{"full"}, true},
		{"rolling", []string{"full"}, false},
		{"async-kill-full", []string{"full"}, false},
	} {
		status, said := script(t, c.experiment, c.args...)
		if !strings.Contains(said, "missing 12") || (status == 0) != c.may || !c.may && status != 99 {
			t.Errorf("%s crosses an objective: got status %d, want 0: %v, else 99; it said\n%s", c.experiment, status, c.may, said)
		}
	}
}

// The experiments with kills are judged by their own accountants.
func TestKillsAreReconciled(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"async-kill", "async-kill-full"} {
		text, err := os.ReadFile(filepath.Join("experiments", name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"metric: reconcile_balanced, service: reconcile, as: value, slo: [max>0.5]", "metric: reconcile_missing, service: reconcile, as: value, slo: [max<1]", "--stay"} {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s has no %q", name, want)
			}
		}
	}
}
