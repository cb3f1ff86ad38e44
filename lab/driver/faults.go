package driver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/compose-spec/compose-go/v2/template"

	"loadstone/lab/topology"
)

// What is done to a running system on purpose is here: an instance is killed,
// stopped, started again or paused, or a command runs in its place. The end of
// an instance that was asked for is no failure and not reported on Failed.
//
// Started again, an instance is the same one: its volumes and its log go on. Only
// its process is new, as with `docker compose kill` and `start`.

// change does something to one instance that runs, or, if that is wanted, to
// one that has ended. Two changes of one instance at a time are an
// error, since nobody could say what came of them.
func (c *Core) change(ctx context.Context, name, tried string, ended bool, do func(context.Context, *Instance, *Life) error) error {
	ctx, done, err := c.acts.Begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	in, err := c.instance(name)
	if err != nil {
		return err
	}
	if !in.changing.TryLock() {
		return fmt.Errorf("%s is being changed already", name)
	}
	defer in.changing.Unlock()
	l := in.Life()
	switch {
	case l == nil:
		err = errors.New("it was never started")
	case ended && !l.Asked() && !l.HasEnded():
		err = errors.New("it has not ended")
	case ended:
		err = do(ctx, in, l)
	case l.Asked():
		err = errors.New("it is stopped")
	case l.HasEnded():
		err = fmt.Errorf("it has ended by itself: %w", l.Err())
	default:
		err = do(ctx, in, l)
	}
	return in.wrap(tried, err)
}

// Kill ends an instance with SIGKILL, all of its processes at once, and returns
// when they are gone.
func (c *Core) Kill(ctx context.Context, instance string) error {
	return c.change(ctx, instance, "kill", false, func(ctx context.Context, in *Instance, l *Life) error {
		l.asked.Store(true)
		return in.Actions.Kill(ctx, l)
	})
}

// Stop ends an instance as Down does: with its stop signal, and SIGKILL if it
// has not ended within its grace period or when ctx ends.
func (c *Core) Stop(ctx context.Context, instance string) error {
	return c.change(ctx, instance, "stop", false, func(ctx context.Context, in *Instance, l *Life) error {
		l.asked.Store(true)
		return in.Actions.Stop(ctx, l)
	})
}

// Start starts an instance again that Kill or Stop has ended, or that has ended
// by itself. launched is when its process began, and zero if it could not. Start
// returns when the instance is ready, as Up would, and when ctx ends before that:
// the instance then goes on as it is. If it ends again before it is ready, that is
// the error, and Failed gets it too.
func (c *Core) Start(ctx context.Context, instance string) (launched time.Time, err error) {
	var in *Instance
	err = c.change(ctx, instance, "start", true, func(ctx context.Context, i *Instance, _ *Life) error {
		in = i
		return in.Actions.StartAgain(ctx)
	})
	if err != nil {
		return time.Time{}, err
	}
	ctx, done, err := c.acts.Begin(ctx)
	if err != nil {
		return time.Time{}, err
	}
	defer done()
	return in.describe().StartedAt, in.awaitReady(ctx)
}

// Pause has every process of an instance stand still until Resume: it
// neither answers nor refuses. It returns when all of them do.
func (c *Core) Pause(ctx context.Context, instance string) error {
	return c.change(ctx, instance, "pause", false, func(ctx context.Context, in *Instance, l *Life) error {
		return in.Actions.Pause(ctx, l)
	})
}

// Resume lets a paused instance go on.
func (c *Core) Resume(ctx context.Context, instance string) error {
	return c.change(ctx, instance, "resume", false, func(ctx context.Context, in *Instance, l *Life) error {
		return in.Actions.Resume(ctx, l)
	})
}

// Exec runs a command as an instance would: with its environment, its user and
// its directory. Variables in the command are filled in as in a Compose file, with
// the driver's among them (${REDIS_HOST:-redis}). It returns the last of what the
// command wrote, and an error if it fails or takes longer than within.
func (c *Core) Exec(ctx context.Context, instance string, argv []string, within time.Duration) (said string, err error) {
	ctx, done, err := c.acts.Begin(ctx)
	if err != nil {
		return "", err
	}
	defer done()
	in, err := c.instance(instance)
	if err != nil {
		return "", err
	}
	command, err := FillIn(argv, c.env, in.Service.Environment, in.Actions.Variables())
	if err != nil {
		return "", err
	}
	return in.Actions.Run(ctx, command, within)
}

// FillIn fills in the variables of a command; later ones win.
func FillIn(argv []string, variables ...map[string]string) ([]string, error) {
	vars := map[string]string{}
	for _, v := range variables {
		maps.Copy(vars, v)
	}
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

// ExecCommand is the command that Exec would run for a service of a system that
// is not up yet, as far as its variables are known. env is the lab's environment.
func ExecCommand(s *topology.System, service string, argv []string, env map[string]string) ([]string, topology.Service, error) {
	known, ok := s.Service(service)
	if !ok {
		return nil, known, fmt.Errorf("there is no service %s", service)
	}
	command, err := FillIn(argv, env, known.Environment)
	return command, known, err
}

// Fault is what an experiment wants to be done to instances of a service. A driver says in
// CheckFault what keeps it from that, before the system is up.
type Fault struct {
	Service string
	Action  string   // kill, stop, pause or exec
	Command []string // of exec; nil for the others
	// Renewed says that load is offered to the service directly, and that of its instances which
	// run after this fault none is left that no fault has ended.
	Renewed bool
}

// CheckFault says of a command whether its variables are well written. What programs an image has
// is not known before; the driver of local processes, which looks for them, has a CheckFault of its own.
func (s Settings) CheckFault(_ context.Context, system *topology.System, f Fault) error {
	if f.Command == nil {
		return nil
	}
	_, _, err := ExecCommand(system, f.Service, f.Command, s.Env)
	return err
}
