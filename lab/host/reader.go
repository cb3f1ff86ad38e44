package host

import (
	"os"
	"syscall"

	"loadstone/lab/host/cgroup"
)

// reader reads one target. Where an instance that is started again gets another
// process to be read, or another control group, what the ones before it used is
// kept; a group that lives on counts on by itself.
type reader struct {
	slow slowReader

	pid     int           // that was read last; 0 before the first
	group   *cgroup.Group // that was read last; nil if a process was
	inode   uint64        // of the group's directory: its path may be used again
	latest  Instance      // of that process or group
	earlier Instance      // what those before it used
}

// read reads the target as it is now; all are asked again for one that is gone.
func (r *reader) read(t Target, all func() []Target) (Instance, error) {
	err := r.follow(t)
	if err == nil {
		err = r.look(t)
	}
	if err != nil {
		// Whether an instance with a group may have ended is for its driver to say.
		now, _ := find(all(), t.Name)
		if !gone(err) || t.Cgroup.Version == 0 && now.PID == t.PID {
			return Instance{}, err
		}
		r.latest.Memory = 0
	}
	sum := r.latest
	sum.Name = t.Name
	sum.Add(&r.earlier)
	return sum, nil
}

// follow turns to the target's process or group, if that is another one now.
func (r *reader) follow(t Target) error {
	if t.Cgroup.Version == 0 {
		if t.PID != r.pid || r.group != nil {
			r.begin()
		}
		r.pid = t.PID
		return r.close()
	}
	// A pid may be used again as well.
	if r.group != nil && t.PID == r.pid && t.Cgroup == r.group.Paths() {
		return nil
	}
	inode, err := inodeOf(t.Cgroup.CPUAcct)
	if err != nil {
		return err
	}
	if r.group == nil || inode != r.inode {
		r.begin()
		if err := r.close(); err != nil {
			return err
		}
		if r.group, err = cgroup.Open(t.Cgroup); err != nil {
			return err
		}
	}
	r.pid, r.inode = t.PID, inode
	return nil
}

// begin keeps what was used until now.
func (r *reader) begin() {
	r.earlier.Add(&r.latest)
	r.latest = Instance{}
}

func (r *reader) look(t Target) error {
	if r.group == nil {
		if t.PID == 0 {
			r.latest.Memory = 0
			return nil
		}
		in, err := ReadProcess(t.PID)
		if err == nil {
			r.latest = in
		}
		return err
	}
	var st cgroup.Stat
	if err := r.group.Read(&st); err != nil {
		return err
	}
	r.latest = Instance{
		CPU: st.CPU, User: st.User, System: st.System,
		Periods: st.Periods, Throttled: st.ThrottledPeriods, Stalled: st.Throttled,
		Memory: st.Memory, OOMKills: st.OOMKills,
	}
	return nil
}

func (r *reader) close() error {
	if r.group == nil {
		return nil
	}
	err := r.group.Close()
	r.group = nil
	return err
}

func inodeOf(path string) (uint64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Ino, nil
	}
	return 0, nil
}
