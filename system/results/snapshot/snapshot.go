// Package snapshot keeps a whole data set as one immutable file of finished
// response bodies with an index, and serves a copy of it from memory.
//
// Build writes such a file from any source. Follow checks and serves whatever file
// is at a path and, while it runs, moves to a newer one as soon as it is there.
// Nothing is ever changed in a snapshot: new data is a new file.
//
// # Who owns the memory
//
// A file is copied into a mapping of its own, outside of Go's heap, and a Page points
// straight into it: a look-up copies nothing and allocates nothing. That raises the
// question when the mapping may go. Unmapping it while somebody still reads a page is a
// segmentation fault, and nobody tells us when they are done.
//
// The garbage collector knows. A mapping belongs to one heap object, contents,
// which is reachable from the store that serves it and, as Page.Owner, from every
// page that points into it. A cleanup is attached to that object
// (runtime.AddCleanup): it unmaps when the object is unreachable, that is, when
// the store has been closed or has moved to another file and the last page is
// gone. So
//
//   - whoever holds a Page may read it, however old it is, whatever the store
//     did in the meantime
//   - whoever keeps Body without its Page must copy it first: a slice into
//     mapped memory keeps nothing alive by itself
//   - a mapping is released at the collection after its last use, at the latest
//     about two minutes later, as the runtime forces one that often. Until then,
//     and while a new file is checked, there are two copies
//
// A reference count would unmap at once but costs two atomic writes per look-up
// to a cache line that all cores share, and a caller who forgets to release
// one page keeps the mapping for good. Locks cost more. Copying costs an
// allocation per look-up.
//
// # What is trusted
//
// Follow reads the whole file and proves that it is what Build wrote: both
// checksums, every record, every slot of the index. Look-ups rely on the proof
// and check nothing again. It holds whatever happens to the file afterwards, for what
// was proven is the copy: a file that is overwritten, cut short or deleted while it is
// served changes no answer, and a Follower refuses what is no whole snapshot. ADR 012
// has the alternatives.
package snapshot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"loadstone/block/dataset"
	"loadstone/block/follow"
	"loadstone/system/results"
)

// Describe reads what the file at path says it holds, and checks the header and
// the size, but not the contents. Its errors are those of Follow.
func Describe(path string) (meta dataset.Meta, err error) {
	file, header, err := openFile(path)
	if err != nil {
		return dataset.Meta{}, err
	}
	return header.meta, file.Close()
}

// openFile opens the file and reads its header. The errors say what to do.
func openFile(path string) (*os.File, header, error) {
	o, err := follow.OpenHead(path, headerSize)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, header{}, fmt.Errorf("open snapshot %s: %w: publish one first", path, results.ErrMissing)
	case errors.Is(err, follow.ErrNoFile):
		return nil, header{}, refusal(path, fmt.Errorf("%w: %w", results.ErrVersion, err))
	case err != nil:
		return nil, header{}, fmt.Errorf("open snapshot: %w", err)
	}
	h, err := decodeHeader(o.Head, o.Size)
	if err != nil {
		return nil, h, errors.Join(refusal(path, err), o.File.Close())
	}
	return o.File, h, nil
}

// refusal says why the file at path cannot be served and, if the file is to
// blame, what to do.
func refusal(path string, err error) error {
	if errors.Is(err, results.ErrCorrupt) || errors.Is(err, results.ErrVersion) {
		return fmt.Errorf("snapshot %s is refused: %w; publish it again", path, err)
	}
	return fmt.Errorf("open snapshot %s: %w", path, err)
}
