// Package project is what is on disk about systems that are kept up: one
// directory for each, named as the Compose project, with a record of who keeps
// it up and where it can be reached, its logs and its volumes.
//
// It starts and stops nothing. The process that keeps a system up owns its
// directory, by a lock that the kernel takes back when that process ends,
// however it ends; any process may read the record. A record whose process is
// gone is stale and counts as none: a process is known by its pid and by when it
// started, so another one with the same pid is not mistaken for it.
package project

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"loadstone/block/atomicfile"
	"loadstone/lab/driver/guardian"
)

// The phases of a Record.
const (
	Starting = "starting"
	Up       = "up"
	Stopping = "stopping"
	Down     = "down" // nobody keeps it up
)

const (
	procRoot    = "/proc"
	lockName    = "lock"
	recordName  = "up.json"
	volumesName = "volumes"
)

// Record says who keeps a system up and where it can be reached.
type Record struct {
	Name string `json:"name"`
	// Target is what was asked for, as one would say it: "results embedded".
	Target string `json:"target"`
	// Files are the Compose files, absolute; with Variant they tell whether two
	// systems of one name are the same.
	Files   []string `json:"files"`
	Variant string   `json:"variant"`
	Driver  string   `json:"driver"`
	// Profiles are those of the Compose files that are enabled, sorted.
	Profiles []string `json:"profiles"`

	Owner guardian.Process `json:"owner"`
	Phase string           `json:"phase"`
	Since time.Time        `json:"since"` // when it came into this phase

	Services  []Service `json:"services"`
	Published []Port    `json:"published"`
}

// Service is a service that runs.
type Service struct {
	Name      string   `json:"name"`
	Addresses []string `json:"addresses"` // of its instances, with the port if it has one
}

// Port is a port of the host that leads to a service.
type Port struct {
	Service string `json:"service"`
	Address string `json:"address"` // host:port
	Port    int    `json:"port"`    // of the service itself
}

// Store is the directory of all projects of a user.
type Store struct{ Dir string }

// Path is the directory of one project.
func (s Store) Path(name string) string { return filepath.Join(s.Dir, name) }

// Logs and Volumes are where a project keeps them.
func (s Store) Logs(name string) string { return filepath.Join(s.Path(name), "logs") }

// Volumes is the directory of a project's named volumes.
func (s Store) Volumes(name string) string { return filepath.Join(s.Path(name), volumesName) }

// Names are the projects that there is anything about, sorted.
func (s Store) Names() ([]string, error) {
	entries, err := os.ReadDir(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list running systems: %w", err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// Alive are the records of all systems that are being started, up or being
// stopped, by name.
func (s Store) Alive() ([]Record, error) {
	names, err := s.Names()
	if err != nil {
		return nil, err
	}
	var alive []Record
	for _, name := range names {
		r, ok, err := s.Find(name)
		if err != nil {
			return nil, err
		}
		if ok {
			alive = append(alive, r)
		}
	}
	return alive, nil
}

// Find reads a project's record. If ok is false the system is not up, and r is
// the record of the last time, or empty.
func (s Store) Find(name string) (r Record, ok bool, err error) {
	text, err := os.ReadFile(filepath.Join(s.Path(name), recordName))
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}, false, nil
	}
	if err != nil {
		return Record{}, false, fmt.Errorf("check whether %s is running: %w", name, err)
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return Record{}, false, fmt.Errorf("check whether %s is running: %s is damaged; remove it: %w", name, filepath.Join(s.Path(name), recordName), err)
	}
	return r, r.Owner.PID > 1 && r.Owner.Alive(procRoot), nil
}

// Signal sends a signal to the process that keeps the system up, and to no other
// that has its pid by now. One that has ended already is no error.
func (r *Record) Signal(signal os.Signal) error {
	p, err := os.FindProcess(r.Owner.PID) // holds on to the process, not the number
	if err != nil {
		return fmt.Errorf("find process %d: %w", r.Owner.PID, err)
	}
	defer func() { _ = p.Release() }()
	if !r.Owner.Alive(procRoot) {
		return nil
	}
	if err := p.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("tell process %d to stop: %w", r.Owner.PID, err)
	}
	return nil
}

// Ending says whether the process that kept the system up still runs. It does for some milliseconds
// after it has given up the record.
func (r *Record) Ending() bool { return r.Owner.Alive(procRoot) }

// UpError is a project that another process keeps up.
type UpError struct{ Record Record }

func (e *UpError) Error() string {
	return fmt.Sprintf("a system called %s is already running: %s, started by process %d", e.Record.Name, e.Record.Target, e.Record.Owner.PID)
}

// Claim is the right to keep a project up.
type Claim struct {
	dir    string
	lock   *os.File
	record Record
}

// Claim takes a project, whose record is r from now on, in its phase or, if it
// has none, Starting. Its error is an *UpError
// if another process has it.
func (s Store) Claim(ctx context.Context, r Record) (*Claim, error) {
	if err := CheckName(r.Name); err != nil {
		return nil, err
	}
	dir := s.Path(r.Name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("keep %s up: %w", r.Name, err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("keep %s up: %w", r.Name, err)
	}
	if err := s.acquire(ctx, lock, r.Name); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	c := &Claim{dir: dir, lock: lock, record: r}
	if c.record.Owner, err = guardian.Identify(procRoot, os.Getpid()); err == nil {
		err = c.Update(cmp.Or(r.Phase, Starting), func(*Record) {})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("keep %s up: %w", r.Name, err), lock.Close())
	}
	return c, nil
}

// acquire locks. Between taking the lock and writing the record, and between
// giving up the record and the end, the owner is not known for some
// milliseconds; those are waited out.
func (s Store) acquire(ctx context.Context, lock *os.File, name string) error {
	const (
		patience = 5 * time.Second
		pause    = 20 * time.Millisecond
	)
	for deadline := time.Now().Add(patience); ; {
		err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return fmt.Errorf("keep %s up: lock %s: %w", name, lock.Name(), err)
		}
		if r, ok, err := s.Find(name); err == nil && ok {
			return &UpError{Record: r}
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("keep %s up: an unknown process has locked %s", name, lock.Name())
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Update changes the record and the phase. Readers see the old one or the new
// one, never half of it.
func (c *Claim) Update(phase string, change func(*Record)) error {
	change(&c.record)
	c.record.Phase, c.record.Since = phase, time.Now()
	text, err := json.MarshalIndent(c.record, "", "  ")
	if err != nil {
		return err
	}
	if err := atomicfile.Write(filepath.Join(c.dir, recordName), append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("record that %s is %s: %w", c.record.Name, phase, err)
	}
	return nil
}

// Record is the record as it was last written.
func (c *Claim) Record() Record { return c.record }

// RemoveVolumes deletes the project's volumes, which nothing may use.
func (c *Claim) RemoveVolumes() error {
	if err := os.RemoveAll(filepath.Join(c.dir, volumesName)); err != nil {
		return fmt.Errorf("remove the volumes of %s: %w", c.record.Name, err)
	}
	return nil
}

// Release gives the project back. The record stays, without an owner.
func (c *Claim) Release() error {
	return errors.Join(c.Update(Down, func(r *Record) { r.Owner = guardian.Process{} }), c.lock.Close())
}

// CheckName refuses what Compose does not allow as a project's name, which is
// also what is no good as the name of a directory.
func CheckName(name string) error {
	bad := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_'
	}
	if name == "" || strings.ContainsFunc(name, bad) || slices.Contains([]byte("-_"), name[0]) {
		return fmt.Errorf("%q is not a valid project name; write lower-case letters, digits, - and _, beginning with a letter or a digit", name)
	}
	return nil
}
