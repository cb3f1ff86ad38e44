package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"loadstone/lab/driver/process/recipe"
	"loadstone/lab/host/cgroup/cgrouptest"
	"loadstone/lab/topology"
)

// installed skips the test if the programs of an image are not there, but not
// in CI, where scripts/setup has installed them.
func installed(t *testing.T, images ...string) {
	t.Helper()
	for _, image := range images {
		r, ok := recipe.Find(image)
		if !ok {
			t.Fatalf("there is no recipe for %s", image)
		}
		if _, err := r.Locate(t.Context(), image, os.Getenv("PATH")); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
}

// open lets other users into the directories of the test, as a directory for
// runs usually does.
func open(t *testing.T, c setup) setup {
	t.Helper()
	for dir := c.System.Dir; strings.Contains(dir, strings.Split(t.Name(), "/")[0]); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// file writes a file into the system's directory, which must be loaded again if
// Compose is to see it.
func file(t *testing.T, c setup, name, text string) {
	t.Helper()
	path := filepath.Join(c.System.Dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// client runs a client and returns what it says.
func client(t *testing.T, env []string, argv ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// get is the body of a page, an empty text if there is none yet.
func get(url string) string {
	client := http.Client{Timeout: time.Minute}
	res, err := client.Get(url)
	if err != nil {
		return ""
	}
	defer func() { _ = res.Body.Close() }()
	body, _ := io.ReadAll(res.Body)
	if res.StatusCode != http.StatusOK {
		return ""
	}
	return string(body)
}

// cwdBelow are the processes that work in a directory below dir: PostgreSQL's
// have no environment that could be read, and sessions of their own.
func cwdBelow(dir string) []string {
	var found []string
	links, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && strings.HasPrefix(target, dir) {
			found = append(found, link)
		}
	}
	return found
}

func wantNoDirs(t *testing.T, lab int) {
	t.Helper()
	eventually(t, "no directory is left", func() bool {
		left, _ := filepath.Glob("/tmp/loadstone-" + strconv.Itoa(lab) + "-*")
		return len(left) == 0
	})
}

const database = `
services:
  db:
    image: docker.io/library/postgres:11-alpine
    command: [postgres, -c, shared_buffers=16MB]
    environment:
      POSTGRES_USER: owner
      POSTGRES_PASSWORD_FILE: /run/secrets/password
      POSTGRES_DB: shop
      POSTGRES_INITDB_ARGS: --no-sync
    volumes: [data:/var/lib/postgresql/data, ./init:/docker-entrypoint-initdb.d:ro]
    secrets: [password]
    healthcheck: {test: [CMD-SHELL, pg_isready -U owner -d shop -h localhost && pg_isready -q], interval: 1s, retries: 300}
    stop_grace_period: 5m
    deploy: {resources: {limits: {cpus: "1.5", memory: 256M}}}
volumes: {data: {}}
secrets: {password: {file: ./password}}
`

func TestKillingTheLabEndsRecipes(t *testing.T) {
	installed(t, "postgres", "nginx")
	for _, groups := range []bool{true, false} {
		t.Run(fmt.Sprintf("groups %v", groups), func(t *testing.T) {
			if groups {
				cgrouptest.Tree(t)
			}
			c := open(t, config(t, `
services:
  db:
    image: postgres
    environment: {POSTGRES_PASSWORD: x, POSTGRES_INITDB_ARGS: --no-sync}
    volumes: [data:/var/lib/postgresql/data]
    stop_grace_period: 5m
  lb: {image: nginx, expose: ["8080"], configs: [{source: site, target: /etc/nginx/conf.d/default.conf}]}
volumes: {data: {}}
configs: {site: {content: "server { listen 8080; }"}}
`))
			if !groups {
				c = withoutGroups(t, c)
			}
			lab, out := startLab(t, c)
			if line, err := out.ReadString('\n'); line != "up\n" {
				t.Fatalf("got %q, %v from the lab", line, err)
			}
			pid := lab.Process.Pid
			dirs, _ := filepath.Glob("/tmp/loadstone-" + strconv.Itoa(pid) + "-*")
			if len(dirs) != 1 {
				t.Fatalf("got directories %v, want one", dirs)
			}
			eventually(t, "PostgreSQL's helpers and NGINX's workers are there", func() bool {
				return len(cwdBelow(c.VolumeDir)) >= 5 && len(cwdBelow(dirs[0])) >= 2
			})
			shared := sharedMemory(t, c.VolumeDir)
			if err := lab.Process.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			_ = lab.Wait()
			wantNothingLeft(t, pid, "")
			eventually(t, "no process is left in its directories", func() bool {
				return len(cwdBelow(c.VolumeDir)) == 0 && len(cwdBelow(dirs[0])) == 0
			})
			wantNoDirs(t, pid)
			// A killed PostgreSQL leaves what is shared in memory; the next one with
			// the same data recovers, and removes that.
			down(t, up(t, c))
			for _, file := range shared {
				if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("the shared memory %s is still there (%v)", file, err)
				}
			}
		})
	}
}

// sharedMemory are the files in memory that the processes which work below dir
// share.
func sharedMemory(t *testing.T, dir string) []string {
	t.Helper()
	var files []string
	for _, cwd := range cwdBelow(dir) {
		maps, err := os.ReadFile(filepath.Join(filepath.Dir(cwd), "maps"))
		if err != nil {
			continue // it has just ended
		}
		files = append(files, regexp.MustCompile(`/dev/shm/PostgreSQL\.\d+`).FindAllString(string(maps), -1)...)
	}
	slices.Sort(files)
	if files = slices.Compact(files); len(files) == 0 {
		t.Error("no shared memory is found, so its removal is not tested")
	}
	return files
}

func TestDirectoriesThatALabAndItsGuardianLeftAreSwept(t *testing.T) {
	installed(t, "redis")
	c := config(t, "services: {cache: {image: redis}}\n")
	c.Env["TMPDIR"] = filepath.Join(c.System.Dir, "tmp")
	alive, err := runName("/proc", 1)
	if err != nil {
		t.Fatal(err)
	}
	dead := fmt.Sprintf("loadstone-%d-1-%d-1-123", 1<<30, pidSpace("/proc"))
	for _, name := range []string{dead, alive + "-123", "loadstone-a-b-c-d-e", "other-1-2-3-4-5"} {
		file(t, c, filepath.Join("tmp", name, "file"), "")
	}
	r := up(t, c)
	if got, err := os.ReadDir(c.Env["TMPDIR"]); err != nil || len(got) != 4 || slices.ContainsFunc(got, func(e os.DirEntry) bool { return e.Name() == dead }) {
		t.Errorf("got %v, %v, want the dead lab's directory gone, and this one's there", got, err)
	}
	down(t, r)
	if got, err := os.ReadDir(c.Env["TMPDIR"]); err != nil || len(got) != 3 {
		t.Errorf("after down: got %v, %v", got, err)
	}
}

const web = `
services:
  api:
    x-process: [$SELF, serve, "${BIND_HOST:-0.0.0.0}:8080"]
    environment: {NAME: api}
    expose: ["8080"]
    deploy: {replicas: 2}
  lb:
    image: nginx:1.22
    environment: {API: "${API_HOSTS:-api}", GREETING: "hello $${request_method}"}
    volumes:
      - ./templates:/etc/nginx/templates:ro
      - ./html:/srv/html:ro
      - ./htpasswd:/etc/nginx/htpasswd
    ports: ["8080:8080"]
    healthcheck: {test: [CMD, curl, -fsS, "http://localhost:8080/healthz"], interval: 1s, retries: 300}
    depends_on: [api]
  plain: {image: nginx, expose: ["80"]}
  exporter: {image: "nginx/nginx-prometheus-exporter:0.11", command: ["--nginx.scrape-uri=http://${LB_HOST:-lb}:8080/stub_status", --log.level=info]}
  prometheus:
    image: prom/prometheus:v2.42.0
    command: [--config.file=/etc/prometheus/prometheus.yml, --storage.tsdb.path=/prometheus, "--web.listen-address=0.0.0.0:9091"]
    volumes: [metrics:/prometheus, ./rules:/etc/prometheus/rules]
    configs: [{source: prometheus, target: /etc/prometheus/prometheus.yml}]
    ports: ["9091"]
    healthcheck: {test: [CMD, wget, -qO-, "http://localhost:9091/-/ready"], interval: 1s, retries: 300}
volumes: {metrics: {}}
configs:
  prometheus:
    content: |
      global: {scrape_interval: 200ms, evaluation_interval: 200ms}
      rule_files: [rules/*.yml]
      scrape_configs:
        - job_name: own
          static_configs: [{targets: ["localhost:9091"]}]
        - job_name: exporter
          static_configs: [{targets: ["exporter:9113"], labels: {tier: edge}}]
        - job_name: api
          dns_sd_configs: [{names: [tasks.api], type: A, port: 8080}]
`

const site = `
upstream api { server ${API}:8080 max_fails=2; keepalive 4; }
proxy_cache_path /var/cache/nginx/pages levels=1:2 keys_zone=pages:1m;
server {
  listen 8080 default_server; listen [::]:8080 default_server ipv6only=on;
  root /srv/html;
  location /api/ { proxy_pass http://api/; add_header X-From $upstream_addr; }
  location = /healthz { return 200 "${GREETING}"; }
  location = /direct { proxy_pass http://exporter:9113/metrics; }
  location = /secret { auth_basic "x"; auth_basic_user_file htpasswd; }
  location = /stub_status { stub_status; }
}
`

func TestNginxAndPrometheusAreAsTheirImages(t *testing.T) {
	installed(t, "nginx", "prom/prometheus", "nginx/nginx-prometheus-exporter")
	const plain = `plain: {image: nginx, expose: ["80"]}`
	compose := strings.ReplaceAll(web, "$SELF", os.Args[0])
	if os.Geteuid() != 0 { // only root may use port 80
		compose = strings.ReplaceAll(compose, plain, "")
	}
	c := config(t, compose)
	file(t, c, "templates/site.conf.template", site)
	file(t, c, "html/index.html", "<h1>shop</h1>")
	file(t, c, "htpasswd", "me:{PLAIN}x\n")
	file(t, c, "rules/a.yml", "groups: [{name: a, rules: [{record: 'up:sum', expr: sum(up)}]}]\n")
	r := up(t, c)
	at := map[string]topology.Instance{}
	for _, in := range r.Instances() {
		at[in.Name] = in
	}
	base := "http://" + at["lb-1"].Host + ":8080"
	seen := map[string]bool{}
	for range 10 {
		seen[get(base+"/api/env")] = true
	}
	if len(seen) != 2 || seen[""] {
		t.Errorf("got answers of %d backends, want 2: %v", len(seen), seen)
	}
	if got := get(base + "/"); got != "<h1>shop</h1>" {
		t.Errorf("the mounted page: got %q", got)
	}
	if got := get(base + "/healthz"); got != "hello GET" {
		t.Errorf("a variable of NGINX's from the environment: got %q", got)
	}
	eventually(t, "a service is found by its name", func() bool { return strings.Contains(get(base+"/direct"), "nginx_up 1") })
	if got := get("http://" + at["plain-1"].Host + "/"); os.Geteuid() == 0 && !strings.Contains(got, "nginx") {
		t.Errorf("the image's own page: got %.200q", got)
	}
	requests := regexp.MustCompile(`(?m)^127\.0\.0\.1 .*"GET /api/env HTTP/1\.1" 200 `)
	eventually(t, "its log is where the image's is", func() bool { return requests.MatchString(logOf(t, c, "lb-1")) })
	wantMetrics(t, "http://"+at["prometheus-1"].Host+":9091", at["exporter-1"].Host, 3) // the api's have none
	if w := strings.Join(r.Warnings(), "|"); !strings.Contains(w, "its flag --log.level is left out") || strings.Contains(w, "the installed version") {
		t.Errorf("got warnings %q", w)
	}
	begin := time.Now()
	down(t, r)
	t.Logf("stopped within %v", time.Since(begin).Round(time.Millisecond))
	wantNoDirs(t, os.Getpid())
	if files, err := os.ReadDir(filepath.Join(c.VolumeDir, "metrics")); err != nil || len(files) == 0 {
		t.Errorf("its data is not in its volume: %v", err)
	}
}

func logOf(t *testing.T, c setup, instance string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(c.LogDir, instance+".log"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// wantMetrics waits until Prometheus has scraped itself and the exporter, and
// knows both instances of the api.
func wantMetrics(t *testing.T, base, exporter string, targets int) {
	t.Helper()
	type sample struct {
		Metric map[string]string `json:"metric"`
		Value  [2]any            `json:"value"`
	}
	result := func(query string) []sample {
		var answer struct {
			Data struct {
				Result []sample `json:"result"`
			} `json:"data"`
		}
		_ = json.Unmarshal([]byte(get(base+"/api/v1/query?query="+url.QueryEscape(query))), &answer)
		return answer.Data.Result
	}
	eventually(t, "NGINX's figures are scraped", func() bool {
		r := result(`nginx_up{tier="edge"} == 1`)
		return len(r) == 1 && r[0].Metric["instance"] == exporter+":9113"
	})
	eventually(t, "all targets are there", func() bool { return len(result("up")) == targets+1 })
	eventually(t, "the mounted rule is evaluated", func() bool {
		r := result("up:sum")
		return len(r) == 1 && r[0].Value[1] == "2"
	})
}

func TestExporters(t *testing.T) {
	installed(t, "postgres", "redis", "oliver006/redis_exporter", "prom/node-exporter", "prometheuscommunity/postgres-exporter")
	c := open(t, config(t, `
services:
  db: {image: postgres, environment: {POSTGRES_PASSWORD: x, POSTGRES_INITDB_ARGS: --no-sync}}
  cache: {image: redis}
  pg: {image: "quay.io/prometheuscommunity/postgres-exporter:v0.15.0", environment: {DATA_SOURCE_NAME: "postgresql://postgres:x@${DB_HOST:-db}:5432/postgres?sslmode=disable"}, command: [--collector.stat_statements]}
  redis: {image: oliver006/redis_exporter, environment: {REDIS_ADDR: "redis://${CACHE_HOST:-cache}:6379"}}
  node: {image: prom/node-exporter, command: [--path.rootfs=/host, "--web.listen-address=:9200"], volumes: ["/:/host:ro"], ports: ["9200"]}
`))
	r := up(t, c)
	want := map[string]string{"pg": ":9187/metrics|pg_up 1", "redis": ":9121/metrics|redis_up 1", "node": ":9200/metrics|node_cpu_seconds_total"}
	for _, in := range r.Instances() {
		path, text, ok := strings.Cut(want[in.Service], "|")
		if !ok {
			continue
		}
		eventually(t, in.Name+" says "+text, func() bool { return strings.Contains(get("http://"+in.Host+path), text) })
	}
	if w := strings.Join(r.Warnings(), "|"); !strings.Contains(w, "flag --collector.stat_statements is left out") {
		t.Errorf("got warnings %q", w)
	}
}

func TestWhatCannotStartIsSaidBeforeAnythingStarts(t *testing.T) {
	c := config(t, `
services:
  first: {image: loadstone, command: [serve, "${BIND_HOST}:8080", $DIR/notes]}
  queue: {image: "kafka:4"}
  app: {build: .}
  none: {image: cassandra, deploy: {replicas: 0}}
`)
	_, err := bringUp(t.Context(), c)
	var missing *NoRecipeError
	if !errors.As(err, &missing) || missing.Service != "app" && missing.Service != "queue" {
		t.Errorf("got %v, want a *NoRecipeError", err)
	}
	if text := fmt.Sprint(err); !strings.Contains(text, "service queue: there is no recipe to start the image kafka:4 as a local process yet; set `x-process: [") || !strings.Contains(text, "service app: it is built into an image") || strings.Contains(text, "none") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(filepath.Join(c.System.Dir, "notes")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("something was started: %v", err)
	}

	c = config(t, "services: {cache: {image: 'example.org:5000/library/redis:7'}}\n")
	c.Env = map[string]string{"PATH": "/nonexistent"}
	err = c.Check(context.Background(), c.System)
	var program *recipe.MissingError
	if !errors.As(err, &program) || !strings.HasSuffix(err.Error(), "compose.yaml:1:20: service cache: to run the image example.org:5000/library/redis:7 as a local process, the program redis-server is needed, which is not installed; install the Debian package redis-server (apt-get install redis-server), or run the system with Docker") {
		t.Errorf("got %v", err)
	}
}
