package servertest

import "syscall"

// attributes let the kernel send sig to the program when the thread that started
// it ends.
func attributes(sig syscall.Signal, account *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: sig, Credential: account}
}
