package follow

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// ErrNoFile is what is at a path that leads to a directory, a pipe or a device.
var ErrNoFile = errors.New("it is not a file")

// Opened is a file of which the first bytes were read. Its owner closes File.
type Opened struct {
	File *os.File
	Head []byte
	Size int64 // of the file
}

// OpenHead opens the file at path and reads its first bytes, at most so many. The error
// wraps fs.ErrNotExist or ErrNoFile where it is one of these.
func OpenHead(path string, most int) (Opened, error) {
	// Opening a pipe would otherwise wait for somebody who writes into it.
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return Opened{}, err
	}
	o := Opened{File: file}
	if err := o.read(most); err != nil {
		return Opened{}, errors.Join(err, file.Close())
	}
	return o, nil
}

func (o *Opened) read(most int) error {
	info, err := o.File.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return ErrNoFile
	}
	o.Size = info.Size()
	o.Head = make([]byte, min(int64(most), o.Size))
	if _, err := o.File.ReadAt(o.Head, 0); err != nil {
		return fmt.Errorf("read %s: %w", o.File.Name(), err)
	}
	return nil
}
