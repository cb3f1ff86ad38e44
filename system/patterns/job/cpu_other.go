//go:build !linux

package job

import "time"

// cpuTime is the time that f takes; on an idle machine that is its processor time.
func cpuTime(f func()) time.Duration {
	began := time.Now()
	f()
	return time.Since(began)
}
