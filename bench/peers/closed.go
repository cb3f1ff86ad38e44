package main

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The closed model: each tool keeps so many connections busy for so long.
const (
	connections   = "64"
	closedSeconds = 3
)

// script is the load as k6 takes it. Bodies are discarded, as the other tools
// do and as k6's own advice for high loads is.
const script = `import http from 'k6/http';
export const options = { vus: ` + connections + `, duration: '3s', discardResponseBodies: true };
export default function () { http.get(__ENV.BASE_URL); }
`

// tool is one of those that are compared.
type tool struct {
	name    string
	version []string // the command that prints it; a Go program knows its own
	command func(url string) []string
	bar     float64 // the generator needs at most this much of its CPU time
}

// tools lists them, the generator first. bombardier and plow would belong to
// them and could not be installed where this was written.
func tools(script string) []tool {
	const seconds = "3s"
	return []tool{
		{"loadstone", []string{loadstone, "--version"}, func(url string) []string {
			return []string{loadstone, "load", url, "--vus", connections, "--duration", seconds, "--json", "-"}
		}, 1},
		// One thread: the cheapest way for wrk, and what the generator uses on two processors.
		{"wrk", []string{"wrk", "-v"}, func(url string) []string {
			return []string{"wrk", "-t", "1", "-c", connections, "-d", seconds, url}
		}, 1.3},
		{"hey", nil, func(url string) []string {
			return []string{"hey", "-c", connections, "-z", seconds, url}
		}, 1},
		{"fortio", nil, func(url string) []string {
			return []string{"fortio", "load", "-quiet", "-c", connections, "-qps", "0", "-t", seconds, url}
		}, 1},
		{"k6", nil, func(url string) []string {
			return []string{"k6", "run", "--quiet", "--no-usage-report", "--address", "", "--env", "BASE_URL=" + url, script}
		}, 1.0 / 7},
	}
}

// costs is what came of one tool, one figure for each round.
type costs struct {
	perRequest []float64 // CPU time in microseconds
	perSecond  []float64 // requests
}

// closed compares CPU time per request, the tools taking turns.
func (b *bench) closed(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "loadstone-peers-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary file
	path := filepath.Join(dir, "script.js")
	if err := os.WriteFile(path, []byte(script), 0o600); err != nil {
		return err
	}
	b.out.printf("== closed model: CPU per request, %s connections, 400-byte answers, %d rounds of %d s, tools taking turns\n", connections, b.rounds, closedSeconds)
	var there []tool
	for _, t := range tools(path) {
		if _, err := exec.LookPath(t.command("")[0]); err != nil {
			if t.name == "loadstone" {
				return fmt.Errorf("%w; run make build", err)
			}
			b.out.printf("  %s is not on PATH and not compared\n", t.name)
			continue
		}
		there = append(there, t)
	}
	s, err := b.startServer(ctx, "fixed")
	if err != nil {
		return err
	}
	defer s.stop()
	all := make([]costs, len(there))
	for round := range b.rounds {
		for turn := range there {
			i := (round + turn) % len(there)
			if err := all[i].measure(ctx, s, there[i]); err != nil {
				return err
			}
		}
	}
	b.perSecond = median(all[0].perSecond)
	b.closedTable(ctx, there, all)
	return nil
}

func (c *costs) measure(ctx context.Context, s *server, t tool) error {
	u, n, err := s.counted(ctx, func() (used, error) { return runChild(ctx, t.command(s.url)...) })
	if err != nil {
		return fmt.Errorf("%s: %w", t.name, err)
	}
	c.perRequest = append(c.perRequest, u.cpu.Seconds()*1e6/float64(n))
	c.perSecond = append(c.perSecond, float64(n)/closedSeconds)
	return nil
}

func (b *bench) closedTable(ctx context.Context, there []tool, all []costs) {
	own := median(all[0].perRequest)
	b.out.printf("  %-10s %-28s %26s %10s %9s\n", "tool", "version", "µs/request [min, max]", "× own", "req/s")
	for i, t := range there {
		c := all[i].perRequest
		b.out.printf("  %-10s %-28s %8.2f [%6.2f, %6.2f] %10.2f %9.0f\n", t.name, version(ctx, t),
			median(c), slices.Min(c), slices.Max(c), median(c)/own, median(all[i].perSecond))
	}
	for i, t := range there[1:] {
		b.most("loadstone's CPU per request, as a share of "+t.name+"'s", own/median(all[i+1].perRequest), t.bar)
	}
}

// version is what a Go program was built from or, failing that, what the tool
// says when it is asked.
func version(ctx context.Context, t tool) string {
	path, err := exec.LookPath(t.command("")[0])
	if err != nil {
		return "-" // it was there a moment ago
	}
	if info, err := buildinfo.ReadFile(path); err == nil && strings.HasPrefix(info.Main.Version, "v") {
		return info.Main.Version
	}
	if t.version == nil {
		return "-"
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second) // it has a line to print
	defer cancel()
	// wrk fails when it is asked for its version, having said it.
	text, _ := exec.CommandContext(ctx, t.version[0], t.version[1:]...).Output()
	line, _, _ := strings.Cut(strings.TrimPrefix(string(text), t.name+" "), "\n")
	line, _, _ = strings.Cut(line, " [") // wrk goes on with its copyright
	return line[:min(len(line), 28)]
}

// median is the middle one; of two, the mean of both.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
