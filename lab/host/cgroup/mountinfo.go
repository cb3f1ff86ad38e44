package cgroup

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// mount is one mounted cgroup hierarchy.
type mount struct {
	root        string // the group that the mount point shows
	point       string
	unified     bool     // version 2
	controllers []string // of version 1
	readOnly    bool
}

// membership is one line of /proc/self/cgroup.
type membership struct {
	unified     bool
	controllers []string
	path        string
}

// parseMountinfo returns the cgroup mounts of a /proc/<pid>/mountinfo text, in
// its order. The format is that of proc(5):
//
//	36 35 98:0 /root /point rw,noatime master:1 - type source super-options
//
// Lines that do not have it are passed over: they are not cgroup mounts.
func parseMountinfo(text string) []mount {
	var mounts []mount
	for line := range strings.Lines(text) {
		before, after, ok := strings.Cut(strings.TrimSpace(line), " - ")
		if !ok {
			continue
		}
		pre, post := strings.Fields(before), strings.Fields(after)
		if len(pre) < 6 || len(post) < 3 {
			continue
		}
		fstype, super := post[0], strings.Split(post[2], ",")
		if fstype != "cgroup" && fstype != "cgroup2" {
			continue
		}
		m := mount{
			root:     unescape(pre[3]),
			point:    unescape(pre[4]),
			unified:  fstype == "cgroup2",
			readOnly: slices.Contains(strings.Split(pre[5], ","), "ro") || slices.Contains(super, "ro"),
		}
		if !m.unified {
			m.controllers = super
		}
		mounts = append(mounts, m)
	}
	return mounts
}

// parseMembership reads a /proc/<pid>/cgroup text: id:controllers:path.
func parseMembership(text string) []membership {
	var all []membership
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimRight(line, "\n"), ":", 3)
		if len(parts) != 3 || !strings.HasPrefix(parts[2], "/") {
			continue
		}
		m := membership{unified: parts[0] == "0" && parts[1] == "", path: parts[2]}
		if !m.unified {
			m.controllers = strings.Split(parts[1], ",")
		}
		all = append(all, m)
	}
	return all
}

// unescape undoes the octal escapes (\040 for a space) of mountinfo.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// inMount returns where the group at cgroupPath shows below the mount's point.
// A container sees only the part of the hierarchy below m.root, while
// /proc/self/cgroup may still give the whole path, so root is taken off. Where
// the group lies outside of what the mount shows, the point itself is the
// nearest that there is.
func (m mount) inMount(cgroupPath string) (rel string, inside bool) {
	// From within a name space of control groups, what is outside is /../elsewhere.
	// Cleaned, that would be another group.
	if slices.Contains(strings.Split(cgroupPath, "/"), "..") {
		return "", false
	}
	clean := path.Clean(cgroupPath)
	if m.root == "/" {
		return strings.TrimPrefix(clean, "/"), true
	}
	if clean == m.root {
		return "", true
	}
	if rel, ok := strings.CutPrefix(clean, m.root+"/"); ok {
		return rel, true
	}
	return "", false
}
