// Command leftovers runs a program and fails if the program leaves anything: a
// process, a file in the directory for temporary files, or state of Loadstone.
//
//	go test -exec leftovers ./...
//
// The program gets a TMPDIR and an XDG_STATE_HOME of its own, which must be empty at
// its end. Orphans among its descendants become children of this process, whatever
// they do to their session, group or environment. One that is left is named and
// killed.
//
// With -machine as the first argument it looks, instead of at processes, at what outlives
// all of them: files in a TMPDIR of its own, and of what the machine has before and after
// the control groups, mounts, root's state, and containers, volumes and networks of Docker
// that are Loadstone's by their names or labels. Others may use the machine meanwhile.
//
// The exit status is the program's, or 1 if that is 0 and something is left.
package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"loadstone/lab/host/procstat"
)

// patience is how long orphans may take to end by themselves.
const patience = 10 * time.Second

func main() {
	os.Exit(run(os.Args[1:])) //nolint:forbidigo // a program of its own
}

func run(args []string) int {
	check := private
	if len(args) > 0 && args[0] == "-machine" {
		check, args = machine, args[1:]
	}
	if len(args) == 0 {
		fmt.Fprintln(os.Stderr, "leftovers: say which program to run")
		return 2
	}
	status, left, err := check(args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "leftovers:", err)
		return 1
	}
	for _, l := range left {
		fmt.Fprintf(os.Stderr, "leftovers: %s left %s\n", filepath.Base(args[0]), l)
	}
	if status == 0 && len(left) > 0 {
		return 1
	}
	return status
}

// private runs a program with directories of its own and as the parent of its orphans.
func private(args []string) (status int, left []string, err error) {
	dir, err := tempDir()
	if err != nil {
		return 0, nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	env := os.Environ() //nolint:forbidigo // a program of its own
	for name, sub := range map[string]string{"TMPDIR": "t", "XDG_STATE_HOME": "s"} {
		sub = filepath.Join(dir, sub)
		if err := os.Mkdir(sub, 0o700); err != nil {
			return 0, nil, err
		}
		env = append(env, name+"="+sub)
	}
	// Servers with accounts of their own use it as they use /tmp.
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(filepath.Join(dir, "t"), 0o777|os.ModeSticky)); err != nil {
		return 0, nil, err
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 0, nil, fmt.Errorf("become the parent of orphans: %w", err)
	}
	if status, err = start(args, env); err != nil {
		return 0, nil, err
	}
	left = orphans()
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if rel, _ := filepath.Rel(dir, path); err == nil && strings.Contains(rel, "/") {
			left = append(left, "the file "+path)
			if d.IsDir() {
				return filepath.SkipDir
			}
		}
		return err
	})
	return status, left, err
}

// tempDir makes a directory whose path is short, because those of sockets below it have
// to be.
func tempDir() (string, error) {
	for {
		path := filepath.Join(os.TempDir(), "ls"+strconv.FormatUint(rand.Uint64N(36*36*36*36), 36))
		if err := os.Mkdir(path, 0o700); !errors.Is(err, os.ErrExist) {
			return path, err
		}
	}
}

// start runs a program to its end, and waits for orphans meanwhile: who asks whether
// one is gone is to hear so. Signals reach the program from the terminal, or from here.
func start(args, env []string) (status int, err error) {
	path, err := exec.LookPath(args[0])
	if err != nil {
		return 0, err
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	p, err := os.StartProcess(path, args, &os.ProcAttr{Env: env, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}}) //nolint:gosec // running it is what this is for
	if err != nil {
		return 0, err
	}
	go func() {
		for s := range signals {
			if s != syscall.SIGINT {
				_ = p.Signal(s) // it may have ended
			}
		}
	}()
	for {
		var how syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &how, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 0, fmt.Errorf("wait for %s: %w", path, err)
		case pid == p.Pid && how.Signaled():
			fmt.Fprintf(os.Stderr, "leftovers: %s: %v\n", filepath.Base(path), how.Signal())
			return 128 + int(how.Signal()), nil
		case pid == p.Pid:
			return how.ExitStatus(), nil
		}
	}
}

// orphans gives what is left of descendants time to end, then kills them, and tells
// which those were.
func orphans() (left []string) {
	for deadline := time.Now().Add(patience); reap(); time.Sleep(5 * time.Millisecond) {
		if time.Now().Before(deadline) {
			continue
		}
		for _, pid := range children() {
			line, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline")) // gone: nothing to tell
			if _ = syscall.Kill(pid, syscall.SIGKILL); len(line) > 0 {
				left = append(left, fmt.Sprintf("process %d: %s", pid, strings.ReplaceAll(strings.Trim(string(line), "\x00"), "\x00", " ")))
			}
		}
	}
	slices.Sort(left)
	return slices.Compact(left)
}

// reap waits for the children that have ended, and says whether there are others.
func reap() bool {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if pid <= 0 && !errors.Is(err, syscall.EINTR) {
			return err == nil
		}
	}
}

func children() (pids []int) {
	tasks, _ := filepath.Glob("/proc/self/task/*/children")
	for _, task := range tasks {
		text, _ := os.ReadFile(task) // a thread may have ended
		for field := range strings.FieldsSeq(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// machine runs a program with a TMPDIR of its own, and compares the machine before and after.
func machine(args []string) (status int, left []string, err error) {
	dir, err := tempDir()
	if err != nil {
		return 0, nil, err
	}
	defer func() {
		if removed := os.RemoveAll(dir); len(left) == 0 { // what is left may be in the way
			err = errors.Join(err, removed)
		}
	}()
	// Servers with accounts of their own use it as they use /tmp.
	if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
		return 0, nil, err
	}
	before := state(dir)
	cmd := exec.Command(args[0], args[1:]...) //nolint:noctx,gosec // running it is what this is for
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "TMPDIR="+dir) //nolint:forbidigo // a program of its own
	signal.Ignore(syscall.SIGINT)                 // the terminal sends it to the program too
	if err := cmd.Run(); cmd.ProcessState == nil {
		return 0, nil, err
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		left = slices.DeleteFunc(state(dir), func(s string) bool { return slices.Contains(before, s) })
		if len(left) == 0 || time.Now().After(deadline) {
			return cmd.ProcessState.ExitCode(), left, nil
		}
	}
}

// state is what on this machine is ours, or may be; dir is the directory for temporary files.
func state(dir string) (all []string) {
	add := func(what, pattern string) {
		found, _ := filepath.Glob(pattern) // the patterns are fine
		for _, path := range found {
			all = append(all, what+" "+path)
		}
	}
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && ours.MatchString(d.Name()) && empty(path) && !anothers(d.Name()) {
			all = append(all, "the control group "+path)
		}
		return nil // what cannot be read is another's
	})
	home, _ := os.UserHomeDir() // without one nothing is there
	for _, state := range []string{"/var/lib", "/var/cache", filepath.Join(home, ".local/state")} {
		add("the directory", filepath.Join(state, "loadstone"))
		add("state", filepath.Join(state, "loadstone/*/*"))
	}
	add("the file", filepath.Join(dir, "*"))
	mounts, _ := os.ReadFile("/proc/self/mounts")
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, dir+"/") || strings.Contains(line, "loadstone") {
			all = append(all, "the mount "+strings.TrimSpace(line))
		}
	}
	for _, list := range []string{"ps --all", "volume ls", "network ls"} {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		names, _ := exec.CommandContext(ctx, "docker", append(strings.Fields(list), "--quiet", "--filter", "label="+labLabel)...).Output() // no daemon has none
		cancel()
		for name := range strings.FieldsSeq(string(names)) {
			all = append(all, "what `docker "+list+"` shows as "+name)
		}
	}
	return all
}

// labLabel is what the driver of containers labels them with.
const labLabel = "loadstone.lab"

// ours are the names of control groups that tests and runs make.
var ours = regexp.MustCompile(`^(loadstone-|perturb-test-|lsdocker)`)

// made are the names of control groups of tests and of runs, with the pid of the program that
// made them, and its start for those of runs.
var made = regexp.MustCompile(`^(?:loadstone-test-(?:[a-z]\w*-)?|perturb-test-)(\d+)|^loadstone-(\d+)-(\d+)-`)

// anothers says whether who made a control group still runs: another suite beside this one, for of ours
// no program does.
func anothers(group string) bool {
	if strings.HasPrefix(group, "lsdocker") {
		return daemonHas(group)
	}
	m := made.FindStringSubmatch(group)
	if m == nil {
		return false
	}
	pid, _ := strconv.Atoi(m[1] + m[2]) // one of the two is empty; too large is nobody's
	p, err := procstat.Read("/proc", pid)
	return err == nil && !p.Over() && (m[3] == "" || m[3] == strconv.FormatUint(p.Start, 10))
}

// daemonHas says whether a Docker daemon runs that puts its containers into a control group, as
// scripts/with-docker has it. Between two containers nobody is in it.
func daemonHas(group string) bool {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	return slices.ContainsFunc(lines, func(file string) bool {
		line, _ := os.ReadFile(file) // it may have ended
		args := strings.Split(string(line), "\x00")
		at := slices.Index(args, "--cgroup-parent") + 1
		return at > 0 && at < len(args) && args[at] == "/"+group || slices.Contains(args, "--cgroup-parent=/"+group)
	})
}

// empty says whether no process is in a control group or below it: others are another's
// that goes on, or their processes are what is left.
func empty(group string) bool {
	none := true
	_ = filepath.WalkDir(group, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Name() == "cgroup.procs" {
			pids, _ := os.ReadFile(path) //nolint:gosec // the kernel has no links there; gone: none
			none = none && len(pids) == 0
		}
		return nil
	})
	return none
}
