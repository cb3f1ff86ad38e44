package nginx_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"loadstone/block/servertest"
)

// deadline bounds every wait. Nothing here takes a tenth of it on an idle machine.
const deadline = 60 * time.Second

// defaults are the variables as compose.yaml has them, but for RESULTS_TLS: most tests
// ask without it.
var defaults = map[string]string{
	"RESULTS_ACCESS": "code", "RESULTS_LIMITS": "", "RESULTS_GZIP": "on", "RESULTS_TLS": "off", "RESULTS_HTTPS_PORT": "8443", "RESULTS_BALANCER": "255.255.255.255", "EDGE_CACHE": "off", "LB_ACCESS_LOG": "off", "LB_BIND": "off",
}

// ports counts up: every server of this test binary has its own. The address
// is the process's own, so nobody else is on them.
var ports atomic.Int32 //nolint:gochecknoglobals // see above

func host() string {
	pid := os.Getpid()
	return net.IPv4(127, byte(2+pid>>16), byte(pid>>8), byte(pid)).String()
}

func address() string { return fmt.Sprintf("%s:%d", host(), 18000+ports.Add(1)) }

// balancer is a running NGINX.
type balancer struct {
	http, https, status string // addresses
	dir                 string
	master              *servertest.Process
}

// settings are what a test wants different.
type settings struct {
	env     map[string]string
	replace []string // pairs for strings.NewReplacer, in the rendered files
}

// program finds NGINX, or ends the test.
func program(tb testing.TB) string { tb.Helper(); return servertest.NGINXProgram(tb) }

var variable = regexp.MustCompile(`\$\{([A-Z_]+)\}`)

// render lays the configuration out in a directory, as the image and the
// process driver's recipe do, for replicas at the addresses.
func render(tb testing.TB, replicas []string, s settings) *balancer {
	tb.Helper()
	b := &balancer{dir: tb.TempDir(), http: address(), https: address(), status: address()}
	html, err := filepath.Abs("html")
	if err != nil {
		tb.Fatal(err)
	}
	servers := make([]string, len(replicas))
	for i, r := range replicas {
		servers[i] = "server " + r
	}
	adapt := servertest.NGINXHere(b.dir, append(s.replace, "/usr/share/nginx/html", html,
		"listen 8080", "listen "+b.http, "listen 8443", "listen "+b.https, "listen 8081", "listen "+b.status)...)
	server := regexp.MustCompile(`server api:8080([^;]*);`)
	for from, to := range map[string]string{
		"nginx.conf": "etc/nginx.conf", "templates/results.conf.template": "etc/conf.d/results.conf",
		"templates/edge/o.conf.template":    "etc/conf.d/edge/o.conf",
		"templates/plain/off.conf.template": "etc/conf.d/plain/off.conf", "templates/plain/redirect.conf.template": "etc/conf.d/plain/redirect.conf",
	} {
		text, err := os.ReadFile(from)
		if err != nil {
			tb.Fatal(err)
		}
		rendered := variable.ReplaceAllStringFunc(string(text), func(found string) string {
			name := strings.Trim(found, "${}")
			if value, ok := s.env[name]; ok {
				return value
			}
			value, ok := defaults[name]
			if !ok {
				tb.Errorf("%s: compose.yaml does not set %s", from, name)
			}
			return value
		})
		rendered = server.ReplaceAllString(rendered, strings.Join(servers, "$1; ")+"$1;")
		write(tb, filepath.Join(b.dir, to), adapt.Replace(rendered))
	}
	if err := os.Mkdir(filepath.Join(b.dir, "cache"), 0o755); err != nil {
		tb.Fatal(err)
	}
	certificate(tb, filepath.Join(b.dir, "etc/tls"))
	return b
}

func write(tb testing.TB, path, text string) {
	tb.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
}

// run starts NGINX before the replicas and waits until it answers. It is gone
// when the test ends.
func run(tb testing.TB, replicas []string, s settings) *balancer {
	tb.Helper()
	b := render(tb, replicas, s)
	b.master = servertest.NGINX(tb, b.dir)
	return b
}

// wait polls until the condition holds.
func wait(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	for end := time.Now().Add(deadline); !condition(); {
		if time.Now().After(end) {
			tb.Fatalf("waited %v in vain until %s", deadline, what)
		}
		<-time.After(20 * time.Millisecond)
	}
}

func TestConfigurationIsValid(t *testing.T) {
	t.Parallel()
	path := program(t)
	for _, gzip := range []string{"on", "off"} {
		for _, cache := range []string{"off", "1s", "10s", "2m", "1h"} {
			b := render(t, []string{"127.0.0.1:1", "127.0.0.1:2"}, settings{env: map[string]string{"RESULTS_GZIP": gzip, "EDGE_CACHE": cache}})
			out, err := exec.CommandContext(t.Context(), path, "-T", "-p", b.dir+"/", "-c", b.dir+"/etc/nginx.conf").CombinedOutput()
			if err != nil || bytes.Contains(out, []byte("[warn]")) {
				t.Errorf("gzip %s, cache %s: %v\n%.2000s", gzip, cache, err, out)
			}
			if got, want := bytes.Contains(out, []byte("proxy_cache_valid 200 "+cache)), cache != "off"; got != want {
				t.Errorf("EDGE_CACHE=%s: the cache is on: got %v, want %v", cache, got, want)
			}
		}
	}
}

// A template that asks for what the service's environment does not have stays
// as it is in the image, and NGINX then takes it for a variable of its own.
func TestComposeSetsWhatTemplatesAsk(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name := range defaults {
		if !bytes.Contains(text, []byte("      "+name+": ")) {
			t.Errorf("compose.yaml does not set %s", name)
		}
	}
}
