package cli

import (
	"errors"
	"io"

	"loadstone/block/atomicfile"
)

// junitFile is a file that is begun before the work whose outcome it will have, so that one
// that cannot be written is known then; nothing if there is none to write.
type junitFile struct{ *atomicfile.Pending }

// beginJUnit begins the file at path, or nothing if path is empty.
func beginJUnit(path string) (junitFile, error) {
	if path == "" {
		return junitFile{}, nil
	}
	if path == "-" {
		return junitFile{}, usagef("--junit -: only --json can go to standard output; write --junit FILE")
	}
	file, err := atomicfile.CreateShared(path)
	if err != nil {
		return junitFile{}, usageError{err}
	}
	return junitFile{file}, nil
}

// discard gives the file up.
func (f junitFile) discard() error {
	if f.Pending == nil {
		return nil
	}
	return f.Discard()
}

// write writes the file, if there is one.
func (f junitFile) write(form func(io.Writer) error) error {
	if f.Pending == nil {
		return nil
	}
	if err := form(f.File()); err != nil {
		return errors.Join(err, f.Discard())
	}
	return f.Commit()
}
