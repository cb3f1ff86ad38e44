// Package lsmtest has a file system with faults, for tests of what is built on package lsm.
package lsmtest

import (
	"errors"
	"io/fs"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Disk is a file system that can be full, or broken.
type Disk struct {
	vfs.FS
	// Full leaves room for half of each write, Broken fails what is synced.
	Full, Broken atomic.Bool
	// Syncs counts those that did not fail.
	Syncs atomic.Int64
}

// Create implements vfs.FS.
func (f *Disk) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return f.wrap(f.FS.Create(name, category))
}

// ReuseForWrite implements vfs.FS.
func (f *Disk) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return f.wrap(f.FS.ReuseForWrite(oldname, newname, category))
}

func (f *Disk) wrap(inner vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &file{inner, f}, nil
}

type file struct {
	vfs.File
	disk *Disk
}

// Write implements vfs.File. On a full disk it has room for half of what it is given.
func (f *file) Write(p []byte) (int, error) {
	if f.disk.Full.Load() {
		n, err := f.File.Write(p[:len(p)/2])
		return n, errors.Join(err, &fs.PathError{Op: "write", Path: "log", Err: syscall.ENOSPC})
	}
	return f.File.Write(p)
}

// Sync implements vfs.File.
func (f *file) Sync() error {
	if f.disk.Broken.Load() {
		return syscall.EIO
	}
	f.disk.Syncs.Add(1)
	return f.File.Sync()
}

// SyncData implements vfs.File.
func (f *file) SyncData() error {
	if f.disk.Broken.Load() {
		return syscall.EIO
	}
	f.disk.Syncs.Add(1)
	return f.File.SyncData()
}
