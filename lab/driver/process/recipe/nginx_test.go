package recipe

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"loadstone/lab/topology"
)

// rendered starts the recipe with a main configuration and returns what that
// has become, with $D for the instance's directory.
func rendered(t *testing.T, in *Instance, text string) (string, error) {
	t.Helper()
	in.Service.Volumes = append(in.Service.Volumes, topology.Volume{Text: text, Target: nginxMain})
	if err := in.writeTexts(); err != nil {
		t.Fatal(err)
	}
	in.Files["nginx"] = "/usr/sbin/nginx"
	if _, err := startNginx(t.Context(), in); err != nil {
		return "", err
	}
	got, err := os.ReadFile(in.scratch(nginxMain))
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(got), in.Dir+"/root", "$D"), nil
}

func TestDirectivesAreRendered(t *testing.T) {
	t.Parallel()
	f := func(text, want string) {
		t.Helper()
		in := testInstance(t, topology.Volume{Source: "/home/me/www", Target: "/www"})
		in.UID = os.Geteuid()
		got, err := rendered(t, in, text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			return
		}
		_, got, _ = strings.Cut(got, "error_log stderr; ")
		if got != want {
			t.Errorf("%s:\n got  %s\n want %s", text, got, want)
		}
	}
	server := func(text string) string { return "stream { server { " + text + " } }" } // to which nothing is added
	listens := func(text, want string) { t.Helper(); f(server(text), server(want)) }
	listens("listen 8080;", "listen 127.77.1.9:8080;")
	listens("listen *:8080 ssl;", "listen 127.77.1.9:8080 ssl;")
	listens("listen 0.0.0.0:8080; listen [::]:8080 ipv6only=on;", "listen 127.77.1.9:8080; ")
	listens("listen [::]:8080 ipv6only=on ssl;", "listen 127.77.1.9:8080  ssl;")
	listens("listen localhost:8080;", "listen 127.77.1.9:8080;")
	listens("listen 127.77.1.5:8080;", "listen 127.77.1.5:8080;")
	listens("listen example.org;", "listen example.org:80;")
	listens("listen '8080';", "listen 127.77.1.9:8080;")
	listens("listen unix:/run/x.sock;", "listen unix:$D/run/x.sock;")
	listens("proxy_pass one:80; proxy_pass one;", "proxy_pass 127.77.1.3:80; proxy_pass one;") // the latter is an upstream's name
	listens("root /www/a; access_log /var/log/nginx/access.log;", "root /home/me/www/a; access_log /dev/stdout;")
	listens("ssl_certificate /etc/nginx/a b.pem;", "ssl_certificate $D/etc/nginx/a b.pem;")
	listens("ssl_certificate '/www/a b.pem';", `ssl_certificate "/home/me/www/a b.pem";`)
	listens("proxy_pass http://one:81/x; proxy_pass http://api:8080$uri; proxy_pass http://other:1; proxy_pass http://$up:80;",
		"proxy_pass http://127.77.1.3:81/x; proxy_pass http://127.77.1.1:8080$uri; proxy_pass http://other:1; proxy_pass http://$up:80;")
	listens("proxy_pass http://api; location / { return 200 '; listen 1;'; } # listen 80;\n", "proxy_pass http://127.77.1.1; location / { return 200 '; listen 1;'; } # listen 80;\n")
	f("daemon off; stream { upstream api { server api:80 weight=2; server other:1; server 10.0.0.1,10.0.0.2:3; } server { listen 1024; proxy_pass http://api/; } }",
		" stream { upstream api { server 127.77.1.1:80 weight=2; server 127.77.1.2:80 weight=2; server other:1; server 10.0.0.1:3; server 10.0.0.2:3; } server { listen 127.77.1.9:1024; proxy_pass http://api/; } }")
	f("stream { map $a $b { /www /www; } types { /www www; } }", "stream { map $a $b { /www /www; } types { /www www; } }")
}

func TestWhatTheBuildHasOtherwiseIsAdded(t *testing.T) {
	t.Parallel()
	in := testInstance(t)
	got, err := rendered(t, in, "pid /tmp/x.pid;\nhttp {\n include conf.d/*.conf; proxy_temp_path /tmp/p;\n server { location / { } }\n}\n")
	if os.Geteuid() != 0 {
		if err == nil || !strings.Contains(err.Error(), "only root may use ports below") {
			t.Errorf("got %v", err)
		}
		return
	}
	lines := strings.Split(got, "\n")
	if err != nil || len(lines) != 6 || lines[0] != "user root; error_log stderr; pid $D/tmp/x.pid;" ||
		!strings.HasPrefix(lines[1], "http { client_body_temp_path $D/var/cache/nginx/client_temp; fastcgi_temp_path ") || !strings.HasSuffix(lines[1], " access_log /dev/stdout;") ||
		lines[2] != " include $D/etc/nginx/conf.d/*.conf; proxy_temp_path $D/tmp/p;" || lines[3] != " server { listen 127.77.1.9:80; location / { } }" {
		t.Errorf("got %v and\n%s", err, got)
	}
	if text, err := os.ReadFile(in.scratch("/etc/nginx/conf.d/default.conf")); err != nil || !strings.Contains(string(text), "listen 127.77.1.9:80;") {
		t.Errorf("the image's own server: got %s, %v", text, err)
	}
}

func TestMountsAndIncludesOutsideOfTheDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"conf.d/a.conf": "server { listen 8001; }", "sites/b.conf": "server { listen 8002; include /www/snippet; }", "snippet": "root /www;"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	in := testInstance(t, topology.Volume{Source: dir + "/conf.d", Target: "/etc/nginx/conf.d"}, topology.Volume{Source: dir, Target: "/www"})
	if _, err := rendered(t, in, "http { include /etc/nginx/conf.d/*.conf; include /www/sites/*.conf; }"); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"/etc/nginx/conf.d/a.conf": "server { listen 127.77.1.9:8001; }",
		"/www/sites/b.conf":        "server { listen 127.77.1.9:8002; include " + in.scratch("/www/snippet") + "; }",
		"/www/snippet":             "root " + dir + ";",
	} {
		if got, err := os.ReadFile(in.scratch(name)); err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v, want %s", name, got, err, want)
		}
	}
	if _, err := os.Stat(in.scratch("/etc/nginx/conf.d/default.conf")); err == nil {
		t.Error("the image's own server is there although a directory is mounted over it")
	}
	if text, err := os.ReadFile(filepath.Join(dir, "conf.d/a.conf")); err != nil || !strings.Contains(string(text), "listen 8001;") {
		t.Errorf("the original was changed: %s, %v", text, err)
	}
}

func TestNginxErrorsNameTheLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"events {\n":          "/etc/nginx/nginx.conf: line 2: a block is not closed",
		"a;\nb 'c;\n":         "line 2: a quote is not closed",
		"a;\n;":               "line 2: there is a ';' where a directive should begin",
		"http {\n listen 80}": `line 2: the directive "listen" does not end`,
		"a":                   `the directive "a" does not end; a ; is missing`,
		strings.Repeat("a {", 60) + strings.Repeat("}", 60): "nested too deeply",
	} {
		if _, err := rendered(t, testInstance(t), text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: got %v, want %q", text, err, want)
		}
	}
}

func TestOptionsOfNginx(t *testing.T) {
	t.Parallel()
	n := &nginx{Instance: testInstance(t)}
	main, globals, rest, err := n.options([]string{"-g", "daemon off; worker_priority 1; pid /x;", "-c", "other.conf", "-q"})
	if err != nil || main != "/etc/nginx/other.conf" || globals != "worker_priority 1;" || !slices.Equal(rest, []string{"-q"}) {
		t.Errorf("got %q, %q, %q, %v", main, globals, rest, err)
	}
	for _, args := range [][]string{{"-c"}, {"-p", "/x"}, {"-g", "daemon off"}} {
		if _, _, _, err := n.options(args); err == nil {
			t.Errorf("%q: got no error", args)
		}
	}
}

func FuzzNginx(f *testing.F) {
	for _, s := range []string{"a b;", "http { server { listen 80; location ~ ^/x{2}$ { return 200 \"a;\\\"b\"; } } }", "a ${b}c 'd';", "#x\n a{b;}", "a \\{ \\; b;", "}", "a{"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		all, err := parseNginx(text)
		if err != nil {
			return
		}
		var check func(ds []directive, from, to int)
		check = func(ds []directive, from, to int) {
			for _, d := range ds {
				if d.start < from || d.end > to || d.start >= d.end {
					t.Fatalf("%q: %+v is not within %d..%d", text, d, from, to)
				}
				for _, w := range d.args {
					if w.start < d.start || w.end > d.end || w.start >= w.end {
						t.Fatalf("%q: %+v is not within %+v", text, w, d)
					}
				}
				check(d.block, d.open, d.end)
				from = d.end
			}
		}
		check(all, 0, len(text))
	})
}
