//go:build !linux

package redistest

import "syscall"

// dieWithParent: only Linux can; elsewhere a test that crashes leaves its server.
func dieWithParent() *syscall.SysProcAttr { return nil }
