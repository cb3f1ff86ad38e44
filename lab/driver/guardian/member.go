package guardian

import (
	"slices"

	"loadstone/lab/host/procstat"
)

// Member is one of the processes of an instance.
type Member struct {
	Process
	Stopped bool // by a signal, until SIGCONT
}

// Members says how the processes with the given ids are; those that have ended
// are left out.
func Members(procRoot string, pids []int) []Member {
	var out []Member
	for _, pid := range pids {
		if s, err := procstat.Read(procRoot, pid); err == nil && !s.Over() {
			out = append(out, member(&s))
		}
	}
	return out
}

// Descendants are a process and all that descend from it, without those that
// have ended. What a process left behind that has ended belongs to nobody and is
// not found.
func Descendants(procRoot string, root Process) ([]Member, error) {
	all, err := processes(procRoot)
	if err != nil {
		return nil, err
	}
	var known, toLook []int // all that are found, and those whose children are not
	var out []Member
	add := func(s *procstat.Stat) {
		known, toLook = append(known, s.PID), append(toLook, s.PID)
		if !s.Over() {
			out = append(out, member(s))
		}
	}
	if i := slices.IndexFunc(all, func(s procstat.Stat) bool { return identity(&s) == root }); i >= 0 {
		add(&all[i])
	}
	for len(toLook) > 0 {
		parent := toLook[0]
		toLook = toLook[1:]
		for i := range all {
			if s := &all[i]; s.Parent == parent && !slices.Contains(known, s.PID) {
				add(s)
			}
		}
	}
	return out, nil
}

func member(s *procstat.Stat) Member { return Member{Process: identity(s), Stopped: s.Stopped()} }
