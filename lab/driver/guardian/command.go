package guardian

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"loadstone/block/pause"
)

const (
	// removeWithin bounds one Command. Docker kills and removes a container in
	// tenths of a second; this is for dozens of them on a machine that is busy.
	removeWithin = time.Minute
	// againAfter is the pause before a Command that has failed is run again, and againAtMost what it grows to.
	againAfter  = time.Second
	againAtMost = 30 * time.Second
	// inVain is the exit status of a Command that would fail for ever.
	inVain = 2
)

// Command is a program that removes what no signal can reach, such as
// containers. It is run in / and must bear to be run when nothing is left.
type Command struct {
	Argv []string `json:"argv"`
	Env  []string `json:"env"` // all of its environment
	// Again is for how long it is run again when it fails, unless with exit status 2: whom it asks may be away. 0 is
	// not at all.
	Again time.Duration `json:"again,omitempty"`
}

func (l *Left) runRemovals(ctx context.Context) error {
	var errs []error
	for _, c := range l.Removals {
		errs = append(errs, c.run(ctx))
	}
	return errors.Join(errs...)
}

// again is for how long removals may be run again, all in all.
func (l *Left) again() (sum time.Duration) {
	for _, c := range l.Removals {
		if c.Again > 0 {
			sum += c.Again + removeWithin
		}
	}
	return sum
}

func (c Command) run(ctx context.Context) error {
	wait := againAfter
	for end := time.Now().Add(c.Again); ; wait = min(2*wait, againAtMost) {
		err := c.once(ctx)
		exit, ended := errors.AsType[*exec.ExitError](err)
		if err == nil || ended && exit.ExitCode() == inVain || !time.Now().Before(end) || !pause.For(ctx, wait) {
			return err
		}
	}
}

func (c Command) once(ctx context.Context) error {
	if len(c.Argv) == 0 || !filepath.IsAbs(c.Argv[0]) {
		return fmt.Errorf("run %q: it names no program by its whole path", c.Argv)
	}
	ctx, cancel := context.WithTimeout(ctx, removeWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	cmd.Dir, cmd.Env = "/", append([]string{}, c.Env...) // not nil, which would be our own
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that its children end with it
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("run %s: %w: %s", c.Argv[0], err, bytes.TrimSpace(said.Bytes()))
	}
	return nil
}
