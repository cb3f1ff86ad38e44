package recipe

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// nginx is one start of NGINX.
type nginx struct {
	*Instance

	upstreams map[string]bool // by name
	done      map[string]bool // files that are rendered
	http      map[string]bool // names of the directives of the http block itself
	main      map[string]bool // and of the main context
	ports     []int           // what it listens on
}

// nginxBlock is what the directives of a block need to know of it.
type nginxBlock struct {
	name    string
	in      string          // the block that it is in
	listens map[string]bool // of a server: the addresses that it has
}

// streamModule is where Debian's libnginx-mod-stream puts it.
const streamModule = "/usr/lib/nginx/modules/ngx_stream_module.so"

// opaque are blocks whose content is no directives.
var opaque = []string{"types", "map", "geo", "split_clients"}

// nginxPaths are the directives whose first argument is a path.
var nginxPaths = []string{
	"root", "alias", "pid", "lock_file", "error_log", "access_log", "auth_basic_user_file",
	"ssl_certificate", "ssl_certificate_key", "ssl_trusted_certificate", "ssl_client_certificate", "ssl_dhparam",
	"ssl_password_file", "ssl_session_ticket_key", "ssl_crl", "ssl_stapling_file",
	"proxy_ssl_certificate", "proxy_ssl_certificate_key", "proxy_ssl_trusted_certificate", "proxy_ssl_crl", "proxy_ssl_password_file",
	"grpc_ssl_certificate", "grpc_ssl_certificate_key", "grpc_ssl_trusted_certificate",
	"client_body_temp_path", "proxy_temp_path", "fastcgi_temp_path", "uwsgi_temp_path", "scgi_temp_path",
	"proxy_cache_path", "fastcgi_cache_path", "uwsgi_cache_path", "scgi_cache_path",
}

// nginxTemps are the directories that NGINX makes at its start, by the
// directive that names them, with what the image was built to call them. The
// distribution's build has other ones.
var nginxTemps = [][2]string{
	{"client_body_temp_path", "/var/cache/nginx/client_temp"},
	{"proxy_temp_path", "/var/cache/nginx/proxy_temp"},
	{"fastcgi_temp_path", "/var/cache/nginx/fastcgi_temp"},
	{"uwsgi_temp_path", "/var/cache/nginx/uwsgi_temp"},
	{"scgi_temp_path", "/var/cache/nginx/scgi_temp"},
	{"access_log", "/dev/stdout"},
}

// renderMain renders the main file and what it includes.
func (n *nginx) renderMain(inside string) error {
	if err := n.findUpstreams(); err != nil {
		return err
	}
	before := ""
	file, err := n.materialise(inside)
	if err != nil {
		return err
	}
	if len(file) == 0 {
		return fmt.Errorf("its configuration %s is not mounted", inside)
	}
	if err := n.render(file[0], nginxBlock{name: "main"}); err != nil {
		return err
	}
	if !n.main["pid"] {
		before += "pid " + quoted(n.file("/run/nginx.pid")) + "; "
	}
	if !n.main["user"] && n.UID == 0 {
		before += "user root; "
	}
	if !n.main["error_log"] {
		before += "error_log stderr; "
	}
	// The image's build has it inside; Debian's has it in a package of its own.
	if _, err := os.Stat(streamModule); err == nil && n.main["stream"] && !n.main["load_module"] {
		before = "load_module " + streamModule + "; " + before
	}
	text, err := os.ReadFile(file[0])
	if err != nil {
		return err
	}
	return n.write(file[0], append([]byte(before), text...), 0o600)
}

var upstreamPattern = regexp.MustCompile(`(?m)^[^#]*\bupstream\s+([^\s{]+)\s*\{`)

// findUpstreams collects their names, which may be those of services, too.
// They can stand after their use, hence this look ahead.
func (n *nginx) findUpstreams() error {
	files := os.DirFS(n.scratch(nginxDir))
	return fs.WalkDir(files, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, name)
		for _, found := range upstreamPattern.FindAllStringSubmatch(string(text), -1) {
			n.upstreams[found[1]] = true
		}
		return err
	})
}

// materialise makes the files that a path inside the container, which may be a
// pattern, stands for: those in /etc/nginx are there, others are copied.
func (n *nginx) materialise(inside string) ([]string, error) {
	if _, ok := below(path.Clean(inside), nginxDir); ok {
		return filepath.Glob(n.scratch(inside))
	}
	files, err := filepath.Glob(n.path(inside))
	if err != nil {
		return nil, err
	}
	// Only the last part may be a pattern: of another, the mount is not known.
	copied := make([]string, 0, len(files))
	for _, file := range files {
		to := n.scratch(path.Join(path.Dir(inside), filepath.Base(file)))
		if !n.done[to] {
			if err := n.copyTree(file, to); err != nil {
				return nil, err
			}
		}
		copied = append(copied, to)
	}
	return copied, nil
}

// render changes a file in the instance's directory.
func (n *nginx) render(file string, b nginxBlock) error {
	if n.done[file] {
		return nil
	}
	n.done[file] = true
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	name := strings.TrimPrefix(file, n.scratch("/"))
	directives, err := parseNginx(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	edits, err := n.walk(directives, b)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return n.write(file, []byte(apply(string(text), edits)), 0o600)
}

func (n *nginx) walk(directives []directive, b nginxBlock) ([]edit, error) {
	var edits []edit
	for _, d := range directives {
		switch b.name {
		case "main":
			n.main[d.name] = true
		case "http":
			n.http[d.name] = true
		}
		if d.open > 0 {
			more, err := n.block(d, b)
			if err != nil {
				return nil, err
			}
			edits = append(edits, more...)
			continue
		}
		more, err := n.simple(d, b)
		if err != nil {
			return nil, err
		}
		edits = append(edits, more...)
	}
	return edits, nil
}

// block changes what is in a block, and adds what the image's build has by
// default and this one does not, on the line of its brace.
func (n *nginx) block(d directive, outer nginxBlock) ([]edit, error) {
	if slices.Contains(opaque, d.name) {
		return nil, nil
	}
	b := nginxBlock{name: d.name, in: outer.name}
	if d.name == "server" {
		b.listens = map[string]bool{}
	}
	edits, err := n.walk(d.block, b)
	if err != nil {
		return nil, err
	}
	var add strings.Builder
	if d.name == "server" && b.in == "http" && len(b.listens) == 0 {
		add.WriteString(" listen " + net.JoinHostPort(n.Host, "80") + ";")
		n.ports = append(n.ports, 80)
	}
	if d.name == "http" {
		for _, t := range nginxTemps {
			if !n.http[t[0]] {
				add.WriteString(" " + t[0] + " " + quoted(n.file(t[1])) + ";")
			}
		}
	}
	if add.Len() > 0 {
		edits = append([]edit{{start: d.open, end: d.open, text: add.String()}}, edits...)
	}
	return edits, nil
}

// simple changes a directive without a block.
func (n *nginx) simple(d directive, b nginxBlock) ([]edit, error) {
	if len(d.args) == 0 {
		return nil, nil
	}
	switch {
	case d.name == "daemon":
		return []edit{{start: d.start, end: d.end}}, nil
	case d.name == "user" && b.name == "main":
		// The workers read what is mounted, which in a container is nobody's in
		// particular: they run as the lab does, like every other instance.
		if n.UID != 0 {
			return []edit{{start: d.start, end: d.end}}, nil
		}
		return []edit{{start: d.args[0].start, end: d.end, text: "root;"}}, nil
	case d.name == "include":
		return n.include(d.args[0], b)
	case d.name == "listen" && b.name == "server":
		return n.listen(d, b), nil
	case d.name == "server" && b.name == "upstream":
		return n.upstream(d), nil
	}
	if text, ok := n.argument(d.name, d.args[0].text); ok {
		return []edit{{start: d.args[0].start, end: d.args[0].end, text: quoted(text)}}, nil
	}
	return nil, nil
}

// argument is what takes the place of a directive's first argument, if
// something does.
func (n *nginx) argument(name, text string) (string, bool) {
	switch {
	case strings.HasSuffix(name, "_pass"):
		return n.pass(text)
	case name == "error_log" && slices.Contains([]string{"/dev/stderr", "/var/log/nginx/error.log"}, text):
		return "stderr", true
	case slices.Contains(nginxPaths, name) && strings.HasPrefix(text, "/"):
		return n.file(text), true
	default:
		return "", false
	}
}

func (n *nginx) include(pattern word, b nginxBlock) ([]edit, error) {
	inside := pattern.text
	if !path.IsAbs(inside) {
		inside = path.Join(nginxDir, inside)
	}
	if slices.Contains([]string{"types", "map", "geo"}, b.name) {
		return []edit{{start: pattern.start, end: pattern.end, text: quoted(n.file(inside))}}, nil
	}
	files, err := n.materialise(inside)
	if err != nil {
		return nil, fmt.Errorf("include %s: %w", pattern.text, err)
	}
	for _, file := range files {
		if err := n.render(file, b); err != nil {
			return nil, err
		}
	}
	return []edit{{start: pattern.start, end: pattern.end, text: quoted(n.scratch(inside))}}, nil
}

// file is where a path inside the container is: a device or a file of the
// host's, what is mounted, or the instance's own. The image's log is a link to its
// output.
func (n *nginx) file(inside string) string {
	if inside == "/var/log/nginx/access.log" {
		return "/dev/stdout"
	}
	if _, ok := below(path.Clean(inside), nginxDir); ok {
		return n.scratch(inside)
	}
	if host, ok := n.mounted(inside); ok {
		return host
	}
	for _, hosts := range []string{"/dev", "/usr/share", "/etc/ssl"} {
		if _, ok := below(path.Clean(inside), hosts); ok {
			return inside
		}
	}
	return n.scratch(inside)
}
