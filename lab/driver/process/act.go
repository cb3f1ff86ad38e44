package process

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"syscall"
	"time"

	"github.com/compose-spec/compose-go/v2/template"
	"golang.org/x/sys/unix"

	"loadstone/lab/driver/guardian"
	"loadstone/lab/topology"
)

// What is done to a running system on purpose is here: an instance is killed,
// stopped, started again or paused, or a command runs in its place. The end of
// an instance that was asked for is no failure and not reported on Failed.
//
// Started again, an instance is the same one: its address, its control group
// and what that has counted, its volumes, its recipe's directory and its log go
// on. Only its process is new, as with `docker compose kill` and `start`.

const (
	// pauseWithin bounds the wait until every process of an instance stands
	// still. A signal takes microseconds, but to a process that waits for a disk.
	pauseWithin = 2 * time.Second
	pausePause  = time.Millisecond
)

// change does something to one instance that runs, or, if that is wanted, to
// one that has ended. Two changes of one instance at a time are an
// error, since nobody could say what came of them.
func (r *Running) change(ctx context.Context, name string, ended bool, do func(context.Context, *instance, *life) error) error {
	ctx, done, err := r.acts.Begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	in := r.instance(name)
	if in == nil {
		return fmt.Errorf("there is no instance %s", name)
	}
	if !in.changing.TryLock() {
		return fmt.Errorf("%s is being changed already", name)
	}
	defer in.changing.Unlock()
	l := in.current()
	switch {
	case l == nil:
		return fmt.Errorf("%s was never started", name)
	case ended && !l.asked.Load() && !l.hasEnded():
		return fmt.Errorf("%s was not stopped", name)
	case ended:
		return do(ctx, in, l)
	case l.asked.Load():
		return fmt.Errorf("%s is stopped", name)
	case l.hasEnded():
		return fmt.Errorf("%s has ended by itself: %w", name, l.err)
	}
	return do(ctx, in, l)
}

func (r *Running) instance(name string) *instance {
	for _, in := range r.instances {
		if in.name == name {
			return in
		}
	}
	return nil
}

// Kill ends an instance with SIGKILL, all of its processes at once, and returns
// when they are gone.
func (r *Running) Kill(ctx context.Context, name string) error {
	return r.change(ctx, name, false, func(ctx context.Context, in *instance, l *life) error {
		l.asked.Store(true)
		in.setPaused(false)
		return in.kill(ctx, l)
	})
}

// Stop ends an instance as Down does: with its stop signal, and SIGKILL if it
// has not ended within its grace period or when ctx ends.
func (r *Running) Stop(ctx context.Context, name string) error {
	return r.change(ctx, name, false, func(ctx context.Context, in *instance, l *life) error {
		l.asked.Store(true)
		return in.stop(ctx)
	})
}

// Start starts an instance again that Kill or Stop has ended, or that has ended
// by itself. launched is when its process began. Start returns when the instance is ready, as Up would, and
// when ctx ends before that: the instance then goes on as it is.
func (r *Running) Start(ctx context.Context, name string) (launched time.Time, err error) {
	var in *instance
	err = r.change(ctx, name, true, func(ctx context.Context, i *instance, _ *life) error {
		in = i
		return in.startAgain(ctx)
	})
	if err != nil {
		return time.Time{}, err
	}
	ctx, done, err := r.acts.Begin(ctx)
	if err != nil {
		return time.Time{}, err
	}
	defer done()
	return in.describe().StartedAt, in.awaitReady(ctx)
}

// startAgain launches what was prepared at the first start.
func (in *instance) startAgain(ctx context.Context) error {
	if err := in.log.reopen("started again"); err != nil {
		return fmt.Errorf("start %s: %w", in.name, err)
	}
	before := in.current()
	out, err := in.openOutput()
	if err == nil && in.dir != "" {
		err = in.giveLog(out.w)
	}
	if err == nil {
		err = in.launch(ctx, out)
	}
	if err == nil {
		return nil
	}
	if in.current() == before { // else wait closes its log
		err = errors.Join(err, in.abandon(ctx, out))
	}
	return fmt.Errorf("start %s: %w", in.name, err)
}

// Pause has every process of an instance stand still (SIGSTOP) until Resume: it
// neither answers nor refuses. It returns when all of them do.
func (r *Running) Pause(ctx context.Context, name string) error {
	return r.change(ctx, name, false, func(ctx context.Context, in *instance, l *life) error {
		in.setPaused(true)
		if err := in.halt(ctx, l); err != nil {
			return errors.Join(fmt.Errorf("pause %s: %w", in.name, err), in.resume(l))
		}
		return nil
	})
}

// Resume lets a paused instance go on.
func (r *Running) Resume(ctx context.Context, name string) error {
	return r.change(ctx, name, false, func(_ context.Context, in *instance, l *life) error {
		if err := in.resume(l); err != nil {
			return fmt.Errorf("resume %s: %w", in.name, err)
		}
		return nil
	})
}

// halt stops processes until two looks in a row find none that runs: one that
// ran during the first may have started another in its last moment.
func (in *instance) halt(ctx context.Context, l *life) error {
	ctx, cancel := context.WithTimeout(ctx, pauseWithin)
	defer cancel()
	tick := time.NewTicker(pausePause)
	defer tick.Stop()
	for still := 0; ; {
		members, err := in.members(l)
		if err != nil {
			return err
		}
		still++
		for _, m := range members {
			if m.Stopped {
				continue
			}
			still = 0
			if err := send(m.Process, unix.SIGSTOP); err != nil {
				return err
			}
		}
		if still >= 2 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("its processes do not stand still: %w", context.Cause(ctx))
		}
	}
}

// resume lets all go on, if the instance is paused.
func (in *instance) resume(l *life) error {
	if !in.setPaused(false) {
		return nil
	}
	members, err := in.members(l)
	errs := []error{err}
	for _, m := range members {
		errs = append(errs, send(m.Process, unix.SIGCONT))
	}
	return errors.Join(errs...)
}

// setPaused returns what it was before.
func (in *instance) setPaused(paused bool) (before bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	before, in.paused = in.paused, paused
	return before
}

// members are the instance's processes that have not ended: those of its group
// or, where there are no groups, its first process and what descends from it.
func (in *instance) members(l *life) ([]guardian.Member, error) {
	if in.group == nil {
		return guardian.Descendants(in.run.config.ProcRoot, l.process)
	}
	pids, err := in.group.Procs()
	if err != nil {
		return nil, err
	}
	return guardian.Members(in.run.config.ProcRoot, pids), nil
}

func send(p guardian.Process, s syscall.Signal) error {
	err := unix.Kill(p.PID, s)
	if errors.Is(err, unix.ESRCH) {
		return nil // it has ended
	}
	return os.NewSyscallError("kill", err)
}

// PID is the id of an instance's first process; 0 while there is none because
// the instance was ended on purpose, and if there is no such instance.
func (r *Running) PID(name string) int {
	in := r.instance(name)
	if in == nil {
		return 0
	}
	l := in.current()
	if l == nil || l.asked.Load() {
		return 0
	}
	return l.process.PID
}

// Exec runs a command as an instance would: with its environment, its user and
// its directory, but outside of its control group, whose CPU it must not use.
// Variables in the command are filled in as in a Compose file, with the
// driver's among them (${REDIS_HOST:-redis}). It returns the last of what the
// command wrote, and an error if it fails or takes longer than within.
func (r *Running) Exec(ctx context.Context, name string, argv []string, within time.Duration) (said string, err error) {
	ctx, done, err := r.acts.Begin(ctx)
	if err != nil {
		return "", err
	}
	defer done()
	in := r.instance(name)
	if in == nil {
		return "", fmt.Errorf("there is no instance %s", name)
	}
	vars := maps.Clone(r.config.Env)
	if vars == nil {
		vars = map[string]string{}
	}
	maps.Copy(vars, in.service.Environment)
	maps.Copy(vars, in.variables())
	command, err := fillIn(argv, vars)
	if err != nil {
		return "", err
	}
	return in.aside(ctx, command, within)
}

func fillIn(argv []string, vars map[string]string) ([]string, error) {
	out := make([]string, len(argv))
	for i, arg := range argv {
		text, err := template.SubstituteWithOptions(arg, func(name string) (string, bool) {
			value, ok := vars[name]
			return value, ok
		}, template.WithoutLogging)
		if err != nil {
			return nil, fmt.Errorf("fill in %q: %w", arg, err)
		}
		out[i] = text
	}
	if len(out) == 0 || out[0] == "" {
		return nil, errors.New("no program is given")
	}
	return out, nil
}

// CheckExec says whether Exec could run a command for a service of a system
// that is not up yet: whether its variables are well written and its program is
// there. env is the lab's environment.
func CheckExec(s *topology.System, service string, argv []string, env map[string]string) error {
	known, ok := s.Service(service)
	if !ok {
		return fmt.Errorf("there is no service %s", service)
	}
	vars := maps.Clone(env)
	if vars == nil {
		vars = map[string]string{}
	}
	maps.Copy(vars, known.Environment)
	command, err := fillIn(argv, vars)
	if err != nil {
		return err
	}
	path := known.Environment["PATH"]
	if path == "" {
		path = env["PATH"]
	}
	if path == "" {
		path = defaultPath
	}
	_, err = (&Running{config: Config{System: s, Self: topology.Self, Env: env}}).find(command[0], path)
	return err
}
