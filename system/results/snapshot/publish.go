package snapshot

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"loadstone/block/atomicfile"
	"loadstone/block/dataset"
	"loadstone/system/results"
)

// State is what the current file holds, by this machine's clock; false once the follower
// is closed. Look-ups that begin later are answered from this file or a newer one.
func (f *Follower) State() (results.State, bool) {
	contents := f.files.Current()
	if contents == nil {
		return results.State{}, false
	}
	return results.State{Set: contents.set}.Scheduled(contents.header.publishAt), true
}

// setOf is the identity of a file's students. A file is replaced whole, and those that hold
// the same are the same.
func setOf(meta dataset.Meta) results.Set {
	sum := sha256.Sum256(fmt.Appendf(nil, "snapshot %d %s", meta.Count, meta.Fingerprint))
	return results.Set(binary.BigEndian.Uint64(sum[:]) | 1)
}

// Reschedule replaces the file at path by one with the instant of publication that
// choose returns; the clock is this machine's. If that is the same, or choose fails, the
// file is left alone. The error is choose's or one of Open's, or wraps atomicfile.ErrBusy
// if another build of the file is under way.
func Reschedule(path string, choose results.Reschedule) (err error) {
	file, header, err := openFile(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	at, err := choose(header.publishAt, time.Now())
	if err != nil || at.Equal(header.publishAt) {
		return err
	}
	pending, err := atomicfile.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pending.Discard()) }()
	if _, err := io.Copy(pending.File(), file); err != nil {
		return fmt.Errorf("copy snapshot %s: %w", path, err)
	}
	header.publishAt = at
	if _, err := pending.File().WriteAt(header.encode(), 0); err != nil {
		return fmt.Errorf("write snapshot %s: %w", path, err)
	}
	return pending.Commit()
}
