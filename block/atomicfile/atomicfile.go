// Package atomicfile replaces a file wholly or not at all.
//
// A Pending file is written beside its target, under the target's name with the
// suffix Suffix. Commit makes it durable and renames it over the target, so that
// a reader finds either the old file or the new one, also after a power cut.
// Nobody ever opens a pending file to read it.
//
// A builder that is killed leaves its pending file behind. The next builder of
// the same target takes it over: the builder holds a lock on the file, which the
// kernel lets go when the process ends, so a file that is not locked has no
// owner. For the same reason two builders of one target do not disturb each
// other: the second is refused with ErrBusy.
package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Suffix ends the name of a file that is being built.
const Suffix = ".building"

// ErrBusy says that another builder is at work on the same target.
var ErrBusy = errors.New("another build of this file is under way")

// newFileMode keeps a new file to its owner: it may hold secrets, and opening it
// to others is one chmod, which later builds keep.
const newFileMode fs.FileMode = 0o600

// Pending is a file that is not yet at its target. One goroutine owns it and ends
// it with Commit or Discard.
type Pending struct {
	file   *os.File
	target string
	ended  bool
}

// Create starts the replacement of the file at target. The pending file is empty
// and locked. It gets the access bits of the file that it will replace, else
// only its owner may read it.
func Create(target string) (*Pending, error) { return replace(target, newFileMode) }

// CreateShared is Create for what anybody may read whom the process's umask
// lets: a new target gets the access bits of an ordinary file.
func CreateShared(target string) (*Pending, error) { return replace(target, sharedMode) }

// sharedMode is what open(2) is asked for by programs that leave it to the
// umask.
const sharedMode fs.FileMode = 0o666

func replace(target string, fresh fs.FileMode) (*Pending, error) {
	mode, err := modeFor(target, fresh)
	if err != nil {
		return nil, fmt.Errorf("create a file to replace %s: %w", target, err)
	}
	for {
		file, mine, err := claim(target+Suffix, mode)
		if err != nil {
			return nil, fmt.Errorf("create a file to replace %s: %w", target, err)
		}
		if mine {
			return &Pending{file: file, target: target}, nil
		}
	}
}

// modeFor returns the access bits for a new target, and refuses a target that
// is something else than a file before any work is done.
func modeFor(target string, fresh fs.FileMode) (fs.FileMode, error) {
	info, err := os.Stat(target)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fresh, nil
	case err != nil:
		return 0, err
	case !info.Mode().IsRegular():
		return 0, fmt.Errorf("%s exists and is not a file", target)
	}
	return info.Mode().Perm(), nil
}

// claim opens and takes the file; mine is false if it has to be tried again.
func claim(name string, mode fs.FileMode) (file *os.File, mine bool, err error) {
	file, err = os.OpenFile(name, os.O_RDWR|os.O_CREATE, mode)
	if err != nil {
		return nil, false, err
	}
	mine, err = take(file, name, mode)
	if !mine || err != nil {
		return nil, false, errors.Join(err, file.Close())
	}
	return file, true, nil
}

// take locks and empties the file. It reports false, and changes nothing, if the
// file is not the one that now has the name: its owner committed or discarded it
// between our open and our lock, and it may be the target by now.
func take(file *os.File, name string, mode fs.FileMode) (bool, error) {
	err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, fmt.Errorf("%s is locked: %w", name, ErrBusy)
	}
	if err != nil {
		return false, fmt.Errorf("lock %s: %w", name, err)
	}
	current, err := sameFile(file, name)
	if err != nil || !current {
		return false, err
	}
	return true, errors.Join(file.Truncate(0), file.Chmod(mode))
}

func sameFile(file *os.File, name string) (bool, error) {
	opened, err := file.Stat()
	if err != nil {
		return false, err
	}
	named, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return os.SameFile(opened, named), nil
}

// Write replaces the file at target with a text and these access bits.
func Write(target string, text []byte, mode fs.FileMode) error {
	p, err := Create(target)
	if err != nil {
		return err
	}
	return errors.Join(p.Fill(text, mode), p.Discard())
}

// Fill writes a text, gives the file these access bits and commits it.
func (p *Pending) Fill(text []byte, mode fs.FileMode) error {
	_, err := p.file.Write(text)
	if err := errors.Join(err, p.file.Chmod(mode)); err != nil {
		return err
	}
	return p.Commit()
}

// File returns the pending file, open for reading and writing. It stays owned by
// the Pending; do not close it.
func (p *Pending) File() *os.File { return p.file }

// Path returns the name that the pending file has until it is committed, for
// libraries that open files by name.
func (p *Pending) Path() string { return p.target + Suffix }

// Commit makes the file durable, puts it at its target and makes the new name
// durable too. On an error before the renaming the pending file is gone and the
// target is as it was.
func (p *Pending) Commit() error {
	if err := p.file.Sync(); err != nil {
		return errors.Join(fmt.Errorf("make %s durable: %w", p.Path(), err), p.Discard())
	}
	if err := os.Rename(p.Path(), p.target); err != nil {
		return errors.Join(fmt.Errorf("put the new file in place: %w", err), p.Discard())
	}
	p.ended = true
	if err := errors.Join(SyncDirectory(filepath.Dir(p.target)), p.file.Close()); err != nil {
		return fmt.Errorf("%s is in place, but may not survive a power cut: %w", p.target, err)
	}
	return nil
}

// Discard removes the pending file. After Commit it does nothing, so that it can
// be deferred.
func (p *Pending) Discard() error {
	if p.ended {
		return nil
	}
	p.ended = true
	// Removed before it is closed: closing gives up the lock.
	if err := errors.Join(os.Remove(p.Path()), p.file.Close()); err != nil {
		return fmt.Errorf("discard %s: %w", p.Path(), err)
	}
	return nil
}

// SyncDirectory makes the names in a directory durable.
func SyncDirectory(name string) error {
	directory, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(directory.Sync(), directory.Close())
}
