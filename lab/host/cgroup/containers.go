package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Containers finds the groups of containers by their ids, below the directory where the
// control groups of their machine are mounted. It is for whoever is in a container itself, to
// which /proc tells no path that leads there. Those that are not found are left out, and so are those of which
// several groups have the name: anybody may call one like that who may make groups at all.
//
// Runtimes name a group after its container: ID where they make groups themselves, or
// cri-containerd-ID.scope, crio-ID.scope and the like where systemd does.
func Containers(root string, ids []string) (map[string]Paths, error) {
	version, top := hierarchy(root)
	top, err := filepath.EvalSymlinks(top) // to cpu,cpuacct
	if err != nil {
		return nil, fmt.Errorf("find the control groups of containers: %w", err)
	}
	wanted := make(map[string]bool, len(ids))
	for _, id := range ids {
		wanted[id] = true
	}
	found, seen, twice := make(map[string]Paths, len(ids)), map[string]fs.FileInfo{}, map[string]bool{}
	err = filepath.WalkDir(top, func(dir string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // it has ended meanwhile
			return nil
		case errors.Is(err, fs.ErrPermission) && dir != top: // its owner, who need not be root, lets nobody in
			return nil
		case err != nil || !e.IsDir():
			return err
		}
		id := containerID(e.Name())
		if !wanted[id] {
			return nil
		}
		info, err := e.Info()
		if err != nil {
			return nil //nolint:nilerr // as above
		}
		// Where a node is itself a container, its groups may be mounted a second time below themselves.
		if seen[id] != nil && !os.SameFile(seen[id], info) {
			twice[id] = true
		}
		found[id], seen[id] = pathsAt(version, root, top, dir), info
		return filepath.SkipDir
	})
	if err != nil {
		return nil, fmt.Errorf("find the control groups of containers: %w", err)
	}
	maps.DeleteFunc(found, func(id string, _ Paths) bool { return twice[id] })
	return found, nil
}

// hierarchy is the version of the control groups that are mounted at root, and where one of the
// hierarchies is.
func hierarchy(root string) (version int, top string) {
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err != nil {
		return 1, filepath.Join(root, "cpu")
	}
	return 2, root
}

// Writable says whether this process may change the groups that are mounted at root. What is mounted
// read-only may have other mounts below it that are not: in version 1 each controller is one.
func Writable(root string) bool {
	_, top := hierarchy(root)
	return unix.Access(filepath.Join(top, "cgroup.procs"), unix.W_OK) == nil
}

// containerID is the container that a group of this name is of; empty if it is of the monitor of
// one, or nothing that looks like an id is in it.
func containerID(name string) string {
	name = strings.TrimSuffix(name, ".scope")
	at := strings.LastIndexByte(name, '-') + 1
	if strings.HasSuffix(name[:at], "conmon-") {
		return ""
	}
	return name[at:]
}

// pathsAt are the directories of the group that is at dir below top.
func pathsAt(version int, root, top, dir string) Paths {
	if version == 2 {
		return Paths{Version: 2, CPU: dir, CPUAcct: dir, Memory: dir}
	}
	below := strings.TrimPrefix(dir, top)
	return Paths{Version: 1, CPU: dir, CPUAcct: filepath.Join(root, "cpuacct", below), Memory: filepath.Join(root, "memory", below)}
}
