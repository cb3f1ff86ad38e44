package recipe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

const (
	varnishDir  = "/etc/varnish" // also where relative names of files begin
	varnishMain = varnishDir + "/default.vcl"
	// varnishSupport is where the distribution has files that the image has as well.
	varnishSupport = "/usr/share/varnish/vcl"
)

// varnishText is what runs where nothing is mounted: as in the image, Varnish says
// that it runs.
const varnishText = `vcl 4.1;
backend default none;
sub vcl_recv { return (synth(200, "Varnish is running")); }
`

// startVarnish has the official image's contract: the VCL at
// /etc/varnish/default.vcl, VARNISH_SIZE, ports 80 and, for the PROXY protocol,
// VARNISH_PROXY_PORT, and a command of varnishd's options, which come after those of
// the image, or of varnishd with all of its options.
//
// /etc/varnish is laid out in the instance's directory. In each VCL file there, a
// backend's .host that names a service becomes its address, in place, so that a line
// that Varnish complains about has the number it has in the original. The programs
// that look into a running Varnish, such as varnishadm in a health check, find this
// one, and no jail changes the user.
func startVarnish(_ context.Context, in *Instance) (*Process, error) {
	args, err := in.arguments([]string{"varnishd", "/usr/sbin/varnishd"})
	if err != nil {
		return nil, err
	}
	if given := in.Service.Arguments; len(given) == 0 || strings.HasPrefix(given[0], "-") {
		env := in.Service.Environment
		args = append([]string{
			"-f", varnishMain, "-a", "http=:" + cmp.Or(env["VARNISH_HTTP_PORT"], "80") + ",HTTP",
			"-a", "proxy=:" + cmp.Or(env["VARNISH_PROXY_PORT"], "8443") + ",PROXY",
			"-p", "feature=+http2", "-s", "malloc," + cmp.Or(env["VARNISH_SIZE"], "100M"),
		}, args...)
	}
	v := &varnish{Instance: in}
	if err := v.layOut(); err != nil {
		return nil, err
	}
	if args, err = v.options(args); err != nil {
		return nil, err
	}
	work := filepath.Join(in.Dir, "work")
	if err := os.Mkdir(work, 0o755); err != nil {
		return nil, err
	}
	command := []string{
		in.Files["varnishd"], "-j", "none", "-F", "-n", work, // the jail has to be the first
		"-p", "vcl_path=" + v.scratch(varnishDir) + ":" + varnishSupport,
	}
	if !v.admin {
		command = append(command, "-T", net.JoinHostPort(in.Host, "0"))
	}
	env := map[string]string{"PATH": filepath.Join(in.Dir, "bin") + ":" + in.Path}
	return &Process{Command: append(command, args...), Env: env}, errors.Join(in.own(work), v.clients(work))
}

// varnish is an instance with what its options have said.
type varnish struct {
	*Instance

	admin bool // it is told where its CLI listens
}

// layOut makes the instance's /etc/varnish.
func (v *varnish) layOut() error {
	if err := os.MkdirAll(v.scratch(varnishDir), 0o755); err != nil {
		return err
	}
	if !v.mountPoint(varnishDir) {
		if err := v.write(v.scratch(varnishMain), []byte(varnishText), 0o644); err != nil {
			return err
		}
	}
	if err := v.copyMounts(varnishDir); err != nil {
		return err
	}
	return filepath.WalkDir(v.scratch(varnishDir), func(file string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(file, ".vcl") {
			return err
		}
		return v.render(file)
	})
}

// varnishFlags are the options of varnishd that have a value.
const varnishFlags = "abfhijlnprstxIMPSTW"

// options translates the addresses and the paths of the image in varnishd's options,
// each of which is one letter, with its value or followed by it. Its working
// directory and its jail are the recipe's.
func (v *varnish) options(args []string) ([]string, error) {
	var out []string
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if len(arg) < 2 || arg[0] != '-' || !strings.Contains(varnishFlags, arg[1:2]) {
			if arg != "-F" {
				out = append(out, arg)
			}
			continue
		}
		flag, value := arg[:2], arg[2:]
		if value == "" {
			if i++; i == len(args) {
				return nil, fmt.Errorf("its command ends with %s, which needs a value", flag)
			}
			value = args[i]
		}
		if flag == "-j" || flag == "-n" {
			continue
		}
		value, err := v.option(flag, value)
		if err != nil {
			return nil, fmt.Errorf("its option %s: %w", flag, err)
		}
		out = append(out, flag, value)
	}
	return out, nil
}

func (v *varnish) option(flag, value string) (string, error) {
	switch flag {
	case "-a":
		return v.socket(value)
	case "-b":
		return v.backend(value)
	case "-f":
		return v.vcl(value)
	case "-s":
		return v.storage(value)
	case "-T":
		v.admin = true
		if value == "none" {
			return value, nil
		}
		if _, _, err := net.SplitHostPort(value); err != nil {
			value = ":0"
		}
		return v.listen(value), nil
	case "-S", "-I":
		return v.path(absolute(value)), nil
	case "-P":
		return v.writable(absolute(value))
	}
	return value, nil
}

// socket translates what Varnish listens on: a name, an address and options.
func (v *varnish) socket(value string) (string, error) {
	name, rest := "", value
	if before, after, ok := strings.Cut(value, "="); ok && !strings.Contains(before, ",") {
		name, rest = before+"=", after
	}
	address, more, _ := strings.Cut(rest, ",")
	if more != "" {
		more = "," + more
	}
	if path.IsAbs(address) {
		socket, err := v.writable(address)
		return name + socket + more, err
	}
	return name + v.listen(address) + more, nil
}

// storage translates the file of a storage: a kind, a path and options.
func (v *varnish) storage(value string) (string, error) {
	before, file, ok := strings.Cut(value, ",/")
	if !ok {
		return value, nil
	}
	file, size, _ := strings.Cut("/"+file, ",")
	file, err := v.writable(file)
	if size != "" {
		size = "," + size
	}
	return before + "," + file + size, err
}

// absolute is a path inside the container, whose working directory is /etc/varnish.
func absolute(name string) string {
	if path.IsAbs(name) {
		return name
	}
	return path.Join(varnishDir, name)
}

// writable is where a file inside the container that Varnish makes is on the host.
func (v *varnish) writable(inside string) (string, error) {
	dir, err := v.dataDir(path.Dir(inside))
	return filepath.Join(dir, path.Base(inside)), err
}

// vcl is where a VCL file is, rendered.
func (v *varnish) vcl(name string) (string, error) {
	inside := absolute(name)
	file := v.scratch(inside)
	if _, ok := below(inside, varnishDir); ok {
		if !strings.HasSuffix(inside, ".vcl") { // else it is rendered already
			return file, v.render(file)
		}
		return file, nil
	}
	if err := v.copyTree(v.path(inside), file); err != nil {
		return "", fmt.Errorf("the file %s is not mounted: %w", inside, err)
	}
	return file, v.render(file)
}

// vclPattern finds in VCL, beside comments and other strings, a backend's host and
// the names of files; what comes before the string is $1 or $2.
var vclPattern = regexp.MustCompile(`(?s)#[^\n]*|//[^\n]*|/\*.*?\*/|\{".*?"\}|""".*?"""|(\.host\s*=\s*)"[^"\n]*"|(\binclude\s+(?:\+glob\s+)?|\bfileread\(\s*)"[^"\n]*"|"[^"\n]*"`)

// render changes a VCL file where it stands.
func (v *varnish) render(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var out strings.Builder
	at := 0
	for _, m := range vclPattern.FindAllSubmatchIndex(text, -1) {
		change, from := v.backend, m[3]
		if m[2] < 0 {
			change, from = v.included, m[5]
		}
		if from < 0 {
			continue
		}
		value, err := change(string(text[from+1 : m[1]-1]))
		if err != nil {
			return fmt.Errorf("%s: %w", path.Base(file), err)
		}
		out.Write(text[at : from+1])
		out.WriteString(value)
		at = m[1] - 1
	}
	out.Write(text[at:])
	return v.write(file, []byte(out.String()), 0o644)
}

// backend puts the address in the place of the service's name in a backend's host,
// which may have a port.
func (v *varnish) backend(host string) (string, error) {
	name, port := host, ""
	if h, p, err := net.SplitHostPort(host); err == nil {
		name, port = h, ":"+p
	}
	addresses, ok := v.addresses(name)
	if !ok {
		return host, nil
	}
	if len(addresses) > 1 {
		return "", fmt.Errorf("the backend %s has %d addresses, and Varnish takes one for each backend; put a balancer such as nginx between them, or give the service one replica", name, len(addresses))
	}
	return addresses[0] + port, nil
}

// included is where a file that VCL names by its path inside the container is;
// others are looked for in /etc/varnish.
func (v *varnish) included(name string) (string, error) {
	if !path.IsAbs(name) {
		return name, nil
	}
	if _, ok := below(path.Clean(name), varnishDir); ok {
		return v.scratch(name), nil
	}
	if host, ok := v.mounted(name); ok {
		return host, nil
	}
	return name, nil
}

// clients has the programs that look into a running Varnish look into this one.
func (v *varnish) clients(work string) error {
	var errs []error
	for _, name := range []string{"varnishadm", "varnishlog", "varnishncsa", "varnishstat"} {
		text := fmt.Sprintf("#!/bin/sh\nPATH=%s exec %s -n %s \"$@\"\n", shellQuote(v.Path), name, shellQuote(work))
		errs = append(errs, v.write(filepath.Join(v.Dir, "bin", name), []byte(text), 0o755))
	}
	return errors.Join(errs...)
}
