package cgroup

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Enter arranges that cmd, which must not be started yet, is in the group
// before it runs the first instruction of its own program.
//
// Version 2 has the kernel do it: the process is made in the group. Version 1
// cannot (and neither can Linux before 5.7), so there cmd is changed to run
// shim first, with arguments that say which groups to join and what to run
// then. shim is the argv prefix of a program that hands the arguments after
// that prefix to JoinAndExec, such as this one with a hidden subcommand. It
// costs one exec; what that uses is spent before the join and so is not the
// group's.
//
// The group's Close or Remove must not come before cmd.Start.
func (g *Group) Enter(cmd *exec.Cmd, shim []string) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	if g.paths.Version == 2 && kernelAtLeast(5, 7) {
		fd, err := g.dir()
		if err != nil {
			return err
		}
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, fd
		return nil
	}
	return g.enterByShim(cmd, shim)
}

// dir is a descriptor of the group's directory, opened once.
func (g *Group) dir() (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.dirFile == nil {
		f, err := os.Open(g.paths.CPU)
		if err != nil {
			return -1, fmt.Errorf("enter control group: %w", err)
		}
		g.dirFile = f
	}
	return int(g.dirFile.Fd()), nil
}

func (g *Group) enterByShim(cmd *exec.Cmd, shim []string) error {
	if len(shim) == 0 {
		return errors.New("enter control group: this machine needs a shim to join groups, and none is given")
	}
	dirs := g.paths.Dirs()
	args := append([]string{}, shim...)
	args = append(args, strconv.Itoa(len(dirs)))
	args = append(args, dirs...)
	// The shim has to write to the groups as the user it was started by, and
	// become the other user after that.
	args = append(args, credential(cmd.SysProcAttr.Credential))
	cmd.SysProcAttr.Credential = nil
	// The kernel keeps a death signal for the thread that asked for it, and
	// the shim may call exec from another one; so the shim asks again.
	args = append(args, strconv.Itoa(int(cmd.SysProcAttr.Pdeathsig)), strconv.Itoa(os.Getpid()))
	args = append(args, cmd.Path)
	args = append(args, cmd.Args...)
	path, err := exec.LookPath(shim[0])
	if err != nil {
		return fmt.Errorf("enter control group: find the shim: %w", err)
	}
	cmd.Path, cmd.Args = path, args
	return nil
}

// credential writes c as uid:gid:group,group; empty for nil.
func credential(c *syscall.Credential) string {
	if c == nil {
		return ""
	}
	groups := make([]string, len(c.Groups))
	for i, g := range c.Groups {
		groups[i] = strconv.FormatUint(uint64(g), 10)
	}
	return fmt.Sprintf("%d:%d:%s", c.Uid, c.Gid, strings.Join(groups, ","))
}

func parseCredential(s string) (*syscall.Credential, error) {
	if s == "" {
		return nil, nil
	}
	parts := strings.Split(s, ":")
	if len(parts) != 3 {
		return nil, fmt.Errorf("credential %q: expected uid:gid:groups", s)
	}
	var ids []uint32
	fields := parts[:2]
	if parts[2] != "" {
		fields = append(fields, strings.Split(parts[2], ",")...)
	}
	for _, f := range fields {
		id, err := strconv.ParseUint(f, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("credential %q: %w", s, err)
		}
		ids = append(ids, uint32(id))
	}
	return &syscall.Credential{Uid: ids[0], Gid: ids[1], Groups: ids[2:]}, nil
}

// JoinAndExec is the program of the shim (see Group.Enter): args are what
// follows its argv prefix, env is the environment of the program to run. It
// puts this process into the groups and then becomes that program; so it
// returns only when something failed.
func JoinAndExec(args, env []string) error {
	dirs, rest, err := cutDirs(args)
	if err != nil {
		return fmt.Errorf("join control groups: %w", err)
	}
	if len(rest) < 5 {
		return errors.New("join control groups: no program to run")
	}
	cred, err := parseCredential(rest[0])
	if err != nil {
		return fmt.Errorf("join control groups: %w", err)
	}
	for _, dir := range dirs {
		// 0 stands for the process that writes.
		if err := write(filepath.Join(dir, "cgroup.procs"), "0"); err != nil {
			return fmt.Errorf("join control groups: %w", err)
		}
	}
	if cred != nil {
		if err := become(cred); err != nil {
			return err
		}
	}
	// The thread that asks for the death signal must be the one that calls
	// exec. It is asked for last: a change of the user takes it back.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := dieWithParent(rest[1], rest[2]); err != nil {
		return err
	}
	//nolint:gosec // becoming the program that it is told is what the shim is for
	if err := syscall.Exec(rest[3], rest[4:], env); err != nil {
		return fmt.Errorf("run %s: %w", rest[3], err)
	}
	return nil
}

// dieWithParent has the kernel send a signal to this process when the thread
// that started it ends. 0 asks for none.
func dieWithParent(signal, parent string) error {
	sig, errSignal := strconv.ParseUint(signal, 10, 8)
	pid, errParent := strconv.Atoi(parent)
	if err := errors.Join(errSignal, errParent); err != nil {
		return fmt.Errorf("die with the parent: %w", err)
	}
	if sig == 0 {
		return nil
	}
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(sig), 0, 0, 0); err != nil {
		return fmt.Errorf("die with the parent: %w", err)
	}
	if os.Getppid() != pid {
		return errors.New("the parent has died already")
	}
	return nil
}

func cutDirs(args []string) (dirs, rest []string, err error) {
	if len(args) == 0 {
		return nil, nil, errors.New("no arguments")
	}
	n, err := strconv.Atoi(args[0])
	if err != nil || n < 0 || n > len(args)-1 {
		return nil, nil, fmt.Errorf("%q is not the number of groups that follow", args[0])
	}
	return args[1 : 1+n], args[1+n:], nil
}

func become(c *syscall.Credential) error {
	groups := make([]int, len(c.Groups))
	for i, g := range c.Groups {
		groups[i] = int(g)
	}
	// The user last: after it there is no right to change the groups.
	if err := syscall.Setgroups(groups); err != nil {
		return fmt.Errorf("set groups %v: %w", groups, err)
	}
	if err := syscall.Setgid(int(c.Gid)); err != nil {
		return fmt.Errorf("become group %d: %w", c.Gid, err)
	}
	if err := syscall.Setuid(int(c.Uid)); err != nil {
		return fmt.Errorf("become user %d: %w", c.Uid, err)
	}
	return nil
}

// kernelAtLeast compares the running kernel's version.
func kernelAtLeast(major, minor int) bool {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return false
	}
	return releaseAtLeast(unix.ByteSliceToString(u.Release[:]), major, minor)
}

func releaseAtLeast(release string, major, minor int) bool {
	parts := strings.FieldsFunc(release, func(r rune) bool { return r < '0' || r > '9' })
	if len(parts) < 2 {
		return false
	}
	a, errA := strconv.Atoi(parts[0])
	b, errB := strconv.Atoi(parts[1])
	if errA != nil || errB != nil {
		return false
	}
	return a > major || a == major && b >= minor
}
