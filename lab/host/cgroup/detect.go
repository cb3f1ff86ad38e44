package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// What the reader of an UnavailableError can do about it.
const (
	fixPermission = "run as root, or start it with `systemd-run --user --scope -p Delegate=yes COMMAND`"
	fixRoot       = "run as root"
	fixContainer  = "run outside the container, or start the container with `--privileged --cgroupns=host`"
	fixDelegate   = "run as root, or let systemd delegate the controller: `systemctl edit user@.service`, add `[Service]` and `Delegate=cpu memory pids`, log in again"
	fixMount      = "use a kernel and a system that mount control groups with the cpu and memory controllers"
)

// UnavailableError says why no group with limits can be made here, and what to do
// about it.
type UnavailableError struct {
	Reason string
	Fix    string
	Err    error // the cause, if there is one beyond Reason
}

func (u *UnavailableError) Error() string { return u.Reason + "; to have them, " + u.Fix }

func (u *UnavailableError) Unwrap() error { return u.Err }

// Tree is the place where groups can be made.
type Tree struct {
	base Paths // the groups below which new ones go

	// mkdir makes the directory of a group. Tests over a plain directory
	// replace it by one that also puts the kernel's files in.
	mkdir func(dir string) error
}

// Version is 1 or 2.
func (t *Tree) Version() int { return t.base.Version }

// Detect finds out where groups with CPU and memory limits can be made.
// procRoot is where proc is mounted (/proc); sysRoot is put before every mount
// point that proc names (/ but in tests).
//
// Version 1 is used where cpu and memory are controllers of version 1, below
// this process's own group in each hierarchy. Otherwise version 2 is: below
// the root group where it may be written, else in the nearest group above this
// process's own that may be. It cannot be this process's own group: in version
// 2, a group that hands out controllers may hold no process itself.
//
// Where no group can be made, the error is an *UnavailableError. Detect changes
// nothing.
func Detect(procRoot, sysRoot string) (*Tree, error) {
	return detect(procRoot, sysRoot, writable)
}

func detect(procRoot, sysRoot string, writable func(string) bool) (*Tree, error) {
	mountText, err := os.ReadFile(filepath.Join(procRoot, "self", "mountinfo"))
	if err != nil {
		return nil, &UnavailableError{Reason: "cannot see which control groups are mounted", Fix: fixMount, Err: err}
	}
	memberText, err := os.ReadFile(filepath.Join(procRoot, "self", "cgroup"))
	if err != nil {
		return nil, &UnavailableError{Reason: "cannot see the control group of this process", Fix: fixMount, Err: err}
	}
	d := detector{
		sysRoot:  sysRoot,
		writable: writable,
		mounts:   parseMountinfo(string(mountText)),
		members:  parseMembership(string(memberText)),
	}
	base, err := d.find()
	if err != nil {
		return nil, err
	}
	return &Tree{base: base, mkdir: func(dir string) error { return os.Mkdir(dir, 0o755) }}, nil
}

// detector holds what Detect read.
type detector struct {
	sysRoot  string
	writable func(path string) bool
	mounts   []mount
	members  []membership
}

func (d *detector) find() (Paths, error) {
	_, cpu := d.v1("cpu")
	_, memory := d.v1("memory")
	if cpu || memory {
		return d.findV1()
	}
	for _, m := range d.mounts {
		if m.unified {
			return d.findV2(m)
		}
	}
	return Paths{}, &UnavailableError{Reason: "no control groups are mounted", Fix: fixMount}
}

// v1 finds the version 1 mount of a controller that shows this process's own
// group, or the first one if none does.
func (d *detector) v1(controller string) (dir string, ok bool) {
	own := "/"
	for _, m := range d.members {
		if slices.Contains(m.controllers, controller) {
			own = m.path
		}
	}
	for _, m := range d.mounts {
		if m.unified || !slices.Contains(m.controllers, controller) {
			continue
		}
		rel, inside := m.inMount(own)
		if inside || !ok {
			dir, ok = filepath.Join(d.sysRoot, m.point, rel), true
		}
		if inside {
			break
		}
	}
	return dir, ok
}

func (d *detector) findV1() (Paths, error) {
	paths := Paths{Version: 1}
	for _, c := range []struct {
		name string
		dir  *string
	}{{"cpu", &paths.CPU}, {"cpuacct", &paths.CPUAcct}, {"memory", &paths.Memory}} {
		dir, ok := d.v1(c.name)
		if !ok {
			return Paths{}, &UnavailableError{Reason: fmt.Sprintf("the %s controller is not mounted (control groups version 1)", c.name), Fix: fixMount}
		}
		if d.readOnly(dir) {
			return Paths{}, &UnavailableError{Reason: fmt.Sprintf("control groups are mounted read-only at %s", dir), Fix: fixContainer}
		}
		if !d.writable(dir) {
			return Paths{}, &UnavailableError{Reason: fmt.Sprintf("this user may not make control groups in %s", dir), Fix: fixRoot}
		}
		*c.dir = dir
	}
	return paths, nil
}

func (d *detector) readOnly(dir string) bool {
	for _, m := range d.mounts {
		point := filepath.Join(d.sysRoot, m.point)
		if m.readOnly && (dir == point || strings.HasPrefix(dir, point+"/")) {
			return true
		}
	}
	return false
}

func (d *detector) findV2(m mount) (Paths, error) {
	point := filepath.Join(d.sysRoot, m.point)
	if m.readOnly {
		return Paths{}, &UnavailableError{Reason: fmt.Sprintf("control groups are mounted read-only at %s", point), Fix: fixContainer}
	}
	refused := &UnavailableError{Reason: fmt.Sprintf("this user may not make control groups in %s", point), Fix: fixPermission}
	for i, dir := range d.candidates(m, point) {
		reason := d.unusable(dir)
		if reason == nil {
			return Paths{Version: 2, CPU: dir, CPUAcct: dir, Memory: dir}, nil
		}
		// The first that is more than "not permitted" tells the most.
		if i == 0 || refused.Fix == fixPermission {
			refused = reason
		}
	}
	return Paths{}, refused
}

// candidates are the groups to try in version 2, best first: the root group,
// then those above our own, nearest first.
func (d *detector) candidates(m mount, point string) []string {
	var dirs []string
	if isRootGroup(point) {
		dirs = append(dirs, point)
	}
	for _, member := range d.members {
		rel, inside := m.inMount(member.path)
		if !member.unified || !inside || rel == "" {
			continue
		}
		for dir := filepath.Dir(filepath.Join(point, rel)); ; dir = filepath.Dir(dir) {
			if !slices.Contains(dirs, dir) {
				dirs = append(dirs, dir)
			}
			if dir == point || len(dir) <= len(point) {
				break
			}
		}
	}
	if len(dirs) == 0 {
		// A container whose own group is all that it sees. It holds
		// processes, which unusable will say.
		dirs = append(dirs, point)
	}
	return dirs
}

// unusable says why groups cannot be made in dir; nil if they can.
func (d *detector) unusable(dir string) *UnavailableError {
	for _, file := range []string{"", "cgroup.subtree_control", "cgroup.procs"} {
		if !d.writable(filepath.Join(dir, file)) {
			return &UnavailableError{Reason: fmt.Sprintf("this user may not make control groups in %s", dir), Fix: fixPermission}
		}
	}
	has, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return &UnavailableError{Reason: fmt.Sprintf("%s is not a control group", dir), Fix: fixMount, Err: err}
	}
	for _, c := range []string{"cpu", "memory"} {
		if !slices.Contains(strings.Fields(string(has)), c) {
			return &UnavailableError{Reason: fmt.Sprintf("the %s controller is not given to the control group %s", c, dir), Fix: fixDelegate}
		}
	}
	missing, err := missingControllers(dir)
	if err != nil {
		return &UnavailableError{Reason: fmt.Sprintf("cannot read which controllers %s hands out", dir), Fix: fixPermission, Err: err}
	}
	if len(missing) > 0 && !isRootGroup(dir) && holdsProcesses(dir) {
		return &UnavailableError{Reason: fmt.Sprintf("the control group %s holds processes of its own, so it cannot hand out controllers", dir), Fix: fixContainer}
	}
	return nil
}

// isRootGroup tells the root of the hierarchy from a group that a namespace
// shows as one: only the real root has no type.
func isRootGroup(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "cgroup.type"))
	return errors.Is(err, os.ErrNotExist)
}

func holdsProcesses(dir string) bool {
	procs, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	return err != nil || len(procs) > 0
}

// missingControllers are those of cpu and memory that dir does not hand out.
func missingControllers(dir string) ([]string, error) {
	enabled, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	if err != nil {
		return nil, err
	}
	var missing []string
	for _, c := range []string{"cpu", "memory"} {
		if !slices.Contains(strings.Fields(string(enabled)), c) {
			missing = append(missing, "+"+c)
		}
	}
	return missing, nil
}

// writable asks the kernel rather than the mode bits, which say nothing about
// root, read-only mounts and user namespaces.
func writable(path string) bool {
	return unix.Faccessat(unix.AT_FDCWD, path, unix.W_OK, unix.AT_EACCESS) == nil
}
