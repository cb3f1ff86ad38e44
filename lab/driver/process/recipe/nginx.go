package recipe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"loadstone/lab/topology"
)

const (
	nginxDir  = "/etc/nginx"
	nginxMain = "/etc/nginx/nginx.conf"
)

// What the image has where nothing is mounted: a main file that includes
// conf.d, and in there a server on port 80 with the files in
// /usr/share/nginx/html.
const (
	nginxMainText = `worker_processes auto;
events { worker_connections 1024; }
http {
  include /etc/nginx/mime.types;
  default_type application/octet-stream;
  sendfile on;
  keepalive_timeout 65;
  include /etc/nginx/conf.d/*.conf;
}
`
	nginxDefaultText = `server {
  listen 80;
  server_name localhost;
  location / { root /usr/share/nginx/html; index index.html index.htm; }
}
`
)

// nginxSupport are files of the distribution's that are the image's as well.
var nginxSupport = []string{"mime.types", "fastcgi_params", "scgi_params", "uwsgi_params"}

// startNginx has the official image's contract: /etc/nginx/nginx.conf,
// conf.d/*.conf, templates/*.template with NGINX_ENVSUBST_TEMPLATE_DIR,
// NGINX_ENVSUBST_TEMPLATE_SUFFIX, NGINX_ENVSUBST_OUTPUT_DIR and
// NGINX_ENVSUBST_FILTER, and a command of nginx's options.
//
// How an unchanged configuration comes to run here: /etc/nginx is laid out in
// the instance's directory, from what is mounted and what the image has besides;
// templates are rendered into it; then each file that NGINX would read is
// changed where it stands (nginxrender.go), so that a line that NGINX complains
// about has the number it has in the original.
func startNginx(_ context.Context, in *Instance) (*Process, error) {
	args, err := in.arguments([]string{"nginx", "nginx-debug"})
	if err != nil {
		return nil, err
	}
	n := &nginx{Instance: in, upstreams: map[string]bool{}, done: map[string]bool{}, http: map[string]bool{}, main: map[string]bool{}}
	main, globals, args, err := n.options(args)
	if err != nil {
		return nil, err
	}
	for _, step := range []func() error{n.layOut, n.renderTemplates, n.writableDirs, func() error { return n.renderMain(main) }, n.checkPorts} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	for name := range in.Service.Environment {
		if strings.HasPrefix(name, "NGINX_ENTRYPOINT_") && !strings.HasSuffix(name, "QUIET_LOGS") {
			in.Warnf("%s is ignored: the recipe has no such script", name)
		}
	}
	command := []string{
		in.Files["nginx"], "-p", in.scratch(nginxDir) + "/", "-c", in.scratch(main),
		"-g", strings.TrimSpace("daemon off; " + globals),
	}
	return &Process{Command: append(command, args...), Env: map[string]string{}}, nil
}

// options takes -c, -g and -p out of the arguments. What -g says of daemon, of
// the user and of the pid's file is left out: the recipe says it itself.
func (n *nginx) options(args []string) (main, globals string, rest []string, err error) {
	main = nginxMain
	for len(args) > 0 {
		flag := args[0]
		args = args[1:]
		if !slices.Contains([]string{"-c", "-g", "-p"}, flag) {
			rest = append(rest, flag)
			continue
		}
		if len(args) == 0 {
			return "", "", nil, fmt.Errorf("its command ends with %s, which needs a value", flag)
		}
		value := args[0]
		args = args[1:]
		switch {
		case flag == "-p":
			return "", "", nil, errors.New("its command has the option -p, which the recipe sets itself; use absolute paths")
		case flag == "-g":
			globals = strings.Join([]string{globals, value}, " ")
		case path.IsAbs(value):
			main = value
		default:
			main = path.Join(nginxDir, value)
		}
	}
	directives, err := parseNginx(globals)
	if err != nil {
		return "", "", nil, fmt.Errorf("its option -g: %w", err)
	}
	var drop []edit
	for _, d := range directives {
		if slices.Contains([]string{"daemon", "user", "pid"}, d.name) {
			drop = append(drop, edit{start: d.start, end: d.end})
		}
	}
	return main, strings.TrimSpace(apply(globals, drop)), rest, nil
}

// layOut makes the instance's /etc/nginx.
func (n *nginx) layOut() error {
	dir := n.scratch(nginxDir)
	if err := os.MkdirAll(filepath.Join(dir, "conf.d"), 0o755); err != nil {
		return err
	}
	if !n.mountPoint(nginxDir) {
		for _, name := range nginxSupport {
			text, err := os.ReadFile(filepath.Join(nginxDir, name))
			if errors.Is(err, fs.ErrNotExist) {
				continue // only a configuration that includes it misses it
			}
			if err == nil {
				err = n.write(filepath.Join(dir, name), text, 0o644)
			}
			if err != nil {
				return err
			}
		}
		if err := n.write(n.scratch(nginxMain), []byte(nginxMainText), 0o644); err != nil {
			return err
		}
		if !n.mountPoint(nginxDir + "/conf.d") {
			if err := n.write(filepath.Join(dir, "conf.d", "default.conf"), []byte(nginxDefaultText), 0o644); err != nil {
				return err
			}
		}
	}
	return n.copyMounts(nginxDir)
}

// copyMounts lays out what is mounted at or below a directory of configuration.
func (in *Instance) copyMounts(dir string) error {
	// Outer mounts first, so that inner ones go over them.
	targets := map[string]bool{}
	for _, v := range in.Service.Volumes {
		if _, ok := below(path.Clean(v.Target), dir); ok {
			targets[path.Clean(v.Target)] = true
		}
	}
	for _, target := range slices.Sorted(maps.Keys(targets)) {
		if err := in.copyTree(in.path(target), in.scratch(target)); err != nil {
			return fmt.Errorf("the volume mounted at %s: %w", target, err)
		}
	}
	return nil
}

// mountPoint says whether something is mounted exactly there.
func (in *Instance) mountPoint(inside string) bool {
	return slices.ContainsFunc(in.Service.Volumes, func(v topology.Volume) bool { return path.Clean(v.Target) == inside })
}

// copyTree copies a file or a directory of configuration. Links are followed,
// as certificates often are links.
func (in *Instance) copyTree(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if info.Mode().IsRegular() {
		text, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		return in.write(to, text, 0o600|info.Mode().Perm())
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is neither a file nor a directory", from)
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := in.copyTree(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// renderTemplates writes every template with the service's variables in place.
// As in the image, what is not in its environment stays, so that NGINX's own
// variables do.
func (n *nginx) renderTemplates() error {
	env := n.Service.Environment
	inside := cmp.Or(env["NGINX_ENVSUBST_TEMPLATE_DIR"], nginxDir+"/templates")
	suffix := cmp.Or(env["NGINX_ENVSUBST_TEMPLATE_SUFFIX"], ".template")
	output := cmp.Or(env["NGINX_ENVSUBST_OUTPUT_DIR"], nginxDir+"/conf.d")
	filter, err := regexp.Compile(env["NGINX_ENVSUBST_FILTER"])
	if err != nil {
		return fmt.Errorf("NGINX_ENVSUBST_FILTER: %w", err)
	}
	from := n.path(inside)
	if _, ok := below(inside, nginxDir); ok {
		from = n.scratch(inside)
	}
	if _, err := os.Stat(from); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	templates := os.DirFS(from)
	return fs.WalkDir(templates, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(name, suffix) {
			return err
		}
		text, err := fs.ReadFile(templates, name)
		if err != nil {
			return err
		}
		to := n.scratch(path.Join(output, strings.TrimSuffix(name, suffix)))
		return n.write(to, []byte(substitute(string(text), env, filter)), 0o644)
	})
}

var variablePattern = regexp.MustCompile(`\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))`)

// substitute puts the variables of env whose names match filter in the place of
// $NAME and ${NAME}.
func substitute(text string, env map[string]string, filter *regexp.Regexp) string {
	return variablePattern.ReplaceAllStringFunc(text, func(found string) string {
		name := strings.Trim(found, "${}")
		if value, ok := env[name]; ok && filter.MatchString(name) {
			return value
		}
		return found
	})
}

// writableDirs makes those that the image has and NGINX writes to.
func (n *nginx) writableDirs() error {
	for _, inside := range []string{"/var/cache/nginx", "/var/log/nginx", "/var/run", "/run", "/tmp"} {
		if _, mounted := n.mounted(inside); mounted {
			continue
		}
		if err := os.MkdirAll(n.scratch(inside), 0o755); err != nil {
			return err
		}
		if err := n.own(n.scratch(inside)); err != nil {
			return err
		}
	}
	return nil
}
