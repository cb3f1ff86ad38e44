package process

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"loadstone/lab/driver/guardian"
	"loadstone/lab/host/cgroup"
	"loadstone/lab/topology"
)

// drainWithin bounds the reading of what an instance has written before its
// end. All of it is in the pipe already; only a descendant that holds the pipe
// open makes it take longer, and those are killed.
const drainWithin = time.Second

// instance is one copy of a service. Its fields are set by the goroutine that
// starts it, before others get to see it, but for those below mu.
type instance struct {
	run     *Running
	service topology.Service // resolved for this instance once it starts
	index   int
	name    string
	host    string

	// dir and env are what a recipe gives it; empty without one.
	dir string
	env map[string]string

	group *cgroup.Group // nil where no groups can be made
	log   *instanceLog

	changing sync.Mutex // held by whoever kills, stops, pauses or starts it

	mu        sync.Mutex // guards all below
	life      *life      // the latest; nil until it is started
	paused    bool
	startedAt time.Time
	readyAt   time.Time
}

// life is one run of an instance's process. An instance has more than one if it
// is started again.
type life struct {
	cmd     *exec.Cmd
	process guardian.Process // zero if it ended before it could be identified

	// asked says that its end is meant: it is no failure.
	asked  atomic.Bool
	exited chan struct{} // closed when it has ended and its log is complete
	err    error         // why it ended badly; for after exited is closed
}

// current is the instance's latest life; nil before its first.
func (in *instance) current() *life {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.life
}

// ExitError is an instance that ended while it should run, or a job that ended
// badly.
type ExitError struct {
	Instance string
	Job      bool
	// Status is what ended it: "exited with status 3", "was killed by SIGSEGV".
	Status string
	// Memory is its limit in bytes if using that up is why the kernel killed
	// it; 0 if that is not why.
	Memory uint64
	// Log are its last lines, LogFile the rest.
	Log     []string
	LogFile string
}

func (e *ExitError) Error() string {
	text := fmt.Sprintf("%s %s", e.Instance, e.Status)
	switch {
	case e.Memory > 0:
		text += fmt.Sprintf(", because it had used up its memory limit of %d MiB", e.Memory>>20)
	case !e.Job:
		text += " while it should run (a service that is meant to end needs another one that waits for it with `condition: service_completed_successfully`)"
	}
	return text + lastLines(e.Log, e.LogFile)
}

func lastLines(lines []string, file string) string {
	if len(lines) == 0 {
		return fmt.Sprintf("; it wrote nothing to its log (%s)", file)
	}
	const indent = "\n    "
	return fmt.Sprintf("; its last lines (of %s):%s%s", file, indent, strings.Join(lines, indent))
}

// variables are those that the driver sets for this instance.
func (in *instance) variables() map[string]string {
	vars := maps.Clone(in.run.vars)
	vars[topology.BindHost] = in.host
	return vars
}

// start resolves the service for this instance and starts it.
func (in *instance) start(ctx context.Context) error {
	vars := in.variables()
	system, err := in.run.config.System.Resolve(ctx, vars)
	if err != nil {
		return err
	}
	service, ok := system.Service(in.service.Name)
	if !ok {
		return fmt.Errorf("start %s: its service is gone once its variables are set", in.name)
	}
	in.service = service
	in.run.asImage(&in.service)
	if err := in.run.makeGroup(in); err != nil {
		return err
	}
	in.log, err = newLog(filepath.Join(in.run.config.LogDir, in.name+".log"), in.run.config.LogBytes)
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
	if err != nil && in.current() == nil { // else wait closes its log
		err = errors.Join(err, in.abandon(ctx, out))
	}
	if err != nil {
		return fmt.Errorf("start %s: %w", in.name, err)
	}
	return nil
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
	if len(in.service.Command) > 0 {
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
		errs = append(errs, errors.New(strings.TrimPrefix(lastLines(in.log.lines(), in.log.path), "; ")))
	}
	return errors.Join(append(errs, in.log.close())...)
}

// launch starts the process and the goroutine that waits for its end.
func (in *instance) launch(ctx context.Context, out *output) error {
	cmd, err := in.run.command(ctx, in, in.service.Command)
	if err != nil {
		return err
	}
	if in.group != nil {
		if err := in.group.Enter(cmd, in.run.config.Shim); err != nil {
			return err
		}
	}
	cmd.Stdout, cmd.Stderr = out.w, out.w
	if err := errors.Join(in.run.starter.start(cmd), out.w.Close()); err != nil {
		return err
	}
	l := &life{cmd: cmd, exited: make(chan struct{})}
	// Before anybody waits for it: until then its pid cannot be another's.
	l.process, err = guardian.Identify(in.run.config.ProcRoot, cmd.Process.Pid)
	in.mu.Lock()
	in.life, in.startedAt, in.readyAt = l, time.Now(), time.Time{}
	in.mu.Unlock()
	in.run.waits.Add(1)
	go in.wait(context.WithoutCancel(ctx), l, out) // it ends with the process, not with Up
	if errors.Is(err, os.ErrNotExist) {
		return nil // it has ended already, which wait reports
	}
	if err != nil {
		return err
	}
	return in.run.guard.Group(l.process)
}

// wait owns the process from its start to its end.
func (in *instance) wait(ctx context.Context, l *life, out *output) {
	defer in.run.waits.Done()
	err := l.cmd.Wait()
	// Its descendants end with it, as they would with a container.
	errKill := in.killRest(ctx, l)
	out.drain()
	l.err = in.judge(l, err)
	if errLog := errors.Join(errKill, in.log.close()); errLog != nil {
		in.run.warnf("%s: %v", in.name, errLog)
	}
	close(l.exited)
	if l.err != nil && !in.service.Job && !l.asked.Load() && !in.run.acts.Over() {
		select {
		case in.run.failed <- l.err: // has room for every instance once
		default: // whoever starts instances again and again does not read it
			in.run.warnf("%v", l.err)
		}
		in.run.abort(l.err)
	}
}

// judge turns the end of the process into an error, unless it is a job's good
// end.
func (in *instance) judge(l *life, err error) error {
	state := l.cmd.ProcessState
	if in.service.Job && err == nil {
		return nil
	}
	e := &ExitError{
		Instance: in.name, Job: in.service.Job, Log: in.log.lines(), LogFile: in.log.path,
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
	var stat cgroup.Stat
	if limit := in.service.Limits.Memory; limit != nil && in.group != nil && in.group.Read(&stat) == nil && stat.OOMKills > 0 {
		e.Memory = *limit
	}
	return e
}

// killRest ends what is left of the instance at once.
func (in *instance) killRest(ctx context.Context, l *life) error {
	if in.group != nil {
		return in.group.Kill(ctx)
	}
	err := unix.Kill(-l.cmd.Process.Pid, unix.SIGKILL)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EPERM) {
		return nil // EPERM: all that is left has ended and waits to be waited for
	}
	return err
}

// stop asks the instance to end, gives it the time that its service grants, and
// kills it. When ctx ends, there is no more time.
func (in *instance) stop(ctx context.Context) error {
	l := in.current()
	if l == nil || l.hasEnded() {
		return nil
	}
	// What is paused takes no signal but SIGKILL.
	if err := in.resume(l); err != nil {
		return fmt.Errorf("stop %s: %w", in.name, err)
	}
	if err := l.cmd.Process.Signal(in.service.StopSignal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", in.name, err)
	}
	grace := time.NewTimer(in.service.StopGrace)
	defer grace.Stop()
	select {
	case <-l.exited:
		return nil
	case <-grace.C:
		in.run.warnf("%s did not end within %v of %s and was killed", in.name, in.service.StopGrace, unix.SignalName(in.service.StopSignal))
	case <-ctx.Done():
	}
	return in.kill(ctx, l)
}

// kill ends the instance at once, with all that it started, and waits for it.
func (in *instance) kill(ctx context.Context, l *life) error {
	if in.group == nil {
		// Some have sessions of their own, and are found only while the first
		// process lives.
		members, err := in.members(l)
		if err != nil {
			return fmt.Errorf("stop %s: %w", in.name, err)
		}
		for _, m := range members {
			if err := send(m.Process, unix.SIGKILL); err != nil {
				return fmt.Errorf("stop %s: %w", in.name, err)
			}
		}
	}
	if err := in.killRest(context.WithoutCancel(ctx), l); err != nil {
		return fmt.Errorf("stop %s: %w", in.name, err)
	}
	<-l.exited // a killed process ends; see cgroup for how long that may take
	return nil
}

// hasEnded says whether the process has ended and its log is complete.
func (l *life) hasEnded() bool {
	select {
	case <-l.exited:
		return true
	default:
		return false
	}
}

// describe is the instance as the rest of the lab sees it.
func (in *instance) describe() topology.Instance {
	in.mu.Lock()
	defer in.mu.Unlock()
	d := topology.Instance{
		Service: in.service.Name, Index: in.index, Name: in.name, Host: in.host,
		Port: in.service.Port, StartedAt: in.startedAt, ReadyAt: in.readyAt,
		Resources: in.service.Resources,
	}
	if in.life != nil {
		d.PID = in.life.process.PID
	}
	if cpus := in.service.Limits.CPUs; cpus != nil {
		d.LimitCPUs, d.Enforced = *cpus, in.group != nil
	}
	if port := in.service.Labels["prometheus.io/port"]; port != "" {
		path := in.service.Labels["prometheus.io/path"]
		if path == "" {
			path = "/metrics"
		}
		d.MetricsURL = "http://" + net.JoinHostPort(in.host, port) + path
	}
	return d
}

func (in *instance) setReady() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.readyAt = time.Now()
}
