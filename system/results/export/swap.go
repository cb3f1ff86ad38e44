package export

import (
	"os"

	"golang.org/x/sys/unix"
)

// exchange swaps two directories in one step. Not every file system can: where
// it cannot, the error says so and nothing has changed.
func exchange(a, b string) error {
	if err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE); err != nil {
		return &os.LinkError{Op: "exchange", Old: a, New: b, Err: err}
	}
	return nil
}

// syncAll makes durable what has been written to the file system of the file.
func syncAll(file *os.File) error {
	if err := unix.Syncfs(int(file.Fd())); err != nil {
		return os.NewSyscallError("syncfs", err)
	}
	return nil
}
