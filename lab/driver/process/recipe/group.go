package recipe

import (
	"fmt"
	"slices"
)

// group are the instances of one service, which for what keeps data are the
// nodes of a cluster.
type group struct {
	members []string // their addresses
	index   int      // of this instance among them, from 0
}

func (in *Instance) ownGroup() group {
	members := in.Hosts[in.Service.Name]
	if i := slices.Index(members, in.Host); i >= 0 {
		return group{members: members, index: i}
	}
	return group{members: []string{in.Host}}
}

// subDir is the instance's own directory in a volume that all of them mount;
// empty if there is one instance, which has the volume to itself.
func (g group) subDir() string {
	if len(g.members) == 1 {
		return ""
	}
	return fmt.Sprintf("node-%d", g.index+1)
}

// heapWithin is the size of a Java heap, in bytes, that leaves half of the
// service's memory limit to all else that the process needs; own if that is
// less, or if there is no limit.
func (in *Instance) heapWithin(own uint64) uint64 {
	if limit := in.Service.Limits.Memory; limit != nil {
		return min(own, *limit/2)
	}
	return own
}
