package redistest

import "syscall"

// dieWithParent lets the kernel kill the server when the test's process is gone.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
