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
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"loadstone/lab/host/cgroup"
)

// keptWithin bounds the end of a keeper: it writes a few files.
const keptWithin = 5 * time.Second

// kept is a line to the keeper: what a limit was before it was changed.
type kept struct {
	Group cgroup.Paths `json:"group"`
	// Cores is 0 if it had no limit, and is made to stand still instead.
	Cores  float64       `json:"cores"`
	Period time.Duration `json:"period"`
}

// keeperPipe is the agent's side of its keeper.
type keeperPipe struct {
	cmd  *exec.Cmd
	pipe io.WriteCloser
}

// startKeeper starts argv in a session of its own, so that nothing that ends the agent
// ends it as well.
func startKeeper(ctx context.Context, argv []string) (*keeperPipe, error) {
	if len(argv) == 0 {
		return nil, errors.New("agent: no program is given for its keeper")
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), argv[0], argv[1:]...) //nolint:gosec // it is this program
	cmd.Dir, cmd.Env, cmd.Stderr = "/", []string{}, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	pipe, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("agent: start its keeper: %w", err)
	}
	return &keeperPipe{cmd: cmd, pipe: pipe}, nil
}

func (k *keeperPipe) tell(what kept) error {
	line, err := json.Marshal(what)
	if err == nil {
		_, err = k.pipe.Write(append(line, '\n'))
	}
	if err != nil {
		return fmt.Errorf("agent: tell its keeper: %w", err)
	}
	return nil
}

// close lets the keeper restore what it knows of and waits for its end.
func (k *keeperPipe) close() error {
	err := k.pipe.Close()
	kill := time.AfterFunc(keptWithin, func() { _ = k.cmd.Process.Kill() })
	defer kill.Stop()
	return errors.Join(err, k.cmd.Wait())
}

// Keep is the keeper's program: it reads what limits were until in ends, and then restores
// them. A control group that is gone needs nothing. Only the end of in ends it.
func Keep(in io.Reader) error {
	var all []kept
	var errs []error
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var k kept
		if err := json.Unmarshal(lines.Bytes(), &k); err != nil {
			errs = append(errs, fmt.Errorf("a line that is none (%.80q): %w", lines.Text(), err))
			continue
		}
		all = append(all, k)
	}
	errs = append(errs, lines.Err())
	for _, k := range all {
		errs = append(errs, k.restore())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("restore limits: %w", err)
	}
	return nil
}

// restore gives the group its share, and has what stands still go on.
func (k kept) restore() error {
	group, err := cgroup.Open(k.Group)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if k.Cores > 0 {
		return errors.Join(group.SetCPU(cgroup.CPU{Cores: k.Cores, Period: k.Period}), group.Close())
	}
	pids, err := group.Procs()
	errs := []error{err, group.Close()}
	for _, pid := range pids {
		if err := unix.Kill(pid, unix.SIGCONT); !errors.Is(err, unix.ESRCH) {
			errs = append(errs, os.NewSyscallError("kill", err))
		}
	}
	return errors.Join(errs...)
}
