package servertest

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// NGINXProgram finds NGINX, or ends the test.
func NGINXProgram(tb testing.TB) string {
	tb.Helper()
	path, err := exec.LookPath("nginx")
	if err != nil {
		path = "/usr/sbin/nginx" // not on the PATH of everybody
		_, err = os.Stat(path)
	}
	if err != nil {
		Missing(tb, "NGINX is not installed: apt-get install nginx")
	}
	return path
}

// NGINXHere replaces in a configuration for the official image what differs on this machine:
// /etc/nginx is etc in dir, where NGINX also has its other files. More are pairs as for
// strings.NewReplacer, which come first.
func NGINXHere(dir string, more ...string) *strings.Replacer {
	user := "" // the machine need not have the image's
	if os.Geteuid() == 0 {
		user = "user root;"
	}
	var temps strings.Builder
	for _, name := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		fmt.Fprintf(&temps, " %s_temp_path %s/%s;", name, dir, name)
	}
	return strings.NewReplacer(append(more, "user nginx;", user, "/run/nginx.pid", dir+"/nginx.pid", "http {", "http {"+temps.String(),
		"/dev/stderr", "stderr", "/dev/stdout", dir+"/access.log", "/etc/nginx/", dir+"/etc/", "/var/cache/nginx", dir+"/cache")...)
}

// NGINXServers has a configuration that names a server, HOST:PORT, in an upstream name each of some others there
// in its place, with the same parameters.
func NGINXServers(config, server string, others ...string) string {
	line := regexp.MustCompile(`server ` + regexp.QuoteMeta(server) + `[^;]*;`)
	return line.ReplaceAllStringFunc(config, func(found string) string {
		var all strings.Builder
		for _, other := range others {
			all.WriteString(strings.Replace(found, server, other, 1))
		}
		return all.String()
	})
}

// listens finds HOST:PORT of each listen directive.
var listens = regexp.MustCompile(`(?m)^\s*listen (\S+:\d+)`)

// NGINX starts one with etc/nginx.conf in dir and waits until it takes connections wherever
// a file below etc says that it listens: it opens one after the other. It is gone when the
// test ends.
func NGINX(tb testing.TB, dir string) *Process {
	tb.Helper()
	var all []func(context.Context) error
	config := os.DirFS(filepath.Join(dir, "etc"))
	err := fs.WalkDir(config, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(config, path)
		for _, found := range listens.FindAllSubmatch(text, -1) {
			all = append(all, Dials(string(found[1])))
		}
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	if all == nil {
		tb.Fatalf("no file below %s says where NGINX listens", filepath.Join(dir, "etc"))
	}
	p := New(tb, Program{
		Command: []string{NGINXProgram(tb), "-p", dir + "/", "-c", dir + "/etc/nginx.conf", "-g", "daemon off;"},
		Log:     dir + "/stderr", Crash: syscall.SIGTERM,
		Ready: func(ctx context.Context) error {
			for _, dials := range all {
				if err := dials(ctx); err != nil {
					return err
				}
			}
			return nil
		},
	})
	p.Start()
	return p
}
