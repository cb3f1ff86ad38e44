package export

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"loadstone/block/atomicfile"
	"loadstone/block/dataset"
)

// formatVersion is part of a plan: raise it when the same students give other
// files.
const formatVersion = 1

const (
	// manifestName is the file in a published tree that says what it is.
	manifestName = "manifest.json"
	// planName is the file in a tree under way that says what it will be.
	planName = ".plan"
)

// Access bits. A new root is its owner's alone, which shuts all below it, and
// keeps the bits of the root that it replaces. Whoever serves the tree is let in
// by one chmod of the root.
const (
	rootMode fs.FileMode = 0o700
	dirMode  fs.FileMode = 0o755
	fileMode fs.FileMode = 0o644
)

// plan identifies what a tree holds: a hash of everything that its bytes depend on.
type plan string

func planOf(cfg Config, meta dataset.Meta) plan {
	formats := slices.Clone(cfg.Formats)
	slices.Sort(formats)
	// The hash shows nothing of the key, which has 256 bits.
	sum := sha256.Sum256(fmt.Appendf(nil, "export %d, %q, %d students, key %x, %d iterations, %q",
		formatVersion, meta.Fingerprint, meta.Count, cfg.Namer.Key[:], cfg.Namer.Iterations, formats))
	return plan(hex.EncodeToString(sum[:]))
}

type manifest struct {
	Kind string `json:"kind"`
	Plan plan   `json:"plan"`
}

const manifestKind = "exam results, static export"

// inspectRoot returns the plan of the tree at root, "" if there is none. A
// directory with anything else in it is an error: it would be replaced.
func inspectRoot(root string) (plan, error) {
	names, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) || (err == nil && len(names) == 0) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(filepath.Join(root, manifestName))
	var m manifest
	if err != nil || json.Unmarshal(text, &m) != nil || m.Kind != manifestKind {
		return "", fmt.Errorf("%s holds something else than an export: name a directory of its own", root)
	}
	return m.Plan, nil
}

// tree is a tree under way.
type tree struct {
	root, building string
	plan           plan
	lock           *os.File // the directory itself
}

// claim takes the directory in which the tree of this plan grows. What an
// interrupted export of the same plan has left stays; everything else goes, for
// its names would be published with the tree.
func claim(root string, want plan) (*tree, error) {
	root = filepath.Clean(root)
	t := &tree{root: root, building: root + atomicfile.Suffix, plan: want}
	if err := os.Mkdir(t.building, rootMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make a directory to build in: %w", err)
	}
	var err error
	if t.lock, err = os.Open(t.building); err != nil {
		return nil, fmt.Errorf("open the directory to build in: %w", err)
	}
	if err := t.prepare(); err != nil {
		return nil, errors.Join(err, t.close())
	}
	return t, nil
}

func (t *tree) prepare() error {
	if err := takeLock(t.lock); err != nil {
		return err
	}
	locked, lockedErr := t.lock.Stat()
	named, namedErr := os.Stat(t.building)
	if err := errors.Join(lockedErr, namedErr); err != nil {
		return err
	}
	if !os.SameFile(locked, named) { // its owner published it between our open and our lock
		return fmt.Errorf("%s was published meanwhile: %w", t.building, atomicfile.ErrBusy)
	}
	if have, err := os.ReadFile(filepath.Join(t.building, planName)); err != nil || plan(have) != t.plan {
		if err := t.clear(); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(t.building, planName), []byte(t.plan), fileMode)
}

// takeLock locks a directory. The kernel gives the lock up when the process ends,
// however it ends.
func takeLock(dir *os.File) error {
	err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return fmt.Errorf("%s is locked: %w", dir.Name(), atomicfile.ErrBusy)
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", dir.Name(), err)
	}
	return nil
}

func (t *tree) clear() error {
	names, err := os.ReadDir(t.building)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := os.RemoveAll(filepath.Join(t.building, name.Name())); err != nil {
			return fmt.Errorf("clear away an older export: %w", err)
		}
	}
	return nil
}

// put writes a file, unless it is there with these bytes. A file that an
// interruption has cut short has others, so it needs no rename of its own.
func (t *tree) put(path string, content []byte) (wrote bool, err error) {
	path = filepath.Join(t.building, filepath.FromSlash(path))
	if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, content) {
		return false, nil
	}
	err = os.WriteFile(path, content, fileMode)
	if errors.Is(err, fs.ErrNotExist) {
		// The first file of its directory.
		if err := os.MkdirAll(filepath.Dir(path), dirMode); err != nil {
			return false, fmt.Errorf("make a directory of the tree: %w", err)
		}
		err = os.WriteFile(path, content, fileMode)
	}
	if err != nil {
		return false, fmt.Errorf("write a student's file: %w", err)
	}
	return true, nil
}

// publish puts the tree in place if it has exactly so many files.
func (t *tree) publish(files int64) error {
	have, err := t.count()
	if err != nil {
		return err
	}
	if have != files {
		return fmt.Errorf("the tree has %d files instead of %d: a student came twice, or codes have changed since an earlier attempt; remove %s and export again",
			have, files, t.building)
	}
	text, err := json.Marshal(manifest{manifestKind, t.plan})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(t.building, manifestName), append(text, '\n'), fileMode); err != nil {
		return fmt.Errorf("write the manifest: %w", err)
	}
	if err := os.Remove(filepath.Join(t.building, planName)); err != nil {
		return err
	}
	return t.swap()
}

// swap puts the tree at the root, durably, and removes the one that was there.
func (t *tree) swap() error {
	old, err := os.Open(t.root)
	if errors.Is(err, fs.ErrNotExist) {
		return t.rename()
	}
	if err != nil {
		return err
	}
	return errors.Join(t.replace(old), old.Close())
}

func (t *tree) rename() error {
	// One for all files: syncing each would take longer than writing it.
	if err := syncAll(t.lock); err != nil {
		return fmt.Errorf("make the tree durable: %w", err)
	}
	if err := os.Rename(t.building, t.root); err != nil {
		return fmt.Errorf("put the tree in place: %w", err)
	}
	return t.syncParent()
}

// replace exchanges the tree with the old one, which is locked while it is
// removed: another export would build in it.
func (t *tree) replace(old *os.File) error {
	info, err := old.Stat()
	if err != nil {
		return err
	}
	if err := errors.Join(takeLock(old), t.lock.Chmod(info.Mode().Perm())); err != nil {
		return err
	}
	if err := syncAll(t.lock); err != nil {
		return fmt.Errorf("make the tree durable: %w", err)
	}
	if err := exchange(t.building, t.root); err != nil {
		return fmt.Errorf("put the tree in place of the old one: %w", err)
	}
	return errors.Join(t.syncParent(), os.RemoveAll(t.building))
}

func (t *tree) syncParent() error {
	parent, err := os.Open(filepath.Dir(t.root))
	if err != nil {
		return err
	}
	return errors.Join(parent.Sync(), parent.Close())
}

// count counts the files in the student directories.
func (t *tree) count() (files int64, err error) {
	for _, first := range alphabetChars {
		for _, second := range alphabetChars {
			leaf, err := os.Open(filepath.Join(t.building, string(first), string(second)))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return 0, err
			}
			names, err := leaf.Readdirnames(-1)
			if err := errors.Join(err, leaf.Close()); err != nil {
				return 0, err
			}
			files += int64(len(names))
		}
	}
	return files, nil
}

// close gives up the lock. What has been written stays.
func (t *tree) close() error { return t.lock.Close() }
