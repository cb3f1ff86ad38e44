package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// What the generator's memory is measured with.
const (
	manyRequests = 10_000_000
	manyUsers    = 10_000
	manySockets  = 20_000
)

// requestsHeld measures the memory of a long run over many URLs. Its length
// follows from what the closed model did, with a quarter to spare.
func (b *bench) requestsHeld(ctx context.Context) error {
	b.out.printf("== memory (the kernel's high-water mark)\n")
	return b.withServer(ctx, "fixed", func(s *server) error {
		seconds := int(1.25*manyRequests/b.perSecond) + 1
		u, n, err := s.counted(ctx, func() (used, error) {
			return runChild(ctx, loadstone, "load", s.url+"student/{id}", "--feed", "id=uniform:1..1000000",
				"--vus", connections, "--duration", fmt.Sprintf("%ds", seconds), "--json", "-")
		})
		if err != nil {
			return err
		}
		b.out.printf("  %.1f million requests over a million URLs\n", float64(n)/1e6)
		if n < manyRequests {
			b.out.printf("    fewer than %d: the machine was slower than in the closed model\n", manyRequests)
		}
		b.most("MiB", u.peak, 64)
		return nil
	})
}

// usersHeld measures what a virtual user costs: the memory of many that all
// wait for an answer, less that of one.
func (b *bench) usersHeld(ctx context.Context) error {
	return b.withServer(ctx, "held", func(s *server) error {
		var peaks [2]float64
		for i, users := range []int{1, manyUsers} {
			u, n, err := s.counted(ctx, func() (used, error) {
				return runChild(ctx, loadstone, "load", s.url, "--vus", strconv.Itoa(users), "--duration", "3s", "--timeout", "30s", "--json", "-")
			})
			if err != nil {
				return err
			}
			if n < int64(users) {
				b.out.printf("    only %d of %d users were seen by the server\n", n, users)
			}
			peaks[i] = u.peak
		}
		b.out.printf("  %d users: %.1f MiB, one: %.1f MiB\n", manyUsers, peaks[1], peaks[0])
		b.most("KiB for each virtual user", 1024*(peaks[1]-peaks[0])/(manyUsers-1), 32)
		return nil
	})
}

// socketsHeld measures the memory of many WebSocket connections. Where a process
// may not open so many files it measures fewer and says what the rest would
// cost, each like the others.
func (b *bench) socketsHeld(ctx context.Context) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	most := manySockets
	if spare := 100; limit.Max < uint64(manySockets+spare) {
		most = int(limit.Max) - spare
	}
	return b.withServer(ctx, "sockets", func(s *server) error {
		var peaks [2]float64
		for i, sockets := range []int{1, most} {
			u, err := runSockets(ctx, s.url, sockets)
			if err != nil {
				b.out.printf("  WebSocket connections: not measured: %v\n", err)
				return nil // the other figures stand
			}
			peaks[i] = u.peak
		}
		n, err := s.counts(ctx)
		if err != nil {
			return err
		}
		held := n.MostOpen
		b.out.printf("  %d WebSocket connections held: %.1f MiB, one: %.1f MiB\n", held, peaks[1], peaks[0])
		if held < int64(most) {
			b.out.printf("    fewer than the %d that were asked for\n", most)
		}
		if most < manySockets {
			b.out.printf("    a process may open %d files here: the rest of %d is reckoned at the same cost each\n", limit.Max, manySockets)
		}
		b.most(fmt.Sprintf("MiB for %d WebSocket connections", manySockets), peaks[0]+(peaks[1]-peaks[0])*(manySockets-1)/float64(max(held-1, 1)), 600)
		return nil
	})
}

// runSockets has the generator open so many connections and hold them a while.
func runSockets(ctx context.Context, url string, sockets int) (used, error) {
	dir, err := os.MkdirTemp("", "loadstone-peers-")
	if err != nil {
		return used{}, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary file
	path := filepath.Join(dir, "load.yaml")
	text := fmt.Sprintf(`load:
  target: %s
  scenarios:
    held:
      executor: constant-vus
      vus: %d
      duration: 20s
      websocket: {path: /, connectRate: 2000/s}
`, strings.TrimSuffix(url, "/"), sockets)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return used{}, err
	}
	return runChild(ctx, loadstone, "load", path, "--json", "-")
}
