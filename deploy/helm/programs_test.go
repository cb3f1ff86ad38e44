package helm

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// program is what the image has: `make test` builds it before.
func program(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../../bin/loadstone")
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Fatalf("%v: run make build first", err)
	}
	return path
}

// helps has what the commands say of themselves.
var helps sync.Map

func help(t *testing.T, command string) string {
	t.Helper()
	path := program(t)
	said, _ := helps.LoadOrStore(command, sync.OnceValues(func() (string, error) {
		out, err := exec.Command(path, append(strings.Fields(command), "--help")...).Output()
		return string(out), err
	}))
	text, err := said.(func() (string, error))()
	if err != nil {
		t.Fatalf("loadstone %s --help: %v", command, err)
	}
	return text
}

// unknown are the flags and settings of a container that its command does not have.
func unknown(t *testing.T, prefix string, c *corev1.Container) (what []string) {
	t.Helper()
	first := slices.IndexFunc(c.Args, func(a string) bool { return strings.HasPrefix(a, "-") })
	if first < 0 {
		first = len(c.Args)
	}
	said := help(t, strings.Join(c.Args[:first], " "))
	for _, a := range c.Args[first:] {
		if strings.HasPrefix(a, "--") && !strings.Contains(said, " "+a+" ") {
			what = append(what, a)
		}
	}
	for _, e := range c.Env {
		flag, ok := strings.CutPrefix(e.Name, prefix)
		if flag = strings.ToLower(strings.ReplaceAll(flag, "_", "-")); ok && !strings.Contains(said, " --"+flag+" ") {
			what = append(what, e.Name)
		}
	}
	return what
}

func TestProgramsHaveTheSettings(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, system, _ string, v values) {
		objects, err := render(system, system, versions[0], v)
		if err != nil {
			t.Fatal(err)
		}
		prefix := strings.ToUpper(system) + "_"
		for _, w := range open(t, objects).workloads {
			for _, c := range slices.Concat(w.pod.Spec.InitContainers, w.pod.Spec.Containers) {
				if what := unknown(t, prefix, &c); what != nil {
					t.Errorf("%s: loadstone %s has no %v", w.GetName(), strings.Join(c.Args, " "), what)
				}
			}
		}
	})
	wrong := corev1.Container{Args: []string{"results", "serve", "--shop", "x"}, Env: []corev1.EnvVar{{Name: "RESULTS_CASH"}}}
	if got := unknown(t, "RESULTS_", &wrong); len(got) != 2 {
		t.Errorf("got %v, want the flag and the setting that there are not", got)
	}
}

// small is little to fill a store with.
var small = map[string]values{
	"results":  {"fill": values{"students": 300}},
	"menu":     {"fill": values{"menus": 300}},
	"chat":     {"fill": values{"streams": 2}},
	"feed":     {"fill": values{"posts": 100}},
	"patterns": {},
}

// TestEmbeddedFormsServe runs what the pods of the embedded forms run, with a directory in place of the volume and
// an address in place of each pod: they fill it, start, are ready where the probes ask, and stop in time.
func TestEmbeddedFormsServe(t *testing.T) {
	t.Parallel()
	for n, system := range systems {
		t.Run(system, func(t *testing.T) {
			t.Parallel()
			objects, err := render(system, system, versions[0], maps.Clone(small[system]))
			if err != nil {
				t.Fatal(err)
			}
			sets := open(t, objects).workloads
			addresses := map[string]string{}
			for i, w := range sets {
				pid := os.Getpid()
				addresses[w.GetName()] = fmt.Sprintf("127.%d.%d.%d", 100+10*n+i, pid>>8&255, pid&255)
			}
			for _, w := range slices.Backward(sets) { // what others need comes last
				serve(t, w, addresses)
			}
		})
	}
}

// serve runs a pod until the test ends.
func serve(t *testing.T, w workload, addresses map[string]string) {
	t.Helper()
	dir, own := t.TempDir(), addresses[w.GetName()]
	here := []string{"/data", dir, "0.0.0.0:", own + ":"}
	for name, address := range addresses {
		here = append(here, name+":", address+":")
	}
	local := strings.NewReplacer(here...).Replace
	command := func(c *corev1.Container) (*exec.Cmd, *strings.Builder) {
		var args []string
		for _, a := range c.Args {
			args = append(args, local(a))
		}
		cmd := exec.Command(program(t), args...)
		for _, e := range c.Env {
			cmd.Env = append(cmd.Env, e.Name+"="+local(e.Value))
		}
		said := &strings.Builder{}
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, said, said
		return cmd, said
	}
	for _, c := range w.pod.Spec.InitContainers {
		if cmd, said := command(&c); cmd.Run() != nil {
			t.Fatalf("%s: %s ended with status %d:\n%s", w.GetName(), c.Name, cmd.ProcessState.ExitCode(), said)
		}
	}
	c := &w.pod.Spec.Containers[0]
	cmd, said := command(c)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("%s: %v:\n%s", w.GetName(), err, said)
			}
		case <-time.After(time.Duration(*w.pod.Spec.TerminationGracePeriodSeconds) * time.Second * 4): // beside other tests
			_ = cmd.Process.Kill()
			t.Errorf("%s: did not stop:\n%s", w.GetName(), <-ended)
		}
	})
	for _, p := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
		var port int32
		for _, known := range c.Ports {
			if known.Name == p.HTTPGet.Port.StrVal {
				port = known.ContainerPort
			}
		}
		answers(t, "http://"+net.JoinHostPort(own, strconv.Itoa(int(port)))+p.HTTPGet.Path, ended)
	}
}

// answers waits until an address is answered with status 200.
func answers(t *testing.T, url string, ended chan error) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		resp, err := http.Get(url)
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
			err = fmt.Errorf("status %d", resp.StatusCode)
		}
		select {
		case e := <-ended:
			ended <- e
			t.Fatalf("%s: it has ended: %v", url, e)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", url, err)
		}
	}
}
