package ui

import (
	"bufio"
	"context"
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"loadstone/lab/archive"
	"loadstone/lab/capacity"
	"loadstone/lab/load"
	"loadstone/lab/probe"
	"loadstone/lab/topology"
)

// A run under way, built step by step as an experiment leaves it.
func TestRunUnderWay(t *testing.T) {
	t.Parallel()
	runs := t.TempDir()
	d, trials := begin(t, runs)
	s := newSite(t, runs)
	page := "/runs/" + filepath.Base(d.Path()) + "/"
	s.shows(page, http.StatusOK, "No load has been offered yet", "Nothing was sampled yet")

	dir, err := d.TrialDir(trials[0])
	if err != nil {
		t.Fatal(err)
	}
	windows, samples := filepath.Join(dir, archive.WindowsFile), filepath.Join(dir, probe.SamplesFile)
	line := windowLine(t, 0, true, 70, 3)
	appendTo(t, windows, line[:len(line)/2])
	s.shows(page, http.StatusOK, "No load has been offered yet") // half a line is none
	appendTo(t, windows, line[len(line)/2:])
	s.shows(page, http.StatusOK, "70.0, most 70.0", "1, the sweep", "warming up")
	for i := 1; i <= 3; i++ {
		appendTo(t, windows, windowLine(t, i, false, 500, 40))
	}
	appendTo(t, windows, windowLine(t, 4, true, 80, 3)+windowLine(t, 5, false, 300, 10)+`{"start":`)
	s.shows(page, http.StatusOK, "<td>500</td><td>40.0 ms</td>", "<td>300</td><td>10.0 ms</td>", "Load number 2", "3.0 s")
	for i := range 6 {
		appendTo(t, samples, sampleLine(t, i))
	}
	s.shows(page, http.StatusOK, "0.250 cores", "api: now")

	// The trial ends: its row has what came of it, and the next one is followed.
	end := archive.Trial{
		Planned: trials[0], Started: began, Ended: began.Add(20 * time.Second),
		Instances: []topology.Instance{{Service: "api", Name: "api-1", LimitCPUs: 0.25}},
		Measures: []archive.Measure{
			{Kind: "search", Try: capacity.Try{Purpose: capacity.Search, Rate: 321, Held: true}, Result: load.Result{Response: load.Latency{P95: 12}}},
			{Kind: "search", Try: capacity.Try{Purpose: capacity.Search, Rate: 330, Reason: "too slow"}},
		},
	}
	if err := d.WriteTrial(end); err != nil {
		t.Fatal(err)
	}
	s.shows(page, http.StatusOK, "Trial 2 of 2 is under way: cached", "<td>321</td>", "About 20 s to go", "No load has been offered yet")
	s.shows("/", http.StatusOK, "1 of 2 trials ended")

	// What cannot be read is said, and the rest is there.
	dir, err = d.TrialDir(trials[1])
	if err != nil {
		t.Fatal(err)
	}
	appendTo(t, filepath.Join(dir, archive.WindowsFile), "not JSON\n")
	s.shows(page, http.StatusOK, "cannot be shown", "<td>321</td>")
}

// events reads a stream until it ends.
type events struct {
	t    *testing.T
	scan *bufio.Scanner
	part map[string]string
}

// until reads events until a part has the text, or the event end comes.
func (e *events) until(part, text string) {
	e.t.Helper()
	name := ""
	for e.scan.Scan() {
		line := e.scan.Text()
		if v, ok := strings.CutPrefix(line, "event: "); ok {
			name = v
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		if name == "end" {
			if part != "end" || data != text {
				e.t.Fatalf("the stream ended with %q, want %s to have %q; it has %q", data, part, text, e.part[part])
			}
			return
		}
		var p struct {
			Name string `json:"name"`
			HTML string `json:"html"`
		}
		if name == "part" && json.Unmarshal([]byte(data), &p) == nil {
			e.part[p.Name] = p.HTML
		}
		if strings.Contains(e.part[part], text) {
			return
		}
	}
	e.t.Fatalf("the stream is over, and %s never had %q: %q", part, text, e.part[part])
}

func TestEventsFollowARun(t *testing.T) {
	t.Parallel()
	runs := t.TempDir()
	d, trials := begin(t, runs)
	server := httptest.NewServer(newSite(t, runs).handler)
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/events/"+filepath.Base(d.Path()), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got := resp.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Fatalf("got %s", got)
	}
	e := &events{t, bufio.NewScanner(resp.Body), map[string]string{}}
	e.scan.Buffer(nil, 1<<20)
	e.until("status", "Trial 1 of 2")
	dir, err := d.TrialDir(trials[0])
	if err != nil {
		t.Fatal(err)
	}
	appendTo(t, filepath.Join(dir, archive.WindowsFile), windowLine(t, 0, false, 123, 5))
	e.until("load", "123, most 123")
	for _, p := range trials {
		if _, err := d.TrialDir(p); err != nil {
			t.Fatal(err)
		}
		if err := d.WriteTrial(archive.Trial{Planned: p, Started: began, Ended: began.Add(time.Second)}); err != nil {
			t.Fatal(err)
		}
	}
	e.until("status", "being derived")
	if err := d.Complete(time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := archive.WriteFile(filepath.Join(d.Path(), "report.html"), []byte("<p>")); err != nil {
		t.Fatal(err)
	}
	e.until("end", "whole")
}

func TestViewersAreBounded(t *testing.T) {
	t.Parallel()
	runs := t.TempDir()
	d, _ := begin(t, runs)
	h := &handler{index: newIndex(runs), viewers: make(chan struct{}, 1)}
	h.viewers <- struct{}{}
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	r.SetPathValue("name", filepath.Base(d.Path()))
	h.events(w, r)
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("got status %d, want 503", w.Code)
	}
}

func TestTail(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	path := filepath.Join(dir, "x.jsonl")
	f := tail{root: root, name: "x.jsonl"}
	expect := func(want string) {
		t.Helper()
		var got []string
		if err := f.read(func(line []byte) error { got = append(got, string(line)); return nil }); err != nil {
			t.Error(err)
		}
		if strings.Join(got, "|") != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	expect("") // it is not there yet
	appendTo(t, path, "a\nb")
	expect("a")
	expect("")
	appendTo(t, path, "c\n\nd\n")
	expect("bc|d")
	if err := os.WriteFile(path, []byte("e\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	expect("e") // a shorter file is another one
	appendTo(t, path, strings.Repeat("x", maxLine+1))
	if err := f.read(func([]byte) error { return nil }); err == nil {
		t.Error("a line without an end was waited for")
	}
}

// A trial of many pieces and seconds keeps only the latest of them.
func TestCurrentIsBounded(t *testing.T) {
	t.Parallel()
	c := newCurrent(nil, archive.Planned{Index: 1, Variant: "v"})
	for i := range 1000 {
		if err := c.window([]byte(windowLine(t, i, i%2 == 0, 10, 5))); err != nil {
			t.Fatal(err)
		}
		if err := c.sample([]byte(sampleLine(t, i))); err != nil {
			t.Fatal(err)
		}
	}
	if len(c.seconds) != maxSeconds || len(c.cpu) != maxSeconds || len(c.pieces) != maxPieces || c.skipped != 500-maxPieces {
		t.Errorf("kept %d seconds, %d of CPU, %d pieces, skipped %d", len(c.seconds), len(c.cpu), len(c.pieces), c.skipped)
	}
	if last := c.pieces[len(c.pieces)-1]; last.Number != 500 || math.Abs(last.p95()-5) > 0.1 || last.rate() != 10 {
		t.Errorf("the last piece is %+v", last)
	}
	if p95 := c.pieces[0].p95(); math.Abs(p95-5) > 0.1 {
		t.Errorf("an ended piece has a p95 of %v, want 5", p95)
	}
}

func TestLanesDrawOnlyWhatIsKnown(t *testing.T) {
	t.Parallel()
	at := func(s int) time.Time { return began.Add(time.Duration(s) * time.Second) }
	l := newLane("x", []point{{at(0), 1}, {at(1), math.NaN()}, {at(2), 4}, {at(4), math.Inf(1)}}, at(0), at(4), 0)
	if got, want := l.Lanes[0].Series[0].Path, "M0 1000V750V1000ZM500 1000V0V1000Z"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, points := range [][]point{nil, {{at(0), 0}}, {{at(0), math.NaN()}}} {
		if l := newLane("x", points, at(0), at(4), 0); len(l.Lanes[0].Series) > 0 && l.Lanes[0].Series[0].Path != "" {
			t.Errorf("%v: got %s", points, l.Lanes[0].Series[0].Path)
		}
	}
}

// Whatever stands in a raw file, it is drawn, or it is an error.
func FuzzRawLines(f *testing.F) {
	f.Add(`{"seconds":1,"requests":1,"response":"HIST"}`, `{"t":"2026-01-01T00:00:00Z","i":[{"n":"api-1","c":1}]}`)
	f.Add(`{"seconds":1e-300,"requests":9}`, `{"i":[{"n":"-"},{"n":"-"}]}`)
	f.Fuzz(func(t *testing.T, window, sample string) {
		c := newCurrent(nil, archive.Planned{})
		for range 2 {
			_ = c.window([]byte(window))
			_ = c.sample([]byte(sample))
		}
		for _, l := range append(c.loadLanes(), c.cpuLanes(nil)...) {
			drawn, err := l.HTML()
			if err != nil || strings.Contains(string(drawn), "NaN") || strings.Contains(string(drawn), "Inf") {
				t.Errorf("drew %s, %v", drawn, err)
			}
		}
	})
}
