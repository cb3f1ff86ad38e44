package process

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"loadstone/lab/driver"
	"loadstone/lab/driver/guardian"
	"loadstone/lab/driver/process/network"
	"loadstone/lab/host/cgroup"
	"loadstone/lab/topology"
)

// drainWithin bounds the reading of what an instance has written before its
// end. All of it is in the pipe already; only a descendant that holds the pipe
// open makes it take longer, and those are killed.
const drainWithin = time.Second

// instance is one copy of a service. Its own fields are set by the goroutine that
// starts it, before others get to see it, but for paused.
type instance struct {
	driver.Instance // Service is resolved for this instance once it starts

	run     *Running
	service string // its name, which does not change
	host    string
	// space is its network, where it has one of its own; nil on a loopback address.
	space *network.Space

	// dir and env are what a recipe gives it; empty without one.
	dir string
	env map[string]string

	// before are the sockets that listened on its port before it started.
	before map[string]netip.AddrPort

	group *cgroup.Group // nil where no groups can be made
	log   *instanceLog

	paused atomic.Bool
}

// Variables are those that the driver sets for this instance.
func (in *instance) Variables() map[string]string {
	vars := maps.Clone(in.run.vars)
	vars[topology.BindHost] = in.host
	return vars
}

// Start resolves the service for this instance and starts it.
func (in *instance) Start(ctx context.Context) error {
	vars := in.Variables()
	system, err := in.run.config.System.Resolve(ctx, vars)
	if err != nil {
		return err
	}
	service, ok := system.Service(in.Service.Name)
	if !ok {
		return errors.New("its service is gone once its variables are set")
	}
	in.Service = service
	in.run.asImage(&in.Service)
	if err := in.enterNetwork(); err != nil {
		return err
	}
	if err := in.claimPort(ctx); err != nil {
		return err
	}
	if err := in.run.makeGroup(in); err != nil {
		return err
	}
	in.log, err = newLog(filepath.Join(in.run.config.LogDir, in.Name+".log"), in.run.config.LogBytes)
	if err != nil {
		return err
	}
	out, err := in.openOutput()
	if err == nil {
		err = in.prepare(ctx, out)
	}
	if err == nil {
		err = in.launch(ctx, out)
	}
	if err != nil && in.Life() == nil { // else wait closes its log
		err = errors.Join(err, in.abandon(ctx, out))
	}
	return err
}

// output is the pipe through which an instance writes its log.
type output struct {
	r, w   *os.File
	copied chan struct{} // closed when all that was written is in the log
}

// openOutput makes the pipe and the goroutine that empties it, which ends when
// its reader is closed or has a deadline.
func (in *instance) openOutput() (*output, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out := &output{r: r, w: w, copied: make(chan struct{})}
	go func() {
		defer close(out.copied)
		copyLog(in.log, r)
	}()
	return out, nil
}

// drain waits until what was written is in the log, and closes the reader.
func (o *output) drain() {
	_ = o.r.SetReadDeadline(time.Now().Add(drainWithin))
	<-o.copied
	_ = o.r.Close() // nothing was written through it
}

// prepare follows the recipe of the service's image, if it has one.
func (in *instance) prepare(ctx context.Context, out *output) error {
	if len(in.Service.Command) > 0 {
		return nil
	}
	return in.followRecipe(ctx, out.w)
}

// abandon ends what the preparation of an instance has left, and adds what it
// said to the error.
func (in *instance) abandon(ctx context.Context, out *output) error {
	var errs []error
	if in.group != nil {
		errs = append(errs, in.group.Kill(context.WithoutCancel(ctx)))
	}
	if out != nil {
		_ = out.w.Close() // may have been closed
		out.drain()
	}
	if in.dir != "" && ctx.Err() == nil && len(in.log.lines()) > 0 {
		errs = append(errs, errors.New(strings.TrimPrefix(in.LastLines(ctx), "; ")))
	}
	return errors.Join(append(errs, in.log.close())...)
}

// launch starts the process and the goroutine that waits for its end.
func (in *instance) launch(ctx context.Context, out *output) error {
	cmd, err := in.run.command(ctx, in, in.Service.Command)
	if err != nil {
		return err
	}
	if in.group != nil {
		if err := in.group.Enter(cmd, in.run.config.Shim); err != nil {
			return err
		}
	}
	cmd.Stdout, cmd.Stderr = out.w, out.w
	if err := errors.Join(in.start(cmd), out.w.Close()); err != nil {
		return err
	}
	l := driver.NewLife()
	l.Cmd = cmd
	// Before anybody waits for it: until then its pid cannot be another's.
	l.Process, err = guardian.Identify(in.run.config.ProcRoot, cmd.Process.Pid)
	in.Begin(l, driver.Place{Host: in.host, Port: in.Service.Port, PID: l.Process.PID, Group: in.group, Enforced: in.group != nil, OwnNetwork: in.space != nil}, time.Now())
	in.run.waits.Add(1)
	go in.wait(context.WithoutCancel(ctx), l, out) // it ends with the process, not with Up
	if errors.Is(err, os.ErrNotExist) {
		return nil // it has ended already, which wait reports
	}
	if err != nil {
		return err
	}
	return in.run.guard.Group(l.Process)
}

// wait owns the process from its start to its end.
func (in *instance) wait(ctx context.Context, l *driver.Life, out *output) {
	defer in.run.waits.Done()
	err := l.Cmd.Wait()
	// Its descendants end with it, as they would with a container.
	errKill := in.killRest(ctx, l)
	out.drain()
	err = in.exitError(l, err)
	if errLog := errors.Join(errKill, in.log.close()); errLog != nil {
		in.run.Warnf("%s: %v", in.Name, errLog)
	}
	in.End(l, err)
}

// exitError is the end of the process as an error, unless it is a job's good end.
func (in *instance) exitError(l *driver.Life, err error) error {
	state := l.Cmd.ProcessState
	if in.Service.Job && err == nil {
		return nil
	}
	e := &driver.ExitError{
		Instance: in.Name, Job: in.Service.Job, Log: in.log.lines(), LogFile: in.log.path,
		Status: "ended: " + fmt.Sprint(err),
	}
	if state == nil {
		return e
	}
	ws, ok := state.Sys().(syscall.WaitStatus)
	switch {
	case ok && ws.Signaled():
		e.Status = "was killed by " + unix.SignalName(ws.Signal())
	case ok:
		e.Status = "exited with status " + strconv.Itoa(ws.ExitStatus())
	}
	if !in.Service.Job && !in.WasReady() {
		e.Why = in.Stranger()
	}
	var stat cgroup.Stat
	if limit := in.Service.Limits.Memory; limit != nil && in.group != nil && in.group.Read(&stat) == nil && stat.OOMKills > 0 {
		e.Memory = *limit
	}
	return e
}

// killRest ends what is left of the instance at once.
func (in *instance) killRest(ctx context.Context, l *driver.Life) error {
	if in.group != nil {
		return in.group.Kill(ctx)
	}
	err := unix.Kill(-l.Cmd.Process.Pid, unix.SIGKILL)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EPERM) {
		return nil // EPERM: all that is left has ended and waits to be waited for
	}
	return err
}

// Stop sends the stop signal, and kills what has not ended after the grace period.
func (in *instance) Stop(ctx context.Context, l *driver.Life) error {
	// What is paused takes no signal but SIGKILL.
	if err := in.Resume(ctx, l); err != nil {
		return err
	}
	if err := l.Cmd.Process.Signal(in.Service.StopSignal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	grace := time.NewTimer(in.Service.StopGrace)
	defer grace.Stop()
	select {
	case <-l.Exited():
		return nil
	case <-grace.C:
		in.run.Warnf("%s did not end within %v of %s and was killed", in.Name, in.Service.StopGrace, unix.SignalName(in.Service.StopSignal))
	case <-ctx.Done():
	}
	return in.Kill(ctx, l)
}

// Kill ends the instance at once, with all that it started, and waits for it.
func (in *instance) Kill(ctx context.Context, l *driver.Life) error {
	in.paused.Store(false)
	if in.group == nil {
		// Some have sessions of their own, and are found only while the first
		// process lives.
		members, err := in.members(l)
		if err != nil {
			return err
		}
		for _, m := range members {
			if err := send(m.Process, unix.SIGKILL); err != nil {
				return err
			}
		}
	}
	if err := in.killRest(context.WithoutCancel(ctx), l); err != nil {
		return err
	}
	<-l.Exited() // a killed process ends; see cgroup for how long that may take
	return nil
}

// LastLines are those of the log.
func (in *instance) LastLines(context.Context) string {
	return driver.LastLines(in.log.lines(), in.log.path)
}
