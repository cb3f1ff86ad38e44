package lsm

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// retryEvery is how often a write that found the disk full is tried again: it costs
// a system call.
const retryEvery = 100 * time.Millisecond

// disk is a file system on which a write that finds no room waits until there is
// some. Pebble does not survive such an error: a log of which nobody knows how much
// was written can only be read again. That it has failed is known before anything
// is synced, though, so it can as well be tried again.
//
// What fails to be synced is not tried again: the operating system may have dropped
// what it could not write, and would call the second attempt a success.
type disk struct {
	vfs.FS
	waiting atomic.Int64 // writes that wait for room
	patient atomic.Bool  // they may
}

func newDisk(inner vfs.FS) *disk { return &disk{FS: inner} }

// isFull reports whether a write waits for room.
func (d *disk) isFull() bool { return d.waiting.Load() > 0 }

// try repeats what finds no room, as long as it may.
func (d *disk) try(write func() error) error {
	err := write()
	if !noRoom(err) || !d.patient.Load() {
		return err
	}
	d.waiting.Add(1)
	defer d.waiting.Add(-1)
	again := time.NewTicker(retryEvery)
	defer again.Stop()
	for noRoom(err) && d.patient.Load() {
		<-again.C
		err = write()
	}
	return err
}

func noRoom(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// Unwrap implements vfs.FS.
func (d *disk) Unwrap() vfs.FS { return d.FS }

// Create implements vfs.FS.
func (d *disk) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return d.open(func() (vfs.File, error) { return d.FS.Create(name, category) })
}

// ReuseForWrite implements vfs.FS.
func (d *disk) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return d.open(func() (vfs.File, error) { return d.FS.ReuseForWrite(oldname, newname, category) })
}

// OpenReadWrite implements vfs.FS.
func (d *disk) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return d.open(func() (vfs.File, error) { return d.FS.OpenReadWrite(name, category, opts...) })
}

func (d *disk) open(how func() (vfs.File, error)) (vfs.File, error) {
	var f vfs.File
	err := d.try(func() (err error) {
		f, err = how()
		return err
	})
	if err != nil {
		return nil, err
	}
	return &file{f, d}, nil
}

// Link implements vfs.FS.
func (d *disk) Link(oldname, newname string) error {
	return d.try(func() error { return d.FS.Link(oldname, newname) })
}

// Rename implements vfs.FS.
func (d *disk) Rename(oldname, newname string) error {
	return d.try(func() error { return d.FS.Rename(oldname, newname) })
}

// file is a file on such a disk.
type file struct {
	vfs.File
	disk *disk
}

// Write implements vfs.File. What was written before there was no more room is not
// written again.
func (f *file) Write(p []byte) (n int, err error) {
	err = f.disk.try(func() error {
		more, err := f.File.Write(p[n:])
		n += more
		return err
	})
	return n, err
}

// WriteAt implements vfs.File.
func (f *file) WriteAt(p []byte, offset int64) (n int, err error) {
	err = f.disk.try(func() error {
		more, err := f.File.WriteAt(p[n:], offset+int64(n))
		n += more
		return err
	})
	return n, err
}

// Preallocate implements vfs.File.
func (f *file) Preallocate(offset, length int64) error {
	return f.disk.try(func() error { return f.File.Preallocate(offset, length) })
}

// stop is pebble's logger, and knows when pebble has stopped. What pebble tells is
// about its files, and is in its metrics; only what it cannot survive is kept.
type stop struct {
	once sync.Once
	done chan struct{}
	err  error // before done is closed
}

func newStop() *stop { return &stop{done: make(chan struct{})} }

// Infof does nothing.
func (*stop) Infof(string, ...any) {}

// Errorf does nothing: the errors that matter are returned to somebody as well.
func (*stop) Errorf(string, ...any) {}

// Fatalf does not return, which pebble relies on: it would go on with a log in an
// unknown state. The goroutine stays, with the locks that it holds, until the
// process ends; the rest of the process is not pebble's to end. Nobody was told that
// the writes under way are stored.
func (s *stop) Fatalf(format string, args ...any) {
	s.once.Do(func() {
		s.err = fmt.Errorf("%w: %s", ErrStopped, fmt.Sprintf(format, args...))
		for _, arg := range args {
			if err, ok := arg.(error); ok && noRoom(err) {
				s.err = fmt.Errorf("%w: %w", ErrFull, s.err)
			}
		}
		close(s.done)
	})
	select {}
}

// over is why pebble has stopped, or nil.
func (s *stop) over() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// guard does what may never return once pebble has stopped. Then its goroutine stays
// as well. Nothing begins after that, Close included: a goroutine that has not come to its
// work yet would find pebble closed, and panic.
func (s *stop) guard(do func() error) error {
	if err := s.over(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-s.done:
		return s.err
	}
}
