package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// used is what one run of a program took.
type used struct {
	cpu    time.Duration // user and system, of whatever it started and waited for too
	peak   float64       // MiB, see peakMemory
	output []byte
}

// runChild runs a program to its end. It is an error if it fails; what it wrote
// is in that.
func runChild(ctx context.Context, argv ...string) (used, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	// In order first, so that it ends what it started itself.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		return used{}, err
	}
	ended, watched := make(chan struct{}), make(chan float64)
	go func() { watched <- watchMemory(cmd.Process.Pid, ended) }()
	err := cmd.Wait()
	close(ended)
	u := used{peak: <-watched, output: out.Bytes()}
	u.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if err != nil {
		text := log.Bytes()
		return u, fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, text[max(0, len(text)-500):])
	}
	return u, nil
}

// watchMemory returns the most memory that a process and its children had, all
// looked at often: the kernel keeps the high-water mark while a process lives,
// and only allocations of the last instant are missed. (The rusage of its end
// would not do: that begins with the memory of the process that started it.)
func watchMemory(pid int, ended <-chan struct{}) (peak float64) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ended:
			return peak
		case <-ticker.C:
			peak = max(peak, peakMemory(pid))
		}
	}
}

// peakMemory is VmHWM in MiB, of a process and its children together.
func peakMemory(pid int) float64 {
	proc := "/proc/" + strconv.Itoa(pid)
	status, err := os.ReadFile(proc + "/status")
	if err != nil {
		return 0 // it has ended
	}
	var sum float64
	if _, rest, ok := strings.Cut(string(status), "VmHWM:"); ok {
		kib, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
		n, _ := strconv.ParseFloat(kib, 64) // the kernel writes a number
		sum = n / 1024
	}
	threads, _ := os.ReadDir(proc + "/task") // it may end meanwhile
	for _, thread := range threads {
		children, _ := os.ReadFile(proc + "/task/" + thread.Name() + "/children")
		for child := range strings.FieldsSeq(string(children)) {
			if n, err := strconv.Atoi(child); err == nil {
				sum += peakMemory(n)
			}
		}
	}
	return sum
}

// summary is the part of loadstone load's --json that is looked at here.
type summary struct {
	Latency struct {
		Response latency `json:"response"`
	} `json:"latency"`
	Generator struct {
		Lateness struct {
			WithinMs float64 `json:"within_ms"`
		} `json:"lateness"`
	} `json:"generator"`
	ValidityReasons []string `json:"validity_reasons"`
}

// latency is percentiles in milliseconds.
type latency struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
}

// generate runs loadstone load with its summary as JSON.
func generate(ctx context.Context, args ...string) (summary, used, error) {
	u, err := runChild(ctx, append([]string{loadstone, "load", "--json", "-"}, args...)...)
	if err != nil {
		return summary{}, u, err
	}
	var s summary
	if err := json.Unmarshal(u.output, &s); err != nil {
		return s, u, fmt.Errorf("loadstone load's summary: %w", err)
	}
	return s, u, nil
}
