package attach

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"loadstone/lab/driver"
	"loadstone/lab/host"
	"loadstone/lab/host/agent"
	"loadstone/lab/topology"
)

// The test binary is also the agent and its keeper. Named as another machine, it is its
// remote shell, which leaves the name out.
func TestMain(m *testing.M) {
	role := ""
	if len(os.Args) > 1 {
		role = os.Args[1]
	}
	var err error
	switch role {
	case "agent", "shell":
		err = agent.Serve(context.Background(), os.Stdin, os.Stdout, agent.Config{Keeper: []string{os.Args[0], "keeper"}})
	case "keeper":
		err = agent.Keep(os.Stdin, os.Stdout)
	default:
		os.Exit(m.Run())
	}
	status := 0
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	syscall.Exit(status) // not os.Exit, in which the race detector waits for a second
}

func testDriver() Driver {
	return Driver{Agent: []string{os.Args[0], "agent"}, RemoteShell: []string{os.Args[0], "shell"}}
}

// listen accepts connections until the test ends, in this process.
func listen(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	return l.Addr().String()
}

func load(t *testing.T, compose, overlay string) *topology.System {
	t.Helper()
	file := filepath.Join(t.TempDir(), "compose.yaml")
	if err := os.WriteFile(file, []byte(compose), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := topology.Load(t.Context(), topology.Config{ComposeFiles: []string{file}, Overlay: []byte(overlay)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWhatRunsAlreadyIsSeenAndGoesOn(t *testing.T) {
	api, again, store := listen(t), listen(t), listen(t)
	s := load(t, fmt.Sprintf(`
services:
  api: {x-addresses: [%q, %q], labels: {prometheus.io/port: "9100"}}
  store: {x-addresses: {there: [%q]}}
  unseen: {image: redis}
`, api, again, store), "")
	r, err := testDriver().Up(t.Context(), driver.Config{System: s, LogDir: filepath.Join(t.TempDir(), "logs")})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, in := range r.Instances() {
		names = append(names, in.Name)
		if in.Unseen != (in.Service == "store") {
			t.Errorf("%s: unseen: %v", in.Name, in.Unseen)
		}
		if in.Service == "api" && (in.PID != os.Getpid() || in.MetricsURL != "http://127.0.0.1:9100/metrics" || in.Enforced) {
			t.Errorf("got %+v", in)
		}
	}
	if want := []string{"api-1", "api-2", "store-1"}; !slices.Equal(names, want) {
		t.Errorf("got instances %q, want %q", names, want)
	}
	warnings := strings.Join(r.Warnings(), "\n")
	for _, want := range []string{"nothing of it is fresh", "service unseen has no x-addresses", "store-1 is not seen", "api-1: it shares its control group"} {
		if !strings.Contains(warnings, want) {
			t.Errorf("warnings:\n%s\nwant %q", warnings, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = r.Hosts()[0].Watch(ctx, time.Second, func(s *host.Sample) error {
		defer cancel()
		if len(s.Instances) != 2 || s.Instances[0].CPU == 0 {
			t.Errorf("got %+v", s)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if err := r.Hosts()[0].Limit(t.Context(), "api-1", 1); !errors.Is(err, host.ErrUnsupported) {
		t.Errorf("nobody allowed its limit to be changed: got %v", err)
	}
	if err := errors.Join(r.Down(t.Context()), r.Down(t.Context())); err != nil {
		t.Error(err)
	}
	if conn, err := net.Dial("tcp", api); err != nil {
		t.Errorf("after Down: %v", err)
	} else {
		_ = conn.Close()
	}
}

func TestAnotherMachineIsAskedByItsAgent(t *testing.T) {
	s := load(t, fmt.Sprintf(`services: {store: {x-addresses: {there: [%q]}}}`, listen(t)), "")
	r, err := testDriver().Up(t.Context(), driver.Config{System: s, LogDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if in := r.Instances()[0]; in.PID != os.Getpid() {
		t.Errorf("got %+v", in)
	}
	if !slices.ContainsFunc(r.Warnings(), func(w string) bool { return strings.HasPrefix(w, "the clock of there is ahead by ") }) {
		t.Errorf("got %q", r.Warnings())
	}
	if err := r.Down(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestWhatAttachCannotDo(t *testing.T) {
	const closed = "127.0.0.1:1" // reserved, and nobody listens there
	for want, c := range map[string]struct{ compose, overlay, limit string }{
		"changes nothing of a system that runs already": {`services: {api: {x-addresses: ["127.0.0.1:80"]}}`, `services: {api: {environment: {A: b}}}`, ""},
		"has an x-link": {`services: {api: {x-addresses: ["127.0.0.1:80"], x-link: {delay: 5ms}}}`, "", ""},
		"--may-limit apii: there is no such service":     {`services: {api: {x-addresses: ["127.0.0.1:80"]}}`, "", "apii"},
		"may be limited, but it has no x-addresses":      {`services: {api: {image: redis}}`, "", "api"},
		"api-1 accepts no connection on " + closed + ";": {`services: {api: {x-addresses: ["` + closed + `"]}}`, "", ""},
	} {
		d := testDriver()
		if c.limit != "" {
			d.MayLimit = []string{c.limit}
		}
		r, err := d.Up(t.Context(), driver.Config{System: load(t, c.compose, c.overlay), LogDir: t.TempDir()})
		if err == nil {
			err = r.Down(t.Context())
			t.Errorf("%s: no error; %v", want, err)
			continue
		}
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
