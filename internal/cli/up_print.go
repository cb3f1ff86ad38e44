package cli

import (
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"loadstone/internal/project"
	"loadstone/lab/topology"
)

// starting shows a system while it starts: a line when a service begins, one
// when it is ready, and now and then what it still waits for.
type starting struct {
	w     io.Writer
	ended chan struct{}
	wait  sync.WaitGroup

	mu    sync.Mutex
	since map[string]time.Time // of services that are not ready
}

func newStarting(w io.Writer) *starting {
	const stillEvery = 10 * time.Second
	s := &starting{w: w, ended: make(chan struct{}), since: map[string]time.Time{}}
	s.wait.Go(func() {
		ticker := time.NewTicker(stillEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				s.still()
			case <-s.ended:
				return
			}
		}
	})
	return s
}

func (s *starting) progress() topology.Progress {
	return topology.Progress{
		Starting: func(service string) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.since[service] = time.Now()
			fmt.Fprintf(s.w, "%-18s starting\n", service)
		},
		Ready: func(service string) {
			s.mu.Lock()
			defer s.mu.Unlock()
			fmt.Fprintf(s.w, "%-18s ready after %.1f s\n", service, time.Since(s.since[service]).Seconds())
			delete(s.since, service)
		},
	}
}

func (s *starting) still() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(s.since)) {
		fmt.Fprintf(s.w, "%-18s still starting, for %.0f s\n", name, time.Since(s.since[name]).Seconds())
	}
}

// close ends it; the driver calls nothing any more.
func (s *starting) close() {
	close(s.ended)
	s.wait.Wait()
}

// printUp says where a system is.
func (a *app) printUp(store project.Store, r project.Record, stop string) {
	fmt.Fprintf(a.Stdout, "\n%s is up (driver %s, process %d); stop it with %s\n\n", r.Name, r.Driver, r.Owner.PID, stop)
	w := tabwriter.NewWriter(a.Stdout, 0, 0, 3, ' ', 0)
	for _, p := range sortedPorts(r.Published) {
		fmt.Fprintf(w, "  %s\t→ %s:%d\n", reachedAt(p), p.Service, p.Port)
	}
	if len(r.Published) > 0 {
		fmt.Fprintln(w)
	}
	fmt.Fprint(w, "  SERVICE\tINSTANCES\tADDRESSES\n")
	for _, s := range r.Services {
		fmt.Fprintf(w, "  %s\t%d\t%s\n", s.Name, len(s.Addresses), strings.Join(s.Addresses, ", "))
	}
	_ = w.Flush() // as every other print: there is nobody to tell
	fmt.Fprintf(a.Stdout, "\nlogs     %s\n", store.Logs(r.Name))
	if r.Driver == processDriver {
		fmt.Fprintf(a.Stdout, "volumes  %s\n", store.Volumes(r.Name))
	} else {
		fmt.Fprintf(a.Stdout, "volumes  of Docker, called %s_…\n", dockerVolumes(r.Name))
	}
}

// sortedPorts puts first what people open: by port of the host.
func sortedPorts(ports []project.Port) []project.Port {
	number := func(p project.Port) int {
		_, port, _ := net.SplitHostPort(p.Address)
		n, _ := strconv.Atoi(port) // 0 for what is no number, which is as good a place as any
		return n
	}
	return slices.SortedStableFunc(slices.Values(ports), func(a, b project.Port) int { return number(a) - number(b) })
}

// reachedAt is how a port is reached from this machine: as a URL, unless what
// listens there is known to speak something else than HTTP.
func reachedAt(p project.Port) string {
	host, port, err := net.SplitHostPort(p.Address)
	if err != nil {
		return p.Address
	}
	if host == "127.0.0.1" || host == "0.0.0.0" || host == "::" {
		host = "localhost"
	}
	address := net.JoinHostPort(host, port)
	switch p.Port {
	case 443, 8443:
		return "https://" + address + "/"
	case 22, 25, 3306, 4222, 5432, 5672, 6379, 9042, 9092, 11211, 27017:
		return address
	}
	return "http://" + address + "/"
}
