package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"loadstone/lab/archive"
)

// twoRounds are two variants in two rounds of ten seconds of load each; the last
// trial of each is perturbed for twenty more.
func twoRounds() (trials []archive.Planned, load []time.Duration) {
	for i, v := range []string{"query", "snapshot", "snapshot", "query"} {
		trials = append(trials, archive.Planned{Index: i + 1, Round: 1 + i/2, Variant: v})
		load = append(load, time.Duration(10+20*(i/2))*time.Second)
	}
	return trials, load
}

func TestPaceLearnsWhatTrialsTake(t *testing.T) {
	t.Parallel()
	trials, load := twoRounds()
	p := newPace(trials, load)
	f := func(present, want time.Duration, text string) {
		t.Helper()
		if got, _ := p.left(present); got != want {
			t.Errorf("after %d trials: %v left, want %v", p.ended, got, want)
		}
		if got := p.leftText(present); got != text {
			t.Errorf("after %d trials: %q, want %q", p.ended, got, text)
		}
	}
	f(0, 80*time.Second, "at least 1 min 20 s left")
	f(4*time.Second, 76*time.Second, "at least 1 min 20 s left")
	f(time.Minute, 70*time.Second, "at least 1 min 10 s left") // the trial is late, the others are to come all the same
	p.end(trials[0], 25*time.Second)                           // 15 s beyond its load
	f(0, (25+45+45)*time.Second, "about 2 min left")           // snapshot by query's, until it has its own
	p.end(trials[1], 12*time.Second)
	f(0, (32+45)*time.Second, "about 1 min 20 s left")
	f(30*time.Second, (2+45)*time.Second, "about 47 s left")
	p.end(trials[2], 28*time.Second) // its perturbation ended early
	f(0, 45*time.Second, "about 45 s left")
	p.end(trials[3], 45*time.Second)
	f(0, 0, "about 0 s left")
	p.end(trials[3], time.Second) // one too many is no matter
	f(0, 0, "about 0 s left")
}

func TestPaceOfAScript(t *testing.T) {
	t.Parallel()
	trials, load := twoRounds()
	clear(load)
	p := newPace(trials, load)
	if got := p.leftText(0); got != "time left not known yet" {
		t.Errorf("before: %q", got)
	}
	if got, want := beforehand(p), "4 trials; how long is not known before the first has ended"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	p.end(trials[0], 100*time.Second)
	if got, want := p.leftText(0), "about 5 min left"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A pipe gets a line per trial, each with the time that is left by then.
func TestProgressInAPipe(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	p := newProgress(&b, false)
	trials, load := twoRounds()
	p.planned("runs/x", trials, load)
	began := time.Now()
	for i, took := range []time.Duration{25 * time.Second, 12 * time.Second, 28 * time.Second, 45 * time.Second} {
		p.trialStarted(trials[i])
		p.trialEnded(archive.Trial{Planned: trials[i], Started: began, Ended: began.Add(took)})
	}
	p.close()
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	want := []string{
		"run runs/x: 4 trials, at least about 1 min 20 s: starting, seeding, stopping and slow answers come on top",
		"(25.0 s)  about 2 min left", "(12.0 s)  about 1 min 20 s left", "(28.0 s)  about 45 s left", "(45.0 s)",
	}
	if len(lines) != len(want) {
		t.Fatalf("got %d lines:\n%s", len(lines), b.String())
	}
	for i := range want {
		if !strings.HasSuffix(lines[i], want[i]) {
			t.Errorf("line %d: got %q, want its end %q", i+1, lines[i], want[i])
		}
	}
}

// On a terminal the bar says the same, and counts the present trial down.
func TestProgressOnATerminal(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	p := newProgress(&b, true)
	defer p.close()
	trials, load := twoRounds()
	p.planned("runs/x", trials, load)
	if got, want := p.left(), "at least 1 min 20 s left"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	began := time.Now()
	p.trialStarted(trials[0])
	p.trialEnded(archive.Trial{Planned: trials[0], Started: began, Ended: began.Add(25 * time.Second)})
	if got, want := p.left(), "about 2 min left"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	p.trialStarted(trials[1])
	p.mu.Lock()
	p.began = p.began.Add(-20 * time.Second)
	p.mu.Unlock()
	if got, want := p.left(), "about 1 min 40 s left"; got != want { // 25 − 20 + 45 + 45 s
		t.Errorf("got %q, want %q", got, want)
	}
}

// The last trial of a variant says why it goes on: in a pipe by a line of its own, on a
// terminal behind the bar.
func TestProgressOfAPerturbation(t *testing.T) {
	t.Parallel()
	for name, terminal := range map[string]bool{"pipe": false, "terminal": true} {
		var b bytes.Buffer
		p := newProgress(&b, terminal)
		trials, load := twoRounds()
		p.planned("runs/x", trials, load)
		p.trialStarted(trials[2])
		events := p.events()
		events.Doing("changing resources under load, for up to 30 s")
		events.Perturbing(30 * time.Second)
		const line = "trial 3/4  snapshot     its rate is found; now resources are changed under load, for up to 30 s, to see what moves it\n"
		if got := p.current(); got != "snapshot: changing resources under load, for up to 30 s" {
			t.Errorf("%s: behind the bar: %q", name, got)
		}
		p.close()
		if strings.Contains(b.String(), line) == terminal {
			t.Errorf("%s: want the line where there is no bar, got\n%s", name, b.String())
		}
	}
}
