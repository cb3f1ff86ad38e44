package docker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"loadstone/lab/driver/guardian"
)

const (
	// quickWithin bounds a command that asks the daemon something or has it
	// start or remove something: tenths of a second, on a machine that is busy
	// seconds. A daemon that takes a minute hangs.
	quickWithin = time.Minute
	// endWithin bounds the reading of what a command that has ended has left
	// in its pipes.
	endWithin = 2 * time.Second

	defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// passed are the variables of the lab that Docker's commands get.
var passed = []string{
	"PATH", "HOME", "TMPDIR", "LANG", "XDG_RUNTIME_DIR",
	"DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY", "DOCKER_API_VERSION",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
}

// client runs Docker's commands.
type client struct {
	docker  string   // the program
	compose []string // argv prefix; from engine on
	env     []string
	path    string
}

// newClient finds docker. The mark, if there is one, is that of the run: a
// guardian ends the commands that carry it.
func newClient(env map[string]string, mark string) (*client, error) {
	c := &client{path: env["PATH"]}
	if c.path == "" {
		c.path = defaultPath
	}
	c.env = append(c.env, "PATH="+c.path)
	for _, key := range passed {
		if value, ok := env[key]; ok && key != "PATH" {
			c.env = append(c.env, key+"="+value)
		}
	}
	if mark != "" {
		c.env = append(c.env, guardian.MarkVariable+"="+mark)
	}
	var ok bool
	if c.docker, ok = c.find("docker"); !ok {
		return nil, errors.New("docker is not installed; install it (on Debian: apt install docker.io docker-compose), or run the system without it")
	}
	return c, nil
}

// find is the file of a program on the PATH.
func (c *client) find(program string) (string, bool) {
	for dir := range strings.SplitSeq(c.path, ":") {
		file := filepath.Join(dir, program)
		if info, err := os.Stat(file); err == nil && filepath.IsAbs(file) && !info.IsDir() && info.Mode()&0o111 != 0 {
			return file, true
		}
	}
	return "", false
}

// engine is what matters of the daemon.
type engine struct {
	// LimitsCPU says whether the kernel holds containers to their share.
	LimitsCPU bool `json:"CpuCfsQuota"`
	// LimitsMemory is the same for memory.
	LimitsMemory  bool   `json:"MemoryLimit"`
	CgroupVersion string `json:"CgroupVersion"` // "1" or "2"

	ServerErrors []string `json:"ServerErrors"`
}

// engine asks the daemon about itself, and finds out which Compose there is.
func (c *client) engine(ctx context.Context) (engine, error) {
	var e engine
	if err := c.local(ctx); err != nil {
		return e, err
	}
	out, err := c.quick(ctx, "info", "--format", "{{json .}}")
	if errJSON := json.Unmarshal(out, &e); err == nil && errJSON != nil {
		err = fmt.Errorf("docker info: %w", errJSON)
	}
	if err == nil && len(e.ServerErrors) > 0 { // newer clients end with status 0
		err = explain("info", strings.Join(e.ServerErrors, "\n"), nil)
	}
	if err != nil {
		return e, err
	}
	if _, err := c.quick(ctx, "compose", "version"); err == nil {
		c.compose = []string{c.docker, "compose"}
		return e, nil
	}
	v1, ok := c.find("docker-compose")
	if !ok {
		return e, errors.New("Docker Compose is not installed: there is neither `docker compose` nor `docker-compose`; install docker-compose-plugin or docker-compose") //nolint:staticcheck // a name
	}
	c.compose = []string{v1}
	return e, nil
}

// local reports a daemon on another machine: its containers' CPU and memory, their
// addresses and the files that they mount are there. The daemon itself is not asked.
func (c *client) local(ctx context.Context) error {
	out, err := c.quick(ctx, "context", "inspect", "--format", "{{.Endpoints.docker.Host}}")
	if err != nil {
		return nil //nolint:nilerr // what comes next says so
	}
	address := strings.TrimSpace(string(out))
	u, err := url.Parse(address)
	if err != nil || u.Host == "" { // a socket
		return nil //nolint:nilerr // as above
	}
	if ip := net.ParseIP(u.Hostname()); u.Scheme == "ssh" || u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("the Docker daemon is on another machine, %s, where alone its containers can be reached and measured; run loadstone there, or choose the daemon of this machine (DOCKER_HOST, `docker context use`)", address)
	}
	return nil
}

// quick runs docker and returns what it wrote.
func (c *client) quick(ctx context.Context, args ...string) ([]byte, error) {
	var out bytes.Buffer
	err := c.run(ctx, call{argv: append([]string{c.docker}, args...), within: quickWithin, out: &out})
	return out.Bytes(), err
}

// call is one run of a command.
type call struct {
	argv   []string
	within time.Duration
	out    io.Writer // of its standard output
	// both, if it is set, gets standard error too; else that is for the error.
	both bool
}

// run runs a command in a process group of its own. Its error is one sentence.
func (c *client) run(ctx context.Context, k call) error {
	bounded, cancel := context.WithTimeout(ctx, k.within)
	defer cancel()
	var said bytes.Buffer
	cmd := c.command(bounded, k.argv)
	cmd.Stdout, cmd.Stderr = k.out, &said
	if k.both {
		cmd.Stderr = k.out // the same writer, so that exec copies with one goroutine
	}
	err := cmd.Run()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case bounded.Err() != nil:
		return fmt.Errorf("%s did not end within %v; is the Docker daemon all right?", what(k.argv), k.within)
	}
	return explain(what(k.argv), said.String(), err)
}

func (c *client) command(ctx context.Context, argv []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = "/", c.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the plugin is a child of docker
	cmd.Cancel = func() error {
		err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		if errors.Is(err, syscall.ESRCH) {
			return os.ErrProcessDone
		}
		return err
	}
	cmd.WaitDelay = endWithin
	return cmd
}

// what names a command in an error: its program and the first word that is no
// option.
func what(argv []string) string {
	name := filepath.Base(argv[0])
	for _, arg := range argv[1:] {
		if !strings.HasPrefix(arg, "-") {
			return name + " " + arg
		}
	}
	return name
}
