package topology

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestOverlayOfAnUnknownService(t *testing.T) {
	t.Parallel()
	path := composeFile(t, shop)
	f := func(name, nearest string) {
		t.Helper()
		_, err := Load(t.Context(), Config{ComposeFiles: []string{path}, Overlay: []byte("services: {" + name + ": {environment: {A: b}}}"), OverlayName: "variant x"})
		var unknown *UnknownServiceError
		if !errors.As(err, &unknown) {
			t.Errorf("%s: got %v, want an *UnknownServiceError", name, err)
			return
		}
		want := UnknownServiceError{Overlay: "variant x", Name: name, Known: []string{"api", "data-base", "lb", "seed"}, Nearest: nearest}
		if !reflect.DeepEqual(*unknown, want) {
			t.Errorf("got %+v, want %+v", *unknown, want)
		}
		if !strings.HasPrefix(err.Error(), "variant x: there is no service") {
			t.Errorf("got %q", err)
		}
	}
	f("apo", "api")
	f("database", "data-base")
	f("prometheus", "")
}

func TestErrorsAreOneSentenceWithTheFile(t *testing.T) {
	t.Parallel()
	f := func(text, place, want string) {
		t.Helper()
		path := composeFile(t, text)
		_, err := Load(t.Context(), Config{ComposeFiles: []string{path}})
		if err == nil {
			t.Errorf("%q: got no error", text)
			return
		}
		got, ok := strings.CutPrefix(err.Error(), path+place)
		if !ok || !strings.Contains(got, want) || strings.ContainsAny(got, "\n\t") || strings.Contains(got, path) {
			t.Errorf("%q:\n got  %q\n want %q after %q and the file's name", text, err, want, place)
		}
	}
	const api = "services:\n  api:\n    image: loadstone\n"
	f(api+"    foo: 1\n", ":4:5: ", "services.api: Compose has no key `foo`")
	f("foo: 1\n", ":1:1: ", "Compose has no key `foo`")
	f("services:\n  api:\n    image: [1]\n", ":3:5: ", "services.api.image must be a string")
	f(api+"    deploy: {replicas: x}\n", ":4:14: ", `services.api.deploy.replicas: "x" is no number for this key`)
	f(api+"    deploy: {resources: {limits: {cpus: abc}}}\n", ":4:35: ", `services.api.deploy.resources.limits.cpus: "abc" is no number for this key`)
	f(api+"    deploy: {resources: {limits: {cpus: '-1'}}}\n", ":4:35: ", "write a number of cores")
	f(api+"    deploy: {resources: {limits: {cpus: '0.0001'}}}\n", ":4:35: ", "the minimum is 0.001")
	f(api+"    deploy: {resources: {limits: {memory: 64foo}}}\n", ":4:35: ", "write for example 64M")
	f(api+"    depends_on: [db]\n", ":4:18: ", `service "api" depends on undefined service "db"`)
	f("services:\n  api: [\n", ":3:1: ", "line 3") // where the file ends
	f(api+"    image: again\n", ":4:5: ", `mapping key "image" already defined at line 3`)
	f(api+"    command: ${X:?say where}\n", ":4:5: ", "services.api.command: required variable X is missing a value: say where")
	f(api+"    command: ${X\n", ":4:5: ", "services.api.command: `${X` is not a valid variable")
	f("services:\n  a: {image: loadstone, depends_on: [b]}\n  b: {image: loadstone, depends_on: [a]}\n", ":2:38: ", "dependency cycle detected")
	f("services:\n  a: {image: loadstone, depends_on: {b: {condition: service_healthy}}}\n  b: {image: loadstone}\n", ":2:38: ", "b has no healthcheck")
	f("", ": ", "empty compose file")
	f(api+"    volumes: [data:/data]\n", ":4:15: ", "undefined volume data")
	f(api+"    healthcheck: {interval: abc}\n", ":4:19: ", "services.api.healthcheck.interval")
	f(api+"    healthcheck: {test: [CMD]}\n", ":4:19: ", "no command after CMD")
	f(api+"    stop_signal: SIGNOPE\n", ":4:5: ", "stop_signal SIGNOPE is not a signal")
	f(api+"    env_file: nope.env\n", ":4:5: ", "env file")
	f(api+"    env_file: [{path: 5}]\n", ": ", "not have the type") // compose-go panics
	f("services: {pg: {image: 'postgres:17', secrets: [p]}}\nsecrets: {p: {external: true}}\n", ":2:11: ", "service pg: secret p: it is external")
	f("services:\n  app:\n    image: a\n    x-prcess: [./server]\n", ":4:5: ", "service app: x-prcess is not a known key; write x-process")
	f("services: {app: {x-prcess: [./server]}}\n", ":1:18: ", "write x-process")
	f(api+"    ports: [80800]\n", ":4:13: ", "80800 is not a port; write one from 1 to 65535")
	f(api+"    deploy: {replica: 3}\n", ":4:14: ", "services.api.deploy: Compose has no key `replica`")
	f(api+"    environment:\n      A: ${X\n", ":5:7: ", "not a valid variable")
	f("services:\n  api.v2:\n    image: loadstone\n    cpus: '0,3'\n", ":4:5: ", `"0,3" is no number for this key`)
	f("services: {app: {image: a, x-process: ./server}}\n", ":1:28: ", "expected a list")
	f("services: {app: {image: a, x-process: [a, 1.50]}}\n", ":1:28: ", "put it in quotes")
	f("services: {a-b: {image: loadstone}, a_b: {image: loadstone}}\n", ":1:37: ", "variable A_B_HOST")
	f("services: {bind: {image: loadstone}}\n", ":1:12: ", "variable BIND_HOST")
}

func TestErrorsOfTheOverlayNameIt(t *testing.T) {
	t.Parallel()
	path := composeFile(t, shop)
	for _, overlay := range []string{"services: {api: {foo: 1}}", "services: [", "services: {api: {depends_on: [nobody]}}", "- a", "services: {new: {image: mysql, cpus: -1}}", "services: {api: {environment: 5}}", "services: {api: {x-process: 5}}"} {
		_, err := Load(t.Context(), Config{ComposeFiles: []string{path}, Overlay: []byte(overlay), OverlayName: "variant x"})
		if err == nil || !strings.HasPrefix(err.Error(), "variant x: ") {
			t.Errorf("%q: got %v, want an error of variant x", overlay, err)
		}
	}
	if _, err := Load(t.Context(), Config{ComposeFiles: []string{filepath.Join(t.TempDir(), "none.yaml")}}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: got %v", err)
	}
}

func TestWarningsNameWhatIsNotHonoured(t *testing.T) {
	t.Parallel()
	s := loaded(t, `
services:
  a:
    image: loadstone
    restart: on-failure:3
    network_mode: host
    privileged: true
    ulimits: {nofile: 100}
    ports: ["8000-8002:8000-8002", "9000-9002:80", "53:53/udp"]
    volumes: [data:/data, ./conf:/etc/conf, /anonymous]
    command: serve ${UNSET} ${UNSET_WITH:-default} ${UNSET_ON_PURPOSE:-} ${B_HOST}
  b: {image: loadstone, restart: "no"}
volumes: {data: {}}
`)
	want := []string{
		"the number in restart is ignored", "network_mode is ignored", "privileged is ignored", "ulimits is ignored",
		"the load is sent to the first, 8000", "of the ports 9000-9002 only 9000 is published", "its udp port 53 is not published", "the volume is not mounted at /etc/conf", "unnamed volume /anonymous",
		"variable UNSET is not set", "write ${DATA_VOLUME:-/data}",
	}
	if len(s.Warnings) != len(want) {
		t.Errorf("got %d warnings, want %d: %q", len(s.Warnings), len(want), s.Warnings)
	}
	for _, w := range want {
		if !slices.ContainsFunc(s.Warnings, func(got string) bool { return strings.Contains(got, w) }) {
			t.Errorf("got %q, want one with %q", s.Warnings, w)
		}
	}
}
