package plant

import (
	"bytes"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// disk is a file that requests write to, one at a time, each until it is on the disk.
type disk struct {
	mu   sync.Mutex
	file *os.File
	data []byte
}

// newDisk makes the file. It has no name, so that nothing of it is left.
func newDisk(d Disk) (*disk, error) {
	f, err := os.CreateTemp("", "plant-*")
	if err != nil {
		return nil, fmt.Errorf("make a file to write to: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("take the name from the file that is written to: %w", err)
	}
	return &disk{file: f, data: bytes.Repeat([]byte("x"), d.Bytes)}, nil
}

func (d *disk) write() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.file.WriteAt(d.data, 0); err != nil {
		return fmt.Errorf("write to the disk: %w", err)
	}
	if err := unix.Fdatasync(int(d.file.Fd())); err != nil {
		return fmt.Errorf("wait for the disk: %w", err)
	}
	return nil
}

func (d *disk) close() error { return d.file.Close() }
