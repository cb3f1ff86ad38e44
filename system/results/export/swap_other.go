//go:build !linux

package export

import (
	"errors"
	"os"
)

// exchange needs a system call that only Linux has in this form.
func exchange(_, b string) error {
	return errors.New("this system cannot exchange two directories: move " + b + " away and export again")
}

// syncAll leaves it to the system to write when it will.
func syncAll(file *os.File) error { return file.Sync() }
