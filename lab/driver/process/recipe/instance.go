package recipe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"loadstone/lab/topology"
)

// Instance is what a recipe is to start.
type Instance struct {
	// Service is resolved for this instance.
	Service topology.Service
	// Host is the instance's own address, Hosts those of all services.
	Host  string
	Hosts map[string][]string
	// Dir is an empty directory of the instance's own, absolute. It is gone
	// when the instance is; what has to stay is in a volume.
	Dir string
	// Volumes are the directories of the named volumes.
	Volumes map[string]string
	// Files are the recipe's programs, Path the PATH that it would have.
	Files map[string]string
	Path  string
	// UID and GID are those that the instance runs as; UserName is empty if
	// the machine has no name for it.
	UID, GID int
	UserName string
	// Run runs a command to its end, as the instance: its user, limits and log.
	Run func(context.Context, Step) error
	// Warnf says what is not as the image would have it.
	Warnf func(format string, args ...any)

	program string            // the first of the recipe's
	port    int               // of the image
	texts   map[string]string // the files of mounts with a text, by target
}

// Step is a command that prepares an instance.
type Step struct {
	Command []string
	Stdin   io.Reader         // nil for none
	Env     map[string]string // over the service's
}

// Process is what the instance then is.
type Process struct {
	Command []string
	// Env goes over the service's environment, in health checks too.
	Env map[string]string
}

// Start prepares the instance and says what to run.
func (r *Recipe) Start(ctx context.Context, in *Instance) (*Process, error) {
	if e := in.Service.Entrypoint; e != nil && (!r.shell || len(e) == 0 || path.Base(e[0]) != "sh") {
		return nil, fmt.Errorf("the recipe for %s starts the image's own entrypoint and cannot replace it with %q; set x-process to the program to start", r.Image, in.Service.Entrypoint)
	}
	in.program, in.port = r.Programs[0], r.Port
	if err := in.writeTexts(); err != nil {
		return nil, err
	}
	return r.start(ctx, in)
}

// writeTexts makes files of the mounts that are texts in the Compose file.
// They may be secrets, so only the instance's user may read them.
func (in *Instance) writeTexts() error {
	in.texts = map[string]string{}
	for i, v := range in.Service.Volumes {
		if v.Name != "" || v.Source != "" {
			continue
		}
		// Its name stays: some programs go by it.
		file := filepath.Join(in.Dir, "texts", strconv.Itoa(i), path.Base(v.Target))
		if err := in.write(file, []byte(v.Text), 0o600); err != nil {
			return err
		}
		in.texts[path.Clean(v.Target)] = file
	}
	return nil
}

// write makes a file for the instance's user, and the directories to it.
func (in *Instance) write(file string, content []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(file, content, mode); err != nil {
		return err
	}
	return in.own(file)
}

// own gives a file or a directory to the instance's user.
func (in *Instance) own(file string) error {
	if os.Geteuid() == in.UID {
		return nil
	}
	return os.Chown(file, in.UID, in.GID)
}

// mounted is the host's path of a path inside the container that is mounted,
// or lies below a mount; the deepest mount counts.
func (in *Instance) mounted(inside string) (string, bool) {
	inside = path.Clean(inside)
	best, host := -1, ""
	for _, v := range in.Service.Volumes {
		target := path.Clean(v.Target)
		rest, ok := below(inside, target)
		if !ok || len(target) < best {
			continue
		}
		best = len(target)
		switch {
		case v.Name != "":
			host = filepath.Join(in.Volumes[v.Name], rest)
		case v.Source != "":
			host = filepath.Join(v.Source, rest)
		default:
			host = filepath.Join(in.texts[target], rest)
		}
	}
	return host, best >= 0
}

// below is what follows of p after the directory dir; not ok if p is neither
// dir nor in it.
func below(p, dir string) (rest string, ok bool) {
	if p == dir {
		return "", true
	}
	return strings.CutPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

// path is where a path inside the container is on the host: in a mount, or in
// the instance's own directory, where it begins empty.
func (in *Instance) path(inside string) string {
	if host, ok := in.mounted(inside); ok {
		return host
	}
	return in.scratch(inside)
}

// scratch is a path inside the container in the instance's own directory.
func (in *Instance) scratch(inside string) string {
	return filepath.Join(in.Dir, "root", path.Clean("/"+inside))
}

// dataDir is where a directory inside the container is on the host, made if it
// is not there, for the instance's user.
func (in *Instance) dataDir(inside string) (string, error) {
	dir := in.path(inside)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return dir, in.own(dir)
}

// takeFlags offers each flag of a command line to take, and returns those that it
// does not take. value is what follows the flag's = or, without one, the next
// argument.
func takeFlags(given []string, take func(name string, value func() string) bool) (rest []string) {
	for i := 0; i < len(given); i++ {
		flag := given[i]
		name, text, hasText := strings.Cut(strings.TrimLeft(flag, "-"), "=")
		value := func() string {
			if !hasText && i+1 < len(given) && !strings.HasPrefix(given[i+1], "-") {
				i++
				text = given[i]
			}
			return text
		}
		if !take(name, value) {
			rest = append(rest, flag)
		}
	}
	return rest
}

// pathFlags translates the paths inside the container in arguments such as
// --config.file=/etc/prometheus/prometheus.yml, or that follow a flag of their
// own. A path that is neither mounted nor a file of the host's is the
// instance's own.
func (in *Instance) pathFlags(args []string) []string {
	out := slices.Clone(args)
	for i, arg := range out {
		flag, value, ok := strings.Cut(arg, "=")
		if !ok || strings.HasPrefix(arg, "/") {
			flag, value = "", arg
		} else {
			flag += "="
		}
		if !strings.HasPrefix(value, "/") {
			continue
		}
		if host, mounted := in.mounted(value); mounted {
			out[i] = flag + host
		} else if _, err := os.Stat(value); err != nil || strings.HasPrefix(value, "/tmp") {
			out[i] = flag + in.scratch(value)
		}
	}
	return out
}

// arguments are those of the image's program: the service's own command if it
// has one, without the program's name, else what the image has.
func (in *Instance) arguments(names []string, own ...string) ([]string, error) {
	args := in.Service.Arguments
	if len(args) == 0 {
		return own, nil
	}
	if slices.Contains(names, args[0]) {
		return slices.Clone(args[1:]), nil
	}
	if strings.HasPrefix(args[0], "-") {
		return slices.Clone(args), nil
	}
	return nil, fmt.Errorf("its command begins with %q, but the recipe starts only %s; write that with its arguments, or set x-process to the program to start", args[0], names[0])
}

// listen is the instance's own address with the port of address, which may be
// host:port or :port; with the image's if address is empty.
func (in *Instance) listen(address string) string {
	p := strconv.Itoa(in.port)
	if _, own, err := net.SplitHostPort(address); err == nil && own != "" {
		p = own
	}
	return net.JoinHostPort(in.Host, p)
}

// setting is the environment variable name, or the content of the file that
// name_FILE names, as images of databases have it.
func (in *Instance) setting(name string) (string, error) {
	value, file := in.Service.Environment[name], in.Service.Environment[name+"_FILE"]
	if file == "" {
		return value, nil
	}
	if value != "" {
		return "", fmt.Errorf("both %s and %s_FILE are set; set one of them", name, name)
	}
	text, err := os.ReadFile(in.path(file))
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s_FILE names %s, where no file is mounted", name, file)
	}
	if err != nil {
		return "", fmt.Errorf("read %s_FILE: %w", name, err)
	}
	return strings.TrimRight(string(text), "\n"), nil
}

// addresses are where a host of a configuration file is: the instances of the
// service of that name, the addresses of a list with commas (which is what
// ${API_HOSTS:-api} becomes), this instance for localhost. Not ok if it is
// something else, which is then left as it is.
func (in *Instance) addresses(host string) ([]string, bool) {
	switch {
	case len(in.Hosts[host]) > 0:
		return in.Hosts[host], true
	case host == "localhost" || host == "127.0.0.1" || host == "::1":
		return []string{in.Host}, true
	case strings.Contains(host, ","):
		return strings.Split(host, ","), true
	}
	return nil, false
}

// at is HOST:PORT with the first address of a service in the place of its name, or as it is.
func (in *Instance) at(hostPort string) string {
	host, port, err := net.SplitHostPort(hostPort)
	if found, known := in.addresses(host); err == nil && known {
		return net.JoinHostPort(found[0], port)
	}
	return hostPort
}
