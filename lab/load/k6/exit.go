package k6

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
)

// k6's exit statuses that are more than an error here.
const (
	exitDone         = 0
	exitThresholds   = 99
	exitInterrupted  = 105
	exitMarkedFailed = 110
)

// exitWords says what k6's exit statuses mean.
var exitWords = map[int]string{
	97:              "its cloud run failed",
	98:              "it lost sight of its cloud run",
	100:             "the script's setup took too long",
	101:             "the script's teardown took too long",
	102:             "something in it took too long",
	103:             "it was stopped through its control server",
	104:             "the script's options are not valid",
	exitInterrupted: "it was interrupted from outside",
	106:             "it could not start its control server",
	107:             "the script threw an exception",
	108:             "the script called test.abort()",
	109:             "it crashed",
	255:             "it could not load the script or take its arguments",
}

// complete completes the report with how k6 ended, and says whether that is an
// error. stop is why onWindow ended the load, if it did.
func (p *process) complete(ctx context.Context, r Report, stop string) (Report, error) {
	if r.Result.From.IsZero() {
		r.Result.From, r.Result.To = p.begun, p.begun.Add(p.took) // nothing was measured
	}
	r.Result.Generator.CPUSeconds = p.cpu().Seconds()
	r.Result.Generator.Busy = p.cpu().Seconds() / p.took.Seconds()
	r.Result.Aborted = stop
	status := p.cmd.ProcessState.ExitCode()
	switch {
	case ctx.Err() != nil && status != exitDone && status != exitThresholds:
		return r, fmt.Errorf("k6: %w", context.Cause(ctx))
	case p.killed && stop != "":
		r.Notes = append(r.Notes, fmt.Sprintf("k6 did not end within %v of being told to and was killed: its last second is missing", p.within))
		return r, nil
	case status == exitDone, status == exitInterrupted && stop != "":
		return r, nil
	case status == exitThresholds:
		r.Failed = p.failed("thresholds on metrics ", "its thresholds were crossed")
		if stop == "" && strings.Contains(r.Failed, "abortOnFail") {
			r.Result.Aborted = r.Failed
		}
		return r, nil
	case status == exitMarkedFailed:
		r.Failed = p.failed("test marked as failed", "the script marked the test as failed")
		return r, nil
	}
	return r, p.failure(status)
}

// failure is the error of an end that carried the script not out.
func (p *process) failure(status int) error {
	if wait, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && wait.Signaled() {
		return fmt.Errorf("k6 was killed by signal %d (%s) in the middle of the load; %s", int(wait.Signal()), wait.Signal(), p.log)
	}
	words := exitWords[status]
	if words == "" {
		words = "it failed"
	}
	return errors.New("k6: " + words + " (exit status " + strconv.Itoa(status) + "); " + p.log.String())
}

// failed is k6's own message that begins with start, or else otherwise.
func (p *process) failed(start, otherwise string) string {
	text := otherwise
	for _, line := range p.log.lines() {
		// A line of its log has the message quoted, unless K6_LOG_FORMAT has it
		// another way.
		_, quoted, ok := strings.Cut(line, `msg=`)
		if ok {
			if prefix, err := strconv.QuotedPrefix(quoted); err == nil {
				line, _ = strconv.Unquote(prefix) // it is a quoted text
			}
		}
		if strings.HasPrefix(line, start) {
			text = line
		}
	}
	return text
}
