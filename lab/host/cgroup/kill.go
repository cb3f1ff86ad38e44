package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"loadstone/block/pause"
)

const (
	// goneWithin bounds Kill, Remove and Destroy. A killed process is gone
	// within milliseconds, except one that waits for a disk: 10 s is far beyond
	// both a healthy disk's queue and the time to free the memory of a store.
	goneWithin = 10 * time.Second
	// The pause between two looks grows from firstLook to lastLook: most groups
	// are empty at once, and the rest need not be asked a thousand times.
	firstLook = time.Millisecond
	lastLook  = 50 * time.Millisecond
)

// Kill ends every process of the group at once and waits until none is left,
// at most for 10 s. Groups below it are not killed; Destroy does that.
func (g *Group) Kill(ctx context.Context) error {
	err := poll(ctx, func() (bool, error) {
		left := 0
		for _, dir := range g.paths.Dirs() {
			n, err := signalAll(dir)
			if err != nil {
				return false, err
			}
			left += n
		}
		return left == 0, nil
	})
	if err != nil {
		return fmt.Errorf("kill what is in control group %s: %w", g.paths.Memory, err)
	}
	return nil
}

// Destroy kills everything in the group and in the groups below it and removes
// them all, within 10 s. It needs nothing but the paths, so another process
// can do it. What is gone already is no error.
func Destroy(ctx context.Context, p Paths) error {
	for _, dir := range p.Dirs() {
		if !filepath.IsAbs(dir) {
			return fmt.Errorf("destroy control group: %q is not an absolute path", dir)
		}
	}
	err := poll(ctx, func() (bool, error) {
		gone := true
		for _, dir := range p.Dirs() {
			g, err := destroyOnce(dir)
			if err != nil {
				return false, err
			}
			gone = gone && g
		}
		return gone, nil
	})
	if err != nil {
		return fmt.Errorf("destroy control group %s: %w", p.Memory, err)
	}
	return nil
}

// destroyOnce kills and removes as much below dir as goes now, deepest first.
func destroyOnce(dir string) (gone bool, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	below := true
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		g, err := destroyOnce(filepath.Join(dir, e.Name()))
		if err != nil {
			return false, err
		}
		below = below && g
	}
	left, err := signalAll(dir)
	if err != nil || left > 0 || !below {
		return false, err
	}
	err = rmdirs([]string{dir})
	if errors.Is(err, unix.EBUSY) {
		return false, nil
	}
	return err == nil, err
}

// signalAll sends SIGKILL to every process right in dir and returns how many
// there were. Version 2 has a file that does so without a race against forks
// (since Linux 5.14); without it, the caller looks again until none is left.
func signalAll(dir string) (int, error) {
	pids, err := procs(dir)
	if err != nil || len(pids) == 0 {
		return 0, err
	}
	err = write(filepath.Join(dir, "cgroup.kill"), "1")
	if err == nil {
		return len(pids), nil
	}
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		return 0, err
	}
	for part := range slices.Chunk(pids, mostOpen) {
		m, err := hold(part, func() ([]int, error) { return procs(dir) })
		if err == nil {
			err = m.Signal(unix.SIGKILL)
		}
		if m.Close(); err != nil {
			return 0, err
		}
	}
	return len(pids), nil
}

func rmdirs(dirs []string) error {
	var errs []error
	for _, dir := range dirs {
		if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, &os.PathError{Op: "rmdir", Path: dir, Err: err})
		}
	}
	return errors.Join(errs...)
}

// poll calls done until it is true or fails, or goneWithin is over.
func poll(ctx context.Context, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, goneWithin)
	defer cancel()
	for wait := firstLook; ; wait = min(2*wait, lastLook) {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		if !pause.For(ctx, wait) {
			return fmt.Errorf("processes are still in it: %w", ctx.Err())
		}
	}
}
