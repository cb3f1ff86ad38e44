package objects

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"loadstone/block/pause"
)

// Directory is a Store of files, each with the name of its object.
//
// A writer holds a lock on one file in the directory, which the kernel lets go when its process
// ends: writes are one after the other, in all processes. Under the lock the object is written to
// one temporary file, made durable and renamed, so a killed writer leaves that file at most, and the
// next one takes it over. Readers take no lock. The tag is the content's SHA-256: an object
// that comes back has the tag it had.
type Directory struct {
	root   *os.Root
	path   string
	inside chan struct{} // holds one value while a writer of this process is at work
	// made are directories whose names this process knows to be durable; the writer's.
	made map[string]bool
}

const (
	lockFile    = ".lock"
	pendingFile = ".pending"
	// lockPoll is the time between two looks at a lock that another process has: less than a durable
	// write takes on most disks.
	lockPoll = 2 * time.Millisecond
)

// OpenDirectory returns the store in a directory, which is made if need be.
func OpenDirectory(path string) (*Directory, error) {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, fmt.Errorf("open objects: %w", err)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, fmt.Errorf("open objects: %w", err)
	}
	return &Directory{root: root, path: path, inside: make(chan struct{}, 1), made: make(map[string]bool)}, nil
}

// Close lets go of the directory; nothing may be called afterwards.
func (d *Directory) Close() error { return d.root.Close() }

// Get implements Store.
func (d *Directory) Get(ctx context.Context, name string) ([]byte, Tag, error) {
	body, err := d.read(ctx, name)
	if err != nil {
		return nil, Absent, wrap("read", name, d.path, err)
	}
	return body, tagOf(body), nil
}

func (d *Directory) read(ctx context.Context, name string) ([]byte, error) {
	if err := errors.Join(ctx.Err(), check(name, nil)); err != nil {
		return nil, err
	}
	file, err := d.root.Open(name)
	if err != nil {
		return nil, missing(err)
	}
	defer func() { _ = file.Close() }() // only read
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, ErrNotFound
	case info.Size() > MaxSize:
		return nil, fmt.Errorf("the object has %d bytes, more than %d", info.Size(), MaxSize)
	}
	body := make([]byte, info.Size())
	_, err = io.ReadFull(file, body)
	return body, err
}

// missing is the one error for a name that leads nowhere: no file, or a file on the way.
func missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return ErrNotFound
	}
	return err
}

func tagOf(body []byte) Tag {
	sum := sha256.Sum256(body)
	return Tag(hex.EncodeToString(sum[:]))
}

// Put implements Store.
func (d *Directory) Put(ctx context.Context, name string, body []byte, was Tag) (Tag, error) {
	err := check(name, body)
	if err == nil {
		err = d.locked(ctx, func() error { return d.replace(ctx, name, body, was) })
	}
	if err != nil {
		return Absent, wrap("write", name, d.path, err)
	}
	return tagOf(body), nil
}

func (d *Directory) replace(ctx context.Context, name string, body []byte, was Tag) error {
	now := Absent
	old, err := d.read(ctx, name)
	switch {
	case err == nil:
		now = tagOf(old)
	case !errors.Is(err, ErrNotFound):
		return err
	}
	if now != was {
		return ErrChanged
	}
	if err := d.fill(body); err != nil {
		return err
	}
	dir := path.Dir(name)
	if err := d.mkdir(dir); err != nil {
		return err
	}
	if err := d.root.Rename(pendingFile, name); err != nil {
		return err
	}
	if err := d.sync(dir); err != nil {
		return fmt.Errorf("it is in place, but may not survive a power cut: %w", err)
	}
	return nil
}

// mkdir makes a directory with a durable name. One that is there already may have been made a moment ago by a writer that
// was killed.
func (d *Directory) mkdir(dir string) error {
	if _, err := d.root.Stat(dir); err == nil && d.made[dir] || dir == "." {
		return nil
	}
	if err := d.root.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for at := dir; at != "."; {
		at = path.Dir(at)
		if err := d.sync(at); err != nil {
			return err
		}
	}
	d.made[dir] = true
	return nil
}

// fill writes the temporary file.
func (d *Directory) fill(body []byte) error {
	file, err := d.root.Create(pendingFile)
	if err != nil {
		return err
	}
	_, err = file.Write(body)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// sync makes the names in a directory durable.
func (d *Directory) sync(dir string) error {
	file, err := d.root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

// List implements Store.
func (d *Directory) List(ctx context.Context, prefix string) ([]string, error) {
	var found []string
	dir := "."
	if i := strings.LastIndexByte(prefix, '/'); i >= 0 {
		dir = prefix[:i]
	}
	err := fs.WalkDir(d.root.FS(), dir, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR):
			return nil // deleted meanwhile
		case err != nil || ctx.Err() != nil:
			return errors.Join(err, ctx.Err())
		case entry.Type().IsRegular() && strings.HasPrefix(name, prefix) && !strings.HasPrefix(name, "."):
			found = append(found, name)
		}
		return nil
	})
	if err != nil {
		return nil, wrap("list", prefix, d.path, err)
	}
	slices.Sort(found) // by names, of which directories are no whole words
	return found, nil
}

// Delete implements Store. It removes directories that have become empty.
func (d *Directory) Delete(ctx context.Context, name string) error {
	err := check(name, nil)
	if err == nil {
		err = d.locked(ctx, func() error { return d.remove(name) })
	}
	return wrap("delete", name, d.path, err)
}

func (d *Directory) remove(name string) error {
	info, err := d.root.Stat(name)
	if err == nil && !info.IsDir() {
		err = d.root.Remove(name)
	}
	switch {
	case errors.Is(missing(err), ErrNotFound), err == nil && info.IsDir(): // there is no such object
		return nil
	case err != nil:
		return err
	}
	dir := path.Dir(name)
	for dir != "." && d.root.Remove(dir) == nil {
		delete(d.made, dir)
		dir = path.Dir(dir)
	}
	return d.sync(dir)
}

// locked runs f when no other writer is at work, in any process.
func (d *Directory) locked(ctx context.Context, f func() error) error {
	select {
	case d.inside <- struct{}{}:
		defer func() { <-d.inside }()
	case <-ctx.Done():
		return ctx.Err()
	}
	file, err := d.root.OpenFile(lockFile, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // which unlocks it
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			return f()
		case !errors.Is(err, unix.EWOULDBLOCK):
			return fmt.Errorf("lock: %w", err)
		case !pause.For(ctx, lockPoll):
			return ctx.Err()
		}
	}
}
