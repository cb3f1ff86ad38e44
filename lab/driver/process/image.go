package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"loadstone/lab/driver/guardian"
	"loadstone/lab/driver/process/recipe"
	"loadstone/lab/topology"
)

// NoRecipeError is a service of which nobody knows how to start it here.
type NoRecipeError struct {
	Service string
	Image   string // empty if the service is built and not named
}

func (e *NoRecipeError) Error() string {
	what := fmt.Sprintf("there is no recipe to start the image %s as a local process yet", e.Image)
	if e.Image == "" {
		what = "it is built into an image, which the process driver does not run"
	}
	return fmt.Sprintf("service %s: %s; set `x-process: [PROGRAM, ARGUMENT, ...]` to start a program, or `image: %s` for a command of loadstone, or run the system with Docker", e.Service, what, topology.Self)
}

// Check looks for recipes, what they need, and the programs that services name. Its
// errors wrap a *NoRecipeError or a *recipe.MissingError, or say which program is
// not there. Up checks the same before anything else.
func (d Driver) Check(ctx context.Context, s *topology.System) error {
	_, _, err := findRecipes(ctx, s, d.Env)
	_, errNetwork := ownNetworks(s)
	return errors.Join(err, errNetwork)
}

// findRecipes finds those of the services that run what is in their image.
// left says, by name, why an optional service cannot start.
func findRecipes(ctx context.Context, s *topology.System, env map[string]string) (found map[string]*recipe.Found, left map[string]error, err error) {
	found, left = map[string]*recipe.Found{}, map[string]error{}
	var errs []error
	path := cmp.Or(env["PATH"], defaultPath)
	own := programs{system: s, path: path}
	for i := range s.Services {
		service := &s.Services[i]
		if service.Replicas == 0 {
			continue
		}
		var f *recipe.Found
		key := "x-process"
		if len(service.Command) > 0 {
			err = own.check(ctx, service)
		} else {
			key = "image"
			f, err = findRecipe(ctx, service, path)
		}
		switch {
		case err != nil && service.Optional:
			left[service.Name] = err
		case err != nil:
			errs = append(errs, s.Mistake(err, "services", service.Name, key))
		case f != nil:
			found[service.Name] = f
		}
	}
	return found, left, errors.Join(errs...)
}

// findRecipe finds the recipe of a service that runs what is in its image.
func findRecipe(ctx context.Context, service *topology.Service, path string) (*recipe.Found, error) {
	r, ok := recipe.Find(service.Image)
	if !ok {
		return nil, &NoRecipeError{Service: service.Name, Image: service.Image}
	}
	f, err := r.Locate(ctx, service.Image, path)
	if err != nil {
		return nil, fmt.Errorf("service %s: %w", service.Name, err)
	}
	return f, nil
}

// prepareRecipes finds the recipes, before anything is made or started.
func (r *Running) prepareRecipes(ctx context.Context) error {
	found, left, err := findRecipes(ctx, r.config.System, r.config.Env)
	if err != nil {
		return err
	}
	r.recipes = found
	if len(left) > 0 {
		for _, name := range slices.Sorted(maps.Keys(left)) {
			r.Warnf("service %s is optional and left out: %s", name, strings.TrimPrefix(left[name].Error(), "service "+name+": "))
		}
		r.config.System = r.config.System.Without(slices.Collect(maps.Keys(left)))
	}
	for _, service := range r.config.System.Services {
		if f := r.recipes[service.Name]; f != nil && f.Warning != "" {
			r.Warnf("service %s: %s", service.Name, f.Warning)
		}
	}
	return nil
}

// makeDir makes the directory in which the instances of recipes keep what does
// not outlive them. Its path is short, because a socket's has to be, and anybody
// may pass through it, because some instances have users of their own.
func (r *Running) makeDir() error {
	if own, err := ownNetworks(r.config.System); err != nil || !own && len(r.recipes) == 0 {
		return err
	}
	base := cmp.Or(r.config.Env["TMPDIR"], "/tmp")
	r.sweepDirs(base)
	var err error
	if r.dir, err = os.MkdirTemp(base, r.name+"-"); err != nil {
		return fmt.Errorf("make a directory for instances: %w", err)
	}
	if err := r.guard.Dir(r.dir); err != nil {
		return err
	}
	return os.Chmod(r.dir, 0o711)
}

// sweepDirs removes the directories of labs that are gone, and whose guardians
// did not get to it.
func (r *Running) sweepDirs(base string) {
	dirs, err := filepath.Glob(filepath.Join(base, groupPrefix+"*-*-*-*-*"))
	if err != nil {
		r.Warnf("could not look for what earlier runs left: %v", err)
	}
	for _, dir := range dirs {
		name := filepath.Base(dir)
		p, ok := owner(r.config.ProcRoot, name[:strings.LastIndexByte(name, '-')])
		info, err := os.Lstat(dir)
		if !ok || err != nil || p.Alive(r.config.ProcRoot) {
			continue
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); !ok || !info.IsDir() || int(stat.Uid) != os.Geteuid() {
			continue // somebody else's
		}
		if err := os.RemoveAll(dir); err != nil {
			r.Warnf("could not remove what an earlier run left: %v", err)
		}
	}
}

// asImage gives a service what its image has and the file does not state.
func (r *Running) asImage(s *topology.Service) {
	f := r.recipes[s.Name]
	if f == nil || len(s.Command) > 0 {
		return
	}
	s.Port = cmp.Or(s.Port, f.Port)
	s.StopSignal = cmp.Or(s.StopSignal, f.StopSignal)
	if s.User == "" && os.Geteuid() == 0 {
		s.User = f.User
	}
}

// ownHost is how a health check inside a container names the container.
var ownHost = regexp.MustCompile(`\b(?:localhost|127\.0\.0\.1)\b`)

// followRecipe makes the instance's command, and all that it needs, with the
// recipe of its image. What that runs writes to output.
func (in *instance) followRecipe(ctx context.Context, output *os.File) error {
	r := in.run
	found := r.recipes[in.Service.Name]
	in.dir = filepath.Join(r.dir, in.Name)
	if err := os.Mkdir(in.dir, 0o755); err != nil {
		return err
	}
	account := r.account(&in.Service)
	path := r.environment(in, account)["PATH"]
	ri := &recipe.Instance{
		Service: in.Service, Host: in.host, Hosts: r.hosts, Dir: in.dir, Volumes: r.volumes,
		Files: found.Files, Path: path, UID: os.Geteuid(), GID: os.Getegid(),
		Run:   func(ctx context.Context, s recipe.Step) error { return in.step(ctx, s, output) },
		Warnf: func(format string, args ...any) { r.Warnf("service "+in.Service.Name+": "+format, args...) },
	}
	if account != nil {
		ri.UID, ri.GID = int(account.credential.Uid), int(account.credential.Gid)
		if err := in.giveLog(output); err != nil {
			return err
		}
	}
	p, err := found.Start(ctx, ri)
	if err != nil {
		return err
	}
	in.Service.Command, in.env = p.Command, p.Env
	if h := in.Service.Health; h != nil {
		check := *h
		check.Command = make([]string, 0, len(h.Command))
		for _, arg := range h.Command {
			check.Command = append(check.Command, ownHost.ReplaceAllString(arg, in.host))
		}
		in.Service.Health = &check
	}
	return nil
}

// giveLog gives the pipe to the log to the instance's user, so that it may open
// /dev/stdout.
func (in *instance) giveLog(output *os.File) error {
	account := in.run.account(&in.Service)
	if account == nil {
		return nil
	}
	if err := output.Chown(int(account.credential.Uid), int(account.credential.Gid)); err != nil {
		return fmt.Errorf("give the log to user %s: %w", in.Service.User, err)
	}
	return nil
}

// step runs a command that prepares an instance, as the instance, and returns
// when it has ended. When ctx ends it is killed, with all that it started.
func (in *instance) step(ctx context.Context, s recipe.Step, output *os.File) error {
	in.env = s.Env
	cmd, err := in.run.command(ctx, in, s.Command)
	if err != nil {
		return err
	}
	if in.group != nil {
		if err := in.group.Enter(cmd, in.run.config.Shim); err != nil {
			return err
		}
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.Stdin, output, output
	if err := in.start(cmd); err != nil {
		return err
	}
	kill := context.AfterFunc(ctx, func() { _ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) })
	defer kill()
	p, errGuard := guardian.Identify(in.run.config.ProcRoot, cmd.Process.Pid)
	if errGuard == nil {
		errGuard = in.run.guard.Group(p)
	} else if errors.Is(errGuard, os.ErrNotExist) {
		errGuard = nil // it has ended already
	}
	err = cmd.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		err = fmt.Errorf("%s failed: %w", filepath.Base(s.Command[0]), err)
	}
	return errors.Join(err, errGuard)
}
