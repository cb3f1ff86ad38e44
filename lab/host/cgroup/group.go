package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Group is one control group (in version 1: one in each hierarchy). Its
// methods may be called from several goroutines at once.
type Group struct {
	paths Paths

	mu      sync.Mutex // guards all below
	sources []source   // nil once closed
	buf     [4096]byte
	peak    uint64
	dirFile *os.File // version 2, held for Enter; nil until then
}

// Paths are the directories of the group.
func (g *Group) Paths() Paths { return g.paths }

// Paths are the directories that the group called name has or would have.
func (t *Tree) Paths(name string) Paths {
	return Paths{
		Version: t.base.Version,
		CPU:     filepath.Join(t.base.CPU, name),
		CPUAcct: filepath.Join(t.base.CPUAcct, name),
		Memory:  filepath.Join(t.base.Memory, name),
	}
}

// Names lists the groups right below the tree, sorted. They may be anyone's.
func (t *Tree) Names() ([]string, error) {
	var names []string
	for _, dir := range t.base.Dirs() {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, fmt.Errorf("list control groups: %w", err)
		}
		for _, e := range entries {
			if e.IsDir() {
				names = append(names, e.Name())
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// Create makes the group called name, with any groups above it that its
// slashes name (run/api-1), and sets its limits. A group of that name must not
// exist yet. When it fails, it removes what it made of the group itself.
//
// In version 2 the groups above it are made to hand out cpu and memory; so
// they cannot hold processes.
func (t *Tree) Create(name string, limits Limits) (*Group, error) {
	if !filepath.IsLocal(name) || name == "." {
		return nil, fmt.Errorf("create control group %q: not a plain name below the tree", name)
	}
	if err := t.createParents(filepath.Dir(name)); err != nil {
		return nil, fmt.Errorf("create control group %s: %w", name, refused(err))
	}
	p := t.Paths(name)
	for i, dir := range p.Dirs() {
		if err := t.mkdir(dir); err != nil {
			return nil, fmt.Errorf("create control group %s: %w", name, errors.Join(refused(err), rmdirs(p.Dirs()[:i])))
		}
	}
	g, err := open(p, limits)
	if err != nil {
		return nil, fmt.Errorf("create control group %s: %w", name, errors.Join(err, rmdirs(p.Dirs())))
	}
	return g, nil
}

// Open opens a group that is there, whoever made it: to read it and to change its
// CPU share. The caller closes it, and leaves killing and removing to its maker.
func Open(p Paths) (*Group, error) { return open(p, Limits{}) }

func open(p Paths, limits Limits) (*Group, error) {
	g := &Group{paths: p}
	if limits.CPU != nil {
		if err := g.SetCPU(*limits.CPU); err != nil {
			return nil, err
		}
	}
	if limits.Memory != nil {
		if err := g.setMemory(*limits.Memory); err != nil {
			return nil, err
		}
	}
	var err error
	g.sources, err = openSources(p)
	return g, err
}

// createParents makes the groups from the tree down to name and has each hand
// out the controllers.
func (t *Tree) createParents(name string) error {
	if err := t.handOut(t.base); err != nil {
		return err
	}
	if name == "." {
		return nil
	}
	above := ""
	for part := range strings.SplitSeq(name, "/") {
		above = filepath.Join(above, part)
		p := t.Paths(above)
		for _, dir := range p.Dirs() {
			if err := t.mkdir(dir); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
		}
		if err := t.handOut(p); err != nil {
			return err
		}
	}
	return nil
}

// handOut lets the children of a version 2 group have cpu and memory.
func (t *Tree) handOut(p Paths) error {
	if p.Version != 2 {
		return nil
	}
	missing, err := missingControllers(p.CPU)
	if err != nil || len(missing) == 0 {
		return err
	}
	return write(filepath.Join(p.CPU, "cgroup.subtree_control"), strings.Join(missing, " "))
}

// refused turns a lack of permission that showed only now into an UnavailableError.
func refused(err error) error {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) {
		return &UnavailableError{Reason: fmt.Sprintf("the kernel refuses a control group (%v)", err), Fix: fixPermission, Err: err}
	}
	return err
}

// SetCPU changes the CPU share of the group; it holds from the next period on.
func (g *Group) SetCPU(c CPU) error {
	quota, period, err := c.quota()
	if err != nil {
		return err
	}
	if g.paths.Version == 2 {
		err = write(filepath.Join(g.paths.CPU, "cpu.max"), fmt.Sprintf("%d %d", quota, period))
	} else {
		// The period first: a quota is checked against the period in force,
		// and a new group has no quota yet.
		err = write(filepath.Join(g.paths.CPU, "cpu.cfs_period_us"), strconv.FormatInt(period, 10))
		if err == nil {
			err = write(filepath.Join(g.paths.CPU, "cpu.cfs_quota_us"), strconv.FormatInt(quota, 10))
		}
	}
	if errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("limit to %v cores, which may be more than the groups above allow: %w", c.Cores, err)
	}
	return err
}

// CPU is the CPU share of the group; nil if it has none of its own.
func (g *Group) CPU() (*CPU, error) {
	files := []string{"cpu.cfs_quota_us", "cpu.cfs_period_us"}
	if g.paths.Version == 2 {
		files = []string{"cpu.max"}
	}
	var words []string
	for _, name := range files {
		text, err := os.ReadFile(filepath.Join(g.paths.CPU, name))
		if err != nil {
			return nil, fmt.Errorf("read the CPU share of a control group: %w", err)
		}
		words = append(words, strings.Fields(string(text))...)
	}
	if len(words) > 0 && (words[0] == "max" || words[0] == "-1") {
		return nil, nil //nolint:nilnil // no share is a share, too
	}
	var quota, period int64
	if n, err := fmt.Sscan(strings.Join(words, " "), &quota, &period); n != 2 || quota <= 0 || period <= 0 {
		return nil, fmt.Errorf("read the CPU share of control group %s: got %q: %w", g.paths.CPU, words, errors.Join(errNumber, err))
	}
	return &CPU{Cores: float64(quota) / float64(period), Period: time.Duration(period) * time.Microsecond}, nil
}

// setMemory bounds memory and keeps the group from using swap beyond it: a
// store that swaps would look slow, not full.
func (g *Group) setMemory(limit uint64) error {
	n := strconv.FormatUint(limit, 10)
	hard, swap, swapValue := "memory.max", "memory.swap.max", "0"
	if g.paths.Version == 1 {
		// Here the second limit is on memory and swap together.
		hard, swap, swapValue = "memory.limit_in_bytes", "memory.memsw.limit_in_bytes", n
	}
	if err := write(filepath.Join(g.paths.Memory, hard), n); err != nil {
		return fmt.Errorf("limit to %d bytes of memory: %w", limit, err)
	}
	err := write(filepath.Join(g.paths.Memory, swap), swapValue)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("keep from swapping: %w", err)
	}
	return nil // without that file the kernel does not account swap
}

// Read fills s with the present values. It does not allocate and takes
// some microseconds (see BenchmarkRead).
func (g *Group) Read(s *Stat) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.sources == nil {
		return fmt.Errorf("read control group: %w", fs.ErrClosed)
	}
	*s = Stat{}
	for i := range g.sources {
		if err := g.sources[i].read(s, g.buf[:]); err != nil {
			return err
		}
	}
	g.peak = max(g.peak, s.Memory, s.MemoryPeak)
	s.MemoryPeak = g.peak
	return nil
}

// Procs are the ids of the processes in the group, sorted. Processes that have
// ended and were not waited for yet are not among them.
func (g *Group) Procs() ([]int, error) {
	var all []int
	for _, dir := range g.paths.Dirs() {
		pids, err := procs(dir)
		if err != nil {
			return nil, err
		}
		all = append(all, pids...)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// ProcsBelow are the ids of the processes in the groups below this one, to which its limits
// apply as well, in no order.
func (g *Group) ProcsBelow() ([]int, error) {
	var all []int
	for _, dir := range g.paths.Dirs() {
		// Nearly always there are none, which the links of its directory tell: two of its own, and
		// one of each directory in it. A file system that does not count them says one.
		var st unix.Stat_t
		if err := unix.Stat(dir, &st); err == nil && st.Nlink == 2 {
			continue
		}
		err := filepath.WalkDir(dir, func(below string, e fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // it is gone meanwhile
			}
			if err != nil || !e.IsDir() || below == dir {
				return err
			}
			pids, err := procs(below)
			all = append(all, pids...)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("look into the groups below control group %s: %w", dir, err)
		}
	}
	return all, nil
}

func procs(dir string) ([]int, error) {
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
		return nil, nil // the group is gone, so nothing is in it
	}
	if err != nil {
		return nil, fmt.Errorf("list processes of a control group: %w", err)
	}
	var pids []int
	for field := range strings.FieldsSeq(string(text)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			return nil, fmt.Errorf("list processes of control group %s: %w", dir, err)
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// Close gives back the group's open files. The group itself stays.
func (g *Group) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	err := closeSources(g.sources)
	g.sources = nil
	if g.dirFile != nil {
		err = errors.Join(err, g.dirFile.Close())
		g.dirFile = nil
	}
	return err
}

// write replaces a control file's content in one write, as the kernel wants it.
func write(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
