//go:build !linux

package servertest

import "syscall"

// attributes: only Linux ends a program with the one that started it; elsewhere a
// test that crashes leaves its server.
func attributes(_ syscall.Signal, account *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: account}
}
