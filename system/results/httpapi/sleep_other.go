//go:build !linux

package httpapi

import "time"

func sleepUntil(t time.Time) { time.Sleep(time.Until(t)) }
