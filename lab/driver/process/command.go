package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"loadstone/lab/driver/guardian"
	"loadstone/lab/topology"
)

// defaultPath is what a process searches when the lab has no PATH itself.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// command prepares argv to run for an instance: in its directory, with its
// environment, as its user, in a process group of its own, to be killed if this
// process dies.
func (r *Running) command(ctx context.Context, in *instance, argv []string) (*exec.Cmd, error) {
	account := r.account(&in.Service)
	env := r.environment(in, account)
	program, err := r.find(argv[0], env["PATH"])
	if err != nil {
		return nil, err
	}
	// Only the caller decides when it ends: not ctx, which ends with Up.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), program)
	cmd.Args = slices.Clone(argv)
	if argv[0] == topology.Self {
		cmd.Args[0] = program // so that it can be told from another build in ps
	}
	if cmd.Dir = in.dir; cmd.Dir == "" {
		cmd.Dir = r.workingDir(&in.Service)
	}
	cmd.Env = make([]string, 0, len(env))
	for key, value := range env {
		cmd.Env = append(cmd.Env, key+"="+value)
	}
	slices.Sort(cmd.Env)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if account != nil {
		cmd.SysProcAttr.Credential = &account.credential
	}
	return cmd, nil
}

// environment is all that a process gets: four of the lab's own variables, the
// driver's, the service's over both, its recipe's, and the mark.
func (r *Running) environment(in *instance, account *account) map[string]string {
	env := map[string]string{"PATH": defaultPath}
	for _, key := range []string{"PATH", "HOME", "TMPDIR", "LANG"} {
		if value := r.config.Env[key]; value != "" {
			env[key] = value
		}
	}
	if account != nil && account.home != "" {
		env["HOME"] = account.home
	}
	maps.Copy(env, in.Variables())
	maps.Copy(env, in.Service.Environment)
	maps.Copy(env, in.env)
	env[guardian.MarkVariable] = r.name
	return env
}

// find is the file of a program: this program's own for loadstone, else a path,
// relative to the Compose file's directory, else the first on the service's PATH.
func (r *Running) find(program, path string) (string, error) {
	if program == topology.Self {
		return r.config.Self, nil
	}
	if strings.Contains(program, "/") {
		if !filepath.IsAbs(program) {
			program = filepath.Join(r.config.System.Dir, program)
		}
	}
	return find(program, path)
}

// find is the file of a program that is an absolute path or on path.
func find(program, path string) (string, error) {
	if filepath.IsAbs(program) {
		return program, executable(program)
	}
	for dir := range strings.SplitSeq(path, ":") {
		if file := filepath.Join(dir, program); filepath.IsAbs(file) && executable(file) == nil {
			return file, nil
		}
	}
	return "", fmt.Errorf("there is no program %s on the PATH; install it, or write its path in x-process", program)
}

func executable(file string) error {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no program %s", file)
	case err != nil:
		return err
	case info.IsDir() || info.Mode()&0o111 == 0:
		return fmt.Errorf("%s is not a program that can be run", file)
	}
	return nil
}

// workingDir is the service's own if it exists here, else that of the Compose
// file: a path inside an image often does not.
func (r *Running) workingDir(s *topology.Service) string {
	dir := s.WorkingDir
	if dir == "" {
		return r.config.System.Dir
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(r.config.System.Dir, dir)
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		r.Warnf("service %s: working_dir %s does not exist here; it runs in %s", s.Name, s.WorkingDir, r.config.System.Dir)
		return r.config.System.Dir
	}
	return dir
}
