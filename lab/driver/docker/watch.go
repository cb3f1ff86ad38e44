package docker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"loadstone/lab/driver"
)

// watch starts one `docker events` for the whole run and the goroutine that
// reads the ends of containers from it. It goes on until Down ends it.
func (r *Running) watch(ctx context.Context) error {
	// From before any container is started, because the command does not say
	// when it listens: the daemon replays what it has missed.
	since := strconv.FormatFloat(float64(time.Now().Add(-time.Second).UnixMilli())/1000, 'f', 3, 64)
	ctx, r.unwatch = context.WithCancel(context.WithoutCancel(ctx))
	cmd := r.docker.command(ctx, []string{
		r.docker.docker, "events", "--since", since,
		"--filter", "label=" + projectLabel + "=" + r.name, "--filter", "event=die", "--format", "{{json .}}",
	})
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		r.unwatch()
		return fmt.Errorf("watch the containers: %w", err)
	}
	r.watched = make(chan struct{})
	go func() {
		defer close(r.watched)
		errRead := r.readEnds(ctx, out)
		err := cmd.Wait()
		if ctx.Err() == nil {
			r.lost(fmt.Errorf("the Docker daemon is lost: what becomes of the containers cannot be seen any more: %w", errors.Join(err, errRead, io.ErrUnexpectedEOF)))
		}
	}()
	return nil
}

// event is what matters of a line of `docker events`.
type event struct {
	ID    string `json:"id"`
	Actor struct {
		Attributes struct {
			ExitCode string `json:"exitCode"`
		} `json:"Attributes"`
	} `json:"Actor"`
}

// readEnds handles the ends of containers until out ends.
func (r *Running) readEnds(ctx context.Context, out io.Reader) error {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return fmt.Errorf("read %.80q: %w", lines.Text(), err)
		}
		for _, in := range r.instances {
			if in.id == e.ID {
				in.ended(ctx, e.Actor.Attributes.ExitCode)
			}
		}
	}
	return lines.Err()
}

// lost reports that containers end without our knowing.
func (r *Running) lost(err error) {
	if !r.Stopping() {
		r.Fail(err)
	}
}

// ended handles the end of an instance.
func (in *instance) ended(ctx context.Context, exitCode string) {
	l := in.Life()
	if l == nil || l.HasEnded() {
		return // a container that somebody else has started again, and that ended again
	}
	lines, err := in.fetchLog(ctx)
	if err != nil {
		in.run.Warnf("%s: %v", in.Name, err)
	}
	err = in.exitError(ctx, exitCode, lines, l.Asked())
	if errGroup := in.LeaveGroup(); errGroup != nil {
		in.run.Warnf("%s: %v", in.Name, errGroup)
	}
	in.End(l, err)
}

// exitError is the end of a container as an error, unless it is a job's good end.
func (in *instance) exitError(ctx context.Context, exitCode string, lines []string, asked bool) error {
	if in.Service.Job && exitCode == "0" {
		return nil
	}
	e := &driver.ExitError{
		Instance: in.Name, Job: in.Service.Job, Log: lines, LogFile: in.logFile(), Status: "exited with status " + exitCode,
	}
	// Docker says 128 + the signal's number, as shells do. A program that exits
	// with such a status itself cannot be told from one that was killed.
	if code, err := strconv.Atoi(exitCode); err == nil && code > 128 && unix.SignalName(unix.Signal(code-128)) != "" {
		e.Status = "was killed by " + unix.SignalName(unix.Signal(code-128))
	}
	limit := in.Service.Limits.Memory
	if limit == nil || !e.Killed() {
		return e
	}
	switch {
	case in.usedUpMemory(ctx, asked):
		e.Memory = *limit
	case !asked:
		e.Why = driver.Unexplained("Docker", *limit)
	}
	return e
}

// usedUpMemory says whether Docker knows that this is why the container was killed. The news
// of it may come after that of its end; if that was asked for, nobody waits.
func (in *instance) usedUpMemory(ctx context.Context, asked bool) (known bool) {
	poll := driver.Poll{Within: driver.ReasonWithin, First: driver.ReasonWithin / 100, Last: driver.ReasonWithin / 20}
	if asked {
		poll.Within = 0
	}
	_, _ = poll.Until(ctx, nil, func(ctx context.Context) bool {
		i, err := in.inspect(ctx)
		known = err == nil && i.State.OOMKilled
		return known || err != nil
	})
	return known
}
