package topology

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

const shop = `
name: shop
services:
  lb:
    image: loadstone:dev
    command: [results, serve, --listen, "${BIND_HOST:-0.0.0.0}:8080", --api, "${API_HOSTS:-api}"]
    ports: ["80:8080"]
    depends_on: {api: {condition: service_healthy}}
  api:
    build: .
    x-process: [./server, --port, 8081]
    environment:
      DATABASE: postgres://${DATA_BASE_HOST:-data-base}:5432/shop
      PASSED_ON:
    expose: ["8081"]
    labels: {prometheus.io/port: "9100"}
    deploy:
      replicas: 3
      resources: {limits: {cpus: "0.1", memory: 64M}}
    healthcheck:
      test: [CMD, loadstone, health, "http://${BIND_HOST:-localhost}:8081/readyz"]
      interval: 2s
      retries: 5
      start_period: 4s
    depends_on:
      seed: {condition: service_completed_successfully}
      data-base: {condition: service_started}
  seed:
    image: loadstone
    command: results seed --out ${DATA_VOLUME:-/data}
    volumes: [data:/data]
  data-base:
    image: postgres
    x-process: [postgres, -D, "${DATA_VOLUME:-/data}"]
    stop_signal: INT
    stop_grace_period: 3s
    volumes: [data:/var/lib/postgresql]
volumes: {data: {}}
`

func composeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "compose.yaml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func loaded(t *testing.T, text string) *System {
	t.Helper()
	s, err := Load(t.Context(), Config{ComposeFiles: []string{composeFile(t, text)}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func service(t *testing.T, s *System, name string) Service {
	t.Helper()
	got, ok := s.Service(name)
	if !ok {
		t.Fatalf("no service %s", name)
	}
	return got
}

func TestLoadReadsWhatADriverNeeds(t *testing.T) {
	t.Parallel()
	s := loaded(t, shop)
	names := make([]string, 0, 4)
	for _, service := range s.Services {
		names = append(names, service.Name)
	}
	if want := []string{"data-base", "seed", "api", "lb"}; !slices.Equal(names, want) {
		t.Errorf("order: got %q, want %q", names, want)
	}
	if s.Name != "shop" || s.Instances() != 6 || !slices.Equal(s.Volumes, []string{"data"}) {
		t.Errorf("got name %q, %d instances, volumes %q", s.Name, s.Instances(), s.Volumes)
	}
	if len(s.Warnings) > 0 {
		t.Errorf("got warnings %q, want none", s.Warnings)
	}

	wantAPI := Service{
		Name: "api", Command: []string{filepath.Join(s.Dir, "server"), "--port", "8081"},
		Environment: map[string]string{"DATABASE": "postgres://data-base:5432/shop"},
		Replicas:    3, Limits: Limits{CPUs: new(0.1), Memory: new(uint64(64 << 20))}, Port: 8081,
		Labels: map[string]string{"prometheus.io/port": "9100"},
		Health: &HealthCheck{
			Command: []string{"loadstone", "health", "http://localhost:8081/readyz"},
			Timeout: 30 * time.Second, Within: 14 * time.Second,
		},
		DependsOn:  []Dependency{{"data-base", Started}, {"seed", Completed}},
		StopSignal: syscall.SIGTERM, StopGrace: 10 * time.Second, Restart: Never,
	}
	if got := service(t, s, "api"); !reflect.DeepEqual(got, wantAPI) {
		t.Errorf("got  %+v\nwant %+v", got, wantAPI)
	}
	if got := service(t, s, "seed"); !got.Job || !slices.Equal(got.Command, []string{"loadstone", "results", "seed", "--out", "/data"}) {
		t.Errorf("seed: got %+v", got)
	}
	if got := service(t, s, "data-base"); got.StopSignal != syscall.SIGINT || got.StopGrace != 3*time.Second || got.Job || got.Port != 0 {
		t.Errorf("data-base: got %+v", got)
	}
	if got := service(t, s, "lb"); got.Port != 8080 || got.Command[0] != Self {
		t.Errorf("lb: got %+v", got)
	}
}

func TestResolveFillsInTheDriversVariables(t *testing.T) {
	t.Parallel()
	s := loaded(t, shop)
	vars := Variables(map[string][]string{"data-base": {"127.77.1.1"}, "api": {"127.77.1.2", "127.77.1.3"}, "gone": nil}, map[string]string{"data": "/tmp/v/data"})
	want := map[string]string{
		"DATA_BASE_HOST": "127.77.1.1", "DATA_BASE_HOSTS": "127.77.1.1",
		"API_HOST": "127.77.1.2", "API_HOSTS": "127.77.1.2,127.77.1.3", "DATA_VOLUME": "/tmp/v/data",
	}
	if !reflect.DeepEqual(vars, want) {
		t.Errorf("got %v, want %v", vars, want)
	}
	vars[BindHost] = "127.77.1.9"
	r, err := s.Resolve(t.Context(), vars)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := service(t, r, "lb").Command, []string{"loadstone", "results", "serve", "--listen", "127.77.1.9:8080", "--api", "127.77.1.2,127.77.1.3"}; !slices.Equal(got, want) {
		t.Errorf("lb: got %q, want %q", got, want)
	}
	if got, want := service(t, r, "api").Environment["DATABASE"], "postgres://127.77.1.1:5432/shop"; got != want {
		t.Errorf("api: got %q, want %q", got, want)
	}
	if got, want := service(t, r, "data-base").Command[2], "/tmp/v/data"; got != want {
		t.Errorf("data-base: got %q, want %q", got, want)
	}
	if got := service(t, s, "data-base").Command[2]; got != "/data" {
		t.Errorf("the system that was resolved has changed: %q", got)
	}
}

func TestOverlayIsMergedAndReplacesTheProcess(t *testing.T) {
	t.Parallel()
	path := composeFile(t, shop)
	f := func(overlay string, check func(s *System) bool) {
		t.Helper()
		s, err := Load(t.Context(), Config{ComposeFiles: []string{path}, Overlay: []byte(overlay), OverlayName: "variant x"})
		if err != nil {
			t.Errorf("%q: %v", overlay, err)
			return
		}
		if !check(s) {
			t.Errorf("%q: got %+v", overlay, s)
		}
	}
	same := func(s *System) bool { return service(t, s, "api").Replicas == 3 }
	for _, none := range []string{"", " \n", "{}", "null", "services: {}", "# nothing\n"} {
		f(none, same)
	}
	f("services: {api: {deploy: {replicas: 1}, environment: {CACHE: redis}}}", func(s *System) bool {
		api := service(t, s, "api")
		return api.Replicas == 1 && api.Environment["CACHE"] == "redis" && api.Environment["DATABASE"] != "" && *api.Limits.CPUs == 0.1
	})
	f("services: {api: {x-process: [./other, \"${NOT_SET:-dflt}\"]}}", func(s *System) bool {
		return slices.Equal(service(t, s, "api").Command, []string{filepath.Join(s.Dir, "other"), "dflt"})
	})
	f("services: {api: {deploy: {resources: !reset null}}}", func(s *System) bool {
		return service(t, s, "api").Limits == Limits{}
	})
	f("services: {cache: {x-process: [redis-server]}}", func(s *System) bool {
		return service(t, s, "cache").Image == "" && service(t, s, "cache").Command[0] == "redis-server"
	})
}

func TestAnImagesOwnCommandIsLeftToTheDriver(t *testing.T) {
	t.Parallel()
	s := loaded(t, `
services:
  lb:
    image: nginx:1.25
    command: [nginx, -T]
    volumes: [./conf:/etc/nginx/conf.d, /anonymous]
    configs: [{source: main, target: /etc/nginx/nginx.conf}, file]
    secrets: [key, {source: key, target: other}]
  app: {build: ., stop_signal: SIGQUIT}
configs: {main: {content: "user ${WHO:-root};"}, file: {file: ./file.conf}}
secrets: {key: {file: ./key}}
`)
	lb := service(t, s, "lb")
	if len(lb.Command) != 0 || lb.Entrypoint != nil || !slices.Equal(lb.Arguments, []string{"nginx", "-T"}) || lb.StopSignal != 0 {
		t.Errorf("got %+v", lb)
	}
	want := []Volume{
		{Source: s.Dir + "/conf", Target: "/etc/nginx/conf.d"}, {Text: "user root;", Target: "/etc/nginx/nginx.conf"},
		{Source: s.Dir + "/file.conf", Target: "/file"}, {Source: s.Dir + "/key", Target: "/run/secrets/key"},
		{Source: s.Dir + "/key", Target: "/run/secrets/other"},
	}
	if !slices.Equal(lb.Volumes, want) {
		t.Errorf("got volumes  %+v\nwant %+v", lb.Volumes, want)
	}
	if app := service(t, s, "app"); len(app.Command) != 0 || app.Image != "" || app.StopSignal != syscall.SIGQUIT {
		t.Errorf("got %+v", app)
	}
	if len(s.Warnings) != 0 {
		t.Errorf("got warnings %q, want none: the driver mounts these", s.Warnings)
	}
}

func TestVariablesComeFromDotEnvUnderTheCallers(t *testing.T) {
	t.Parallel()
	path := composeFile(t, "services: {a: {image: loadstone, command: [\"${ONE}\", \"${TWO}\", \"${THREE:-3}\"]}}\n")
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), ".env"), []byte("ONE=file\nTWO=file\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := Load(t.Context(), Config{ComposeFiles: []string{path}, Env: map[string]string{"TWO": "caller"}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := service(t, s, "a").Command, []string{"loadstone", "file", "caller", "3"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestProfilesLeaveServicesOut(t *testing.T) {
	t.Parallel()
	path := composeFile(t, `
services:
  a: {image: loadstone, depends_on: {watch: {condition: service_started, required: false}}}
  watch: {image: prometheus, profiles: [watch]}
`)
	s, err := Load(t.Context(), Config{ComposeFiles: []string{path}})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Services) != 1 || len(s.Services[0].DependsOn) != 0 {
		t.Errorf("got %+v, want only a, without dependencies", s.Services)
	}
	s, err = Load(t.Context(), Config{ComposeFiles: []string{path}, Profiles: []string{"watch"}})
	if err != nil || len(s.Services) != 2 || len(s.Services[1].DependsOn) != 1 {
		t.Errorf("with the profile: got %+v, %v, want both, a dependent on watch", s, err)
	}
	// An overlay may change a service that is left out.
	if _, err = Load(t.Context(), Config{ComposeFiles: []string{path}, Overlay: []byte("services: {watch: {environment: {A: b}}}")}); err != nil {
		t.Error(err)
	}
}

func TestProfilesOfTheEnvironmentAreNotEnabledByThemselves(t *testing.T) {
	t.Parallel()
	path := composeFile(t, "services: {a: {image: loadstone}, watch: {image: prometheus, profiles: [watch]}}\n")
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), ".env"), []byte("COMPOSE_PROFILES=watch, more\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := Config{ComposeFiles: []string{path}}
	s, err := Load(t.Context(), c)
	if err != nil || len(s.Services) != 1 {
		t.Errorf("got %+v, %v, want only a", s, err)
	}
	if got, err := c.EnabledProfiles(); err != nil || !slices.Equal(got, []string{"watch", "more"}) {
		t.Errorf("of .env: got %q, %v", got, err)
	}
	c.Env = map[string]string{"COMPOSE_PROFILES": ""}
	if got, err := c.EnabledProfiles(); err != nil || len(got) != 0 {
		t.Errorf("the environment is over .env: got %q, %v, want none", got, err)
	}
}

// Files are merged in order, with all paths relative to the first; an error is
// blamed on the file that brings it.
func TestSeveralFilesAreMergedInOrder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	base := write("compose.yaml", `
services:
  api: {x-process: [./one, a, b], environment: {A: base, B: base, C: base}, volumes: ["./x:/x"]}
  db: {image: postgres}
`)
	second := write("elsewhere/limits.yaml", `
services:
  api: {x-process: [./two], environment: {B: second, C: second}, volumes: ["./y:/y"], deploy: {resources: {limits: {cpus: "0.5"}}}}
`)
	c := Config{ComposeFiles: []string{base, second}, Overlay: []byte("services: {api: {environment: {C: overlay}}}"), OverlayName: "variant x"}
	s, err := Load(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	api := service(t, s, "api")
	if want := []string{filepath.Join(dir, "two")}; !slices.Equal(api.Command, want) {
		t.Errorf("command: got %q, want %q", api.Command, want)
	}
	if want := map[string]string{"A": "base", "B": "second", "C": "overlay"}; !maps.Equal(api.Environment, want) {
		t.Errorf("environment: got %v, want %v", api.Environment, want)
	}
	if want := []Volume{{Source: filepath.Join(dir, "x"), Target: "/x"}, {Source: filepath.Join(dir, "y"), Target: "/y"}}; !slices.Equal(api.Volumes, want) {
		t.Errorf("volumes: got %v, want %v", api.Volumes, want)
	}
	if api.Limits.CPUs == nil || *api.Limits.CPUs != 0.5 {
		t.Errorf("limits: got %v, want 0.5 CPUs", api.Limits.CPUs)
	}
	resolved, err := s.Resolve(t.Context(), map[string]string{BindHost: "127.77.1.1"})
	if err != nil || !reflect.DeepEqual(resolved.Services, s.Services) {
		t.Errorf("resolved: got %+v, %v, want the same", resolved, err)
	}

	wrong := write("wrong.yaml", "services: {ap: {environment: {B: c}}}\n")
	for files, want := range map[string]string{
		wrong: wrong + ":1:12: there is no service \"ap\"; did you mean \"api\"?",
		write("type.yaml", "services: {api: {environment: 7}}\n"): "type.yaml:1:18: services.api.environment",
	} {
		c.ComposeFiles = []string{base, files, second}
		if _, err := Load(t.Context(), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", files, err, want)
		}
	}
	if _, err := Load(t.Context(), Config{}); err == nil {
		t.Error("no file: got no error")
	}
}

func TestPublishedPortsAndOptionalServices(t *testing.T) {
	t.Parallel()
	s := loaded(t, `
services:
  lb: {image: nginx, restart: unless-stopped, ports: ["8080:80", "127.0.0.2:8443:443", "9000-9002:90", "7", "53:53/udp"], depends_on: [charts, api]}
  api: {image: loadstone, deploy: {restart_policy: {condition: on-failure}}}
  charts: {image: grafana, x-optional: true}
`)
	lb := service(t, s, "lb")
	want := []Published{{"", 8080, 80}, {"127.0.0.2", 8443, 443}, {"", 9000, 90}, {"", 0, 7}}
	if !slices.Equal(lb.Published, want) || lb.Restart != Always || lb.Optional {
		t.Errorf("got %+v, want %v, always and not optional", lb, want)
	}
	if !service(t, s, "charts").Optional || service(t, s, "charts").Restart != Never || service(t, s, "api").Restart != OnFailure {
		t.Errorf("got %+v, want charts optional and api restarted on failure", s.Services)
	}
	left := s.Without([]string{"charts"})
	if got := service(t, left, "lb").DependsOn; len(left.Services) != 2 || len(got) != 1 || got[0].Service != "api" {
		t.Errorf("without charts: got %+v", left.Services)
	}
	if len(s.Services) != 3 || len(service(t, s, "lb").DependsOn) != 2 {
		t.Error("Without changed the system itself")
	}
	for text, want := range map[string]string{
		"x-optional: maybe":                        "x-optional is maybe; write true or false",
		`ports: ["host:80:80"]`:                    "host",
		`ports: [{target: 80, published: eighty}]`: "eighty",
	} {
		_, err := Load(t.Context(), Config{ComposeFiles: []string{composeFile(t, "services: {a: {image: nginx, "+text+"}}\n")}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

func TestHealthCheckForms(t *testing.T) {
	t.Parallel()
	f := func(check string, want *HealthCheck) {
		t.Helper()
		s := loaded(t, "services: {a: {image: loadstone, healthcheck: "+check+"}}\n")
		if got := s.Services[0].Health; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", check, got, want)
		}
	}
	f("{test: [CMD, a, b]}", &HealthCheck{Command: []string{"a", "b"}, Timeout: 30 * time.Second, Within: 90 * time.Second})
	f("{test: a && b, timeout: 1s, interval: 2s, retries: 1, start_period: 3s, start_interval: 1s}",
		&HealthCheck{Command: []string{"/bin/sh", "-c", "a && b"}, Timeout: time.Second, Within: 5 * time.Second, Every: new(time.Second)})
	f("{test: [CMD-SHELL, a || exit 1], interval: 0s}", &HealthCheck{Command: []string{"/bin/sh", "-c", "a || exit 1"}, Timeout: 30 * time.Second, Within: 90 * time.Second})
	f("{test: [NONE]}", nil)
	f("{disable: true}", nil)
}

// BenchmarkResolve is what a driver pays for every instance that it starts.
func BenchmarkResolve(b *testing.B) {
	path := filepath.Join(b.TempDir(), "compose.yaml")
	if err := os.WriteFile(path, []byte(shop), 0o600); err != nil {
		b.Fatal(err)
	}
	s, err := Load(b.Context(), Config{ComposeFiles: []string{path}, Overlay: []byte("services: {api: {deploy: {replicas: 1}}}")})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := s.Resolve(b.Context(), map[string]string{BindHost: "127.77.1.1"}); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(shop), []byte("services: {api: {deploy: {replicas: 1}}}"))
	f.Add([]byte("services: {a: {x-process: [b, 1]}}"), []byte("services: {a: {x-process: [c]}}"))
	f.Add([]byte("services: {a: {image: loadstone, healthcheck: {test: [CMD]}}}"), []byte("null"))
	f.Add([]byte("services: {a: null}"), []byte("services: null"))
	f.Fuzz(func(t *testing.T, file, overlay []byte) {
		path := filepath.Join(t.TempDir(), "compose.yaml")
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Load(t.Context(), Config{ComposeFiles: []string{path}, Overlay: overlay})
		if err != nil {
			return
		}
		for _, service := range s.Services {
			if len(service.Command) == 0 || service.Command[0] == "" {
				t.Errorf("service %q has no command", service.Name)
			}
		}
	})
}

// What is being started again may have no address for a while. This machine's is not meant then.
func TestWhatIsNowhereHasNoMetrics(t *testing.T) {
	t.Parallel()
	s := Service{Labels: map[string]string{"prometheus.io/port": "9100"}}
	for host, want := range map[string]string{"192.0.2.1": "http://192.0.2.1:9100/metrics", "": ""} {
		if got := s.MetricsURL(host); got != want {
			t.Errorf("at %q: got %q, want %q", host, got, want)
		}
	}
}
