package process

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"loadstone/lab/driver"
	"loadstone/lab/driver/process/network"
	"loadstone/lab/host/cgroup/cgrouptest"
	"loadstone/lab/topology"
)

// ownNetworksHere skips the test where instances cannot have networks of their own, but
// not in CI.
func ownNetworksHere(t *testing.T) {
	t.Helper()
	if err := networks(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("CI must be able to make networks: %v", err)
		}
		t.Skipf("this machine makes no networks: %v", err)
	}
}

// asTheyAre are programs that know nothing of where they run: one listens on a fixed port
// of all addresses, and the other calls it by its service's name.
const asTheyAre = `
services:
  web: {x-process: [$SELF, calls-logs], ports: ["8891"], depends_on: [logs], healthcheck: {test: [CMD, $SELF, asks, "http://localhost:8891/"]}}
  logs: {x-process: [$SELF, logs], ports: ["8890"], deploy: {replicas: %d}}
`

func asTheyAreConfig(t *testing.T, replicas int) setup {
	t.Helper()
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	return config(t, fmt.Sprintf(strings.ReplaceAll(asTheyAre, "$SELF", self), replicas))
}

// logs answers with its process id, on port 8890 of all addresses.
func logs([]string) int {
	return fail(http.ListenAndServe(":8890", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strconv.Itoa(os.Getpid()))
	})))
}

// callsLogs answers with what logs says, each time over a new connection.
func callsLogs([]string) int {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return fail(http.ListenAndServe(":8891", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		response, err := client.Get("http://logs:8890/")
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer response.Body.Close()
		_, _ = io.Copy(w, response.Body)
	})))
}

// asks ends with status 0 if a URL answers with 200.
func asks(args []string) int {
	response, err := http.Get(args[0])
	if err != nil {
		return fail(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fail(fmt.Errorf("it answers with %s", response.Status))
	}
	return 0
}

func urlOf(in topology.Instance) string {
	return "http://" + net.JoinHostPort(in.Host, strconv.Itoa(in.Port)) + "/"
}

// said is what a URL answers.
func said(t *testing.T, url string) string {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %s, %v", url, response.Status, text, err)
	}
	return string(text)
}

func TestProgramsRunAsTheyAre(t *testing.T) {
	ownNetworksHere(t)
	for _, replicas := range []int{1, 3} {
		t.Run(fmt.Sprint(replicas), func(t *testing.T) {
			r := up(t, asTheyAreConfig(t, replicas))
			if w := r.Warnings(); len(w) > 0 {
				t.Errorf("warnings: %q", w)
			}
			web := r.Instances()[replicas]
			if web.Service != "web" {
				t.Fatalf("got %+v", r.Instances())
			}
			pids := map[string]bool{}
			for range 10 * replicas {
				pids[said(t, urlOf(web))] = true
			}
			for i := range replicas {
				name := fmt.Sprintf("logs-%d", i+1)
				if !pids[strconv.Itoa(r.PID(name))] {
					t.Errorf("%s has answered nothing", name)
				}
			}
			if len(pids) != replicas {
				t.Errorf("answers of %v, want %d instances", pids, replicas)
			}
		})
	}
}

func TestAKilledInstanceIsAskedForNoMore(t *testing.T) {
	ownNetworksHere(t)
	r := up(t, asTheyAreConfig(t, 2))
	if err := r.Kill(t.Context(), "logs-1"); err != nil {
		t.Fatal(err)
	}
	web := r.Instances()[2]
	url := urlOf(web)
	for range 6 {
		if got := said(t, url); got != strconv.Itoa(r.PID("logs-2")) {
			t.Errorf("answered by %s", got)
		}
	}
	if _, err := r.Start(t.Context(), "logs-1"); err != nil {
		t.Fatal(err)
	}
	again := map[string]bool{}
	for range 10 {
		again[said(t, url)] = true
	}
	if !again[strconv.Itoa(r.PID("logs-1"))] {
		t.Error("the instance that was started again has answered nothing")
	}
}

func TestNetworksGoWithTheRun(t *testing.T) {
	ownNetworksHere(t)
	cgrouptest.Tree(t)
	c := asTheyAreConfig(t, 1)
	lab, out := startLab(t, c)
	if line, err := out.ReadString('\n'); line != "up\n" {
		t.Fatalf("got %q, %v from the lab", line, err)
	}
	groups := groupsOf(lab.Process.Pid, "")
	if len(groups) != 1 {
		t.Fatalf("got groups %q, want the run's", groups)
	}
	name := filepath.Base(groups[0])
	link := "ls" + name[strings.LastIndexByte(name, '-')+1:]
	if _, err := net.InterfaceByName(link); err != nil {
		t.Fatalf("the run's link: %v", err)
	}
	if err := lab.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = lab.Wait()
	wantNothingLeft(t, lab.Process.Pid, "")
	eventually(t, "the kernel has removed the link", func() bool {
		_, err := net.InterfaceByName(link)
		return err != nil
	})
}

// On loopback addresses each of three takes the port of all, and only one can.
func TestSharedPortsOnLoopbackAreExplained(t *testing.T) {
	c := asTheyAreConfig(t, 3)
	c.System.Network = topology.Loopback
	_, err := bringUp(t.Context(), c)
	if err == nil {
		t.Fatal("three processes listen on one port")
	}
	for _, want := range []string{"has taken its port", "which is every address", "${BIND_HOST:-0.0.0.0}:8890", "network of its own"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %q, want it to say %q", err, want)
		}
	}
}

func TestNetworksOnDemand(t *testing.T) {
	here := networks() == nil
	for _, c := range []struct {
		network     string
		unaddressed []string
		want        bool
	}{
		{"", nil, false},
		{"", []string{"logs"}, here},
		{topology.Loopback, []string{"logs"}, false},
	} {
		got, err := ownNetworks(&topology.System{Network: c.network, Unaddressed: c.unaddressed})
		if err != nil || got != c.want {
			t.Errorf("%+v: got %v, %v", c, got, err)
		}
	}
	if got, err := ownNetworks(&topology.System{Network: topology.OwnNetwork}); got != here || (err == nil) != here {
		t.Errorf("x-network: own: got %v, %v", got, err)
	}
}

// Names of hosts have no case, and Compose gives services more names than one. A service's own
// name goes before another's alias.
func TestServicesAreFoundByAllTheirNames(t *testing.T) {
	t.Parallel()
	r := &Running{
		network: &network.Network{},
		config: setup{Config: driver.Config{System: &topology.System{Services: []topology.Service{
			{Name: "API", Aliases: []string{"api.internal"}}, {Name: "db", Aliases: []string{"API", "my-db", "postgres"}}, {Name: "postgres"},
		}}}},
		hosts: map[string][]string{"API": {"a", "b"}, "db": {"c"}, "postgres": {"d"}},
	}
	for i, service := range []string{"API", "API", "db", "postgres"} {
		in := &instance{run: r, service: service}
		in.Name = fmt.Sprintf("%s-%d", service, i)
		r.instances = append(r.instances, in)
	}
	at := r.network.Address
	for name, want := range map[string][]netip.Addr{
		"api": {at(0), at(1)}, "Api.Internal": {at(0), at(1)}, "db": {at(2)}, "my-db": {at(2)}, "postgres": {at(3)}, "nobody": nil, "": nil,
	} {
		if got := r.lookup(name); !slices.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", name, got, want)
		}
	}
	got := r.instances[0].hostsFile()
	for name, want := range map[string]netip.Addr{"db": at(2), "my-db": at(2), "postgres": at(3), "API-0": at(0)} {
		if got[name] != want {
			t.Errorf("hosts: %s: got %v, want %v", name, got[name], want)
		}
	}
	for _, name := range []string{"API", "api.internal"} { // of several instances
		if address, ok := got[name]; ok {
			t.Errorf("hosts: %s is only %v", name, address)
		}
	}
}
