package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// source is one file of a group that is read again and again, and what to do
// with its text.
type source struct {
	fd   int
	path string
	into func(*Stat, []byte) error
}

// sourceFile names a file and its parser. Optional ones may be missing: which
// files a kernel has depends on its version.
type sourceFile struct {
	path     string
	optional bool
	into     func(*Stat, []byte) error
}

func sourceFiles(p Paths) []sourceFile {
	if p.Version == 2 {
		return []sourceFile{
			{filepath.Join(p.CPU, "cpu.stat"), false, parseCPUStatV2},
			{filepath.Join(p.Memory, "memory.current"), false, number(func(s *Stat, n uint64) { s.Memory = n })},
			{filepath.Join(p.Memory, "memory.peak"), true, number(func(s *Stat, n uint64) { s.MemoryPeak = n })},
			{filepath.Join(p.Memory, "memory.events"), false, parseOOMKills},
		}
	}
	return []sourceFile{
		{filepath.Join(p.CPUAcct, "cpuacct.usage"), false, number(func(s *Stat, n uint64) { s.CPU = time.Duration(n) })},
		{filepath.Join(p.CPUAcct, "cpuacct.usage_user"), true, number(func(s *Stat, n uint64) { s.User = time.Duration(n) })},
		{filepath.Join(p.CPUAcct, "cpuacct.usage_sys"), true, number(func(s *Stat, n uint64) { s.System = time.Duration(n) })},
		{filepath.Join(p.CPU, "cpu.stat"), false, parseCPUStatV1},
		{filepath.Join(p.Memory, "memory.usage_in_bytes"), false, number(func(s *Stat, n uint64) { s.Memory = n })},
		{filepath.Join(p.Memory, "memory.max_usage_in_bytes"), true, number(func(s *Stat, n uint64) { s.MemoryPeak = n })},
		{filepath.Join(p.Memory, "memory.oom_control"), false, parseOOMKills},
	}
}

// openSources opens the files to read. They stay open: a read from an offset
// of 0 gives the values of now, and costs no path lookup.
func openSources(p Paths) ([]source, error) {
	var sources []source
	for _, f := range sourceFiles(p) {
		fd, err := unix.Open(f.path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if errors.Is(err, unix.ENOENT) && f.optional {
			continue
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open %s: %w", f.path, err), closeSources(sources))
		}
		sources = append(sources, source{fd: fd, path: f.path, into: f.into})
	}
	return sources, nil
}

func closeSources(sources []source) error {
	var errs []error
	for _, s := range sources {
		if err := unix.Close(s.fd); err != nil {
			errs = append(errs, fmt.Errorf("close %s: %w", s.path, err))
		}
	}
	return errors.Join(errs...)
}

// read fills st from the file. One pread gets all of it: the kernel hands out
// the text of these files whole when the buffer holds it.
func (s source) read(st *Stat, buf []byte) error {
	for {
		n, err := unix.Pread(s.fd, buf, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return &os.PathError{Op: "read", Path: s.path, Err: err}
		}
		if err := s.into(st, buf[:n]); err != nil {
			return fmt.Errorf("read %s: %w", s.path, err)
		}
		return nil
	}
}

var (
	errNumber  = errors.New("expected a whole number")
	errMissing = errors.New("the expected keys are not there")
)

// number parses a file that holds one number.
func number(set func(*Stat, uint64)) func(*Stat, []byte) error {
	return func(s *Stat, text []byte) error {
		n, ok := parseUint(bytes.TrimRight(text, "\n"))
		if !ok {
			return errNumber
		}
		set(s, n)
		return nil
	}
}

// parseCPUStatV1 reads cpu.stat of version 1: times in nanoseconds.
func parseCPUStatV1(s *Stat, text []byte) error {
	found, err := eachPair(text, func(key []byte, n uint64) bool {
		switch string(key) {
		case "nr_periods":
			s.Periods = n
		case "nr_throttled":
			s.ThrottledPeriods = n
		case "throttled_time":
			s.Throttled = time.Duration(n)
		default:
			return false
		}
		return true
	})
	if err == nil && found < 3 {
		err = errMissing
	}
	return err
}

// parseCPUStatV2 reads cpu.stat of version 2: times in microseconds. A group
// without the cpu controller has only the first three.
func parseCPUStatV2(s *Stat, text []byte) error {
	found, err := eachPair(text, func(key []byte, n uint64) bool {
		switch string(key) {
		case "usage_usec":
			s.CPU = time.Duration(n) * time.Microsecond
		case "user_usec":
			s.User = time.Duration(n) * time.Microsecond
		case "system_usec":
			s.System = time.Duration(n) * time.Microsecond
		case "nr_periods":
			s.Periods = n
		case "nr_throttled":
			s.ThrottledPeriods = n
		case "throttled_usec":
			s.Throttled = time.Duration(n) * time.Microsecond
		default:
			return false
		}
		return true
	})
	if err == nil && found < 3 {
		err = errMissing
	}
	return err
}

// parseOOMKills finds oom_kill in memory.oom_control (version 1, since Linux
// 4.13) or memory.events (version 2). Its absence is no error.
func parseOOMKills(s *Stat, text []byte) error {
	_, err := eachPair(text, func(key []byte, n uint64) bool {
		if string(key) == "oom_kill" {
			s.OOMKills = n
		}
		return true
	})
	return err
}

// eachPair calls visit for every "key number" line and counts how often visit
// knew the key. It does not allocate.
func eachPair(text []byte, visit func(key []byte, n uint64) bool) (known int, err error) {
	for len(text) > 0 {
		var line []byte
		if i := bytes.IndexByte(text, '\n'); i >= 0 {
			line, text = text[:i], text[i+1:]
		} else {
			line, text = text, nil
		}
		if len(line) == 0 {
			continue
		}
		sp := bytes.IndexByte(line, ' ')
		if sp < 0 {
			return known, errNumber
		}
		n, ok := parseUint(line[sp+1:])
		if !ok {
			return known, errNumber
		}
		if visit(line[:sp], n) {
			known++
		}
	}
	return known, nil
}

// parseUint is strconv.ParseUint for bytes, base 10 only.
func parseUint(b []byte) (uint64, bool) {
	if len(b) == 0 || len(b) > 20 {
		return 0, false
	}
	var n uint64
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		d := uint64(c - '0')
		if n > (^uint64(0)-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, true
}
