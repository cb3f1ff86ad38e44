package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"loadstone/lab/host/cgroup"
)

// keptWithin bounds the end of a keeper: it writes a few files.
const keptWithin = 5 * time.Second

// kept is what a limit was before it was changed.
type kept struct {
	group *cgroup.Group
	// share is nil if it had no limit, and is made to stand still instead.
	share *cgroup.CPU
	lock  *os.File
}

// keeperPipe is the agent's side of its keeper. It belongs to one goroutine at a time.
type keeperPipe struct {
	cmd     *exec.Cmd
	pipe    io.WriteCloser
	answers *bufio.Reader
	told    bool // of a limit
}

// startKeeper starts argv in a session of its own, so that nothing that ends the agent
// ends it as well.
func startKeeper(ctx context.Context, argv []string) (*keeperPipe, error) {
	if len(argv) == 0 {
		return nil, errors.New("agent: no program is given for its keeper")
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), argv[0], argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stderr = "/", []string{}, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	pipe, err := cmd.StdinPipe()
	answers, errOut := cmd.StdoutPipe()
	if err = errors.Join(err, errOut); err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("agent: start its keeper: %w", err)
	}
	k := &keeperPipe{cmd: cmd, pipe: pipe, answers: bufio.NewReader(answers)}
	if err := k.await(); err != nil {
		return nil, errors.Join(err, k.close())
	}
	return k, nil
}

const (
	// keeperWithin bounds the keeper's start: half of startWithin, so that the lab hears why.
	keeperWithin = startWithin / 2
	// ready is what a keeper says when it begins to read.
	ready = "ready"
	// known is what it answers once it knows a limit; anything else is why it does not.
	known = "known"
)

// await returns when the keeper reads, so that no change of a limit has to wait for its start.
func (k *keeperPipe) await() error {
	late := time.AfterFunc(keeperWithin, func() { _ = k.cmd.Process.Kill() })
	defer late.Stop()
	line, err := k.answers.ReadString('\n')
	if err == nil && strings.TrimSpace(line) != ready {
		err = fmt.Errorf("it says %.80q, want %q", line, ready)
	}
	if err != nil {
		return fmt.Errorf("agent: start its keeper: %w", err)
	}
	return nil
}

// tell tells the keeper of a group whose limit is to be changed, and returns when it knows
// what that is.
func (k *keeperPipe) tell(group cgroup.Paths) error {
	k.told = true
	line, err := json.Marshal(group)
	if err == nil {
		_, err = k.pipe.Write(append(line, '\n'))
	}
	answer := ""
	if err == nil {
		answer, err = k.answers.ReadString('\n')
	}
	if err != nil {
		return fmt.Errorf("agent: tell its keeper: %w", err)
	}
	if answer = strings.TrimSpace(answer); answer != known {
		return errors.New(answer)
	}
	return nil
}

// beat has the keeper hear that the agent is there. It answers nothing.
func (k *keeperPipe) beat() error {
	_, err := io.WriteString(k.pipe, "\n")
	return err
}

// close lets the keeper restore what it knows of and waits for its end.
func (k *keeperPipe) close() error {
	err := k.pipe.Close()
	kill := time.AfterFunc(keptWithin, func() { _ = k.cmd.Process.Kill() })
	errEnd := k.cmd.Wait()
	if killed := !kill.Stop(); killed && !k.told {
		errEnd = nil // it had nothing to restore
	}
	return errors.Join(err, errEnd)
}

// Keep is the keeper's program: it says on out that it reads, reads of which groups the limits are to be changed, and
// answers on out that it knows what they are, until in ends, or nothing has come of it for keptFor; and then
// restores them. A group that is gone needs nothing. It leaves a goroutine that reads in, where that does not end.
func Keep(in io.Reader, out io.Writer) error { return keepFor(in, out, keptFor) }

func keepFor(in io.Reader, out io.Writer, bears time.Duration) error {
	signal.Ignore(syscall.SIGPIPE) // it must not end for an answer that nobody reads
	var all []kept
	heard, hear := io.Pipe()
	silence := time.AfterFunc(bears, func() {
		_ = hear.CloseWithError(fmt.Errorf("nothing was heard of the agent for %v; it is stopped", bears))
	})
	defer silence.Stop()
	go handOn(in, hear, func() { silence.Reset(bears) })
	lines := bufio.NewScanner(heard)
	_, _ = io.WriteString(out, ready+"\n") // who does not get it ends this
	for lines.Scan() {
		if len(lines.Bytes()) == 0 {
			continue // it is there
		}
		answer := known
		k, err := keep(lines.Bytes())
		if err == nil {
			all = append(all, k)
		} else {
			answer = strings.ReplaceAll(err.Error(), "\n", " ")
		}
		_, _ = io.WriteString(out, answer+"\n") // who does not get it changes nothing
	}
	errs := []error{lines.Err()}
	for _, k := range all {
		errs = append(errs, k.restore())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("restore limits: %w", err)
	}
	return nil
}

// keep finds out what the limit of a group is that nobody else changes, and has others
// keep off it.
func keep(line []byte) (k kept, err error) {
	var paths cgroup.Paths
	if err := json.Unmarshal(line, &paths); err != nil {
		return k, fmt.Errorf("a line that is none (%.80q): %w", line, err)
	}
	if k.lock, err = os.Open(paths.CPU); err != nil {
		return k, err
	}
	// The lock is that of this open file, and ends with this process.
	err = unix.Flock(int(k.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = errors.New("another lab is changing the limit of its control group; wait until that has ended")
	}
	if err == nil {
		k.group, err = cgroup.Open(paths)
	}
	if err != nil {
		return k, errors.Join(err, k.lock.Close())
	}
	if k.share, err = k.group.CPU(); err != nil {
		return k, errors.Join(err, k.group.Close(), k.lock.Close())
	}
	return k, nil
}

// restore gives the group its share, and has what stands still go on.
func (k kept) restore() error {
	var errs []error
	if k.share != nil {
		err := k.group.SetCPU(*k.share)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENODEV) {
			err = nil // the group is gone
		}
		errs = append(errs, err)
	} else {
		_, err := k.group.Signal(unix.SIGCONT)
		errs = append(errs, err)
	}
	return errors.Join(append(errs, k.group.Close(), k.lock.Close())...)
}
