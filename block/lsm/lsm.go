// Package lsm opens pebble databases, log-structured merge trees, in a way that a service
// can live with: a full disk makes writes wait, and what pebble cannot survive ends the
// database and not the process.
//
// It does not hide pebble: whoever opens a database uses it, and takes care of the calls
// that may never return, see Guard.
package lsm

import (
	"errors"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

var (
	// ErrInUse is wrapped when another process, or this one, has the database open.
	ErrInUse = errors.New("another process has it open: stop that one, or name another directory")
	// ErrFull is why nothing is stored while there is no room.
	ErrFull = errors.New("the disk is full; nothing is stored until there is room again")
	// ErrStopped is wrapped by what everybody gets after pebble has stopped.
	ErrStopped = errors.New("pebble cannot go on; what was acknowledged is in its log, and the service must be started again to read it")
)

// DB is an open database.
type DB struct {
	*pebble.DB

	disk   *disk
	stop   *stop
	damage atomic.Int64
}

// Open opens the database in the directory, or makes it. It locks the directory. The
// options' Logger and EventListener are replaced, and their FS is where the files are: the machine's unless
// it is set.
func Open(dir string, o *pebble.Options) (*DB, error) {
	if o.FS == nil {
		// Without the watch for slow disks, which pebble adds if it chooses the file
		// system itself: nobody here would hear it, and it is a goroutine that stays when
		// the directory cannot be opened.
		o.FS = vfs.Default
	}
	d := &DB{disk: newDisk(o.FS), stop: newStop()}
	o.FS, o.Logger = d.disk, d.stop
	// Pebble's own listener calls Logger.Fatalf: one block that is damaged would end the database for
	// whoever asks for anything else, too.
	o.EventListener = &pebble.EventListener{DataCorruption: func(pebble.DataCorruptionInfo) { d.damage.Add(1) }}
	err := d.Guard(func() (err error) {
		d.DB, err = pebble.Open(dir, o)
		return err
	})
	if err != nil {
		// The second is pebble's own list of what this process has locked.
		if errors.Is(err, syscall.EAGAIN) || strings.Contains(err.Error(), "lock held by current process") {
			return nil, ErrInUse
		}
		return nil, err
	}
	d.disk.patient.Store(true) // until here, a full disk is for whoever opens the database to hear of
	return d, nil
}

// Guard does what may never return once pebble has stopped: what writes. Then it returns
// an error that wraps ErrStopped, and its goroutine stays.
func (d *DB) Guard(do func() error) error { return d.stop.guard(do) }

// Down is why nothing can be stored or read until the process starts anew, or nil. The
// error wraps ErrStopped.
func (d *DB) Down() error { return d.stop.over() }

// Stopped is closed when the database is down.
func (d *DB) Stopped() <-chan struct{} { return d.stop.done }

// Full reports whether a write waits for room on the disk.
func (d *DB) Full() bool { return d.disk.isFull() }

// Damage counts reads that found a file's contents to be other than what was written. Each has returned an
// error to who read.
func (d *DB) Damage() int64 { return d.damage.Load() }

// GiveUp lets no write wait for room any more: one that finds none ends the database. It
// comes before Close, so that whoever waits for a write can be waited for.
func (d *DB) GiveUp() { d.disk.patient.Store(false) }

// Close closes the database, once. It does not wait for room on a full disk: what was
// acknowledged is in the log.
func (d *DB) Close() error {
	d.GiveUp()
	return d.Guard(d.DB.Close)
}
