package k6

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"loadstone/lab/load"
)

// endWithin is how long k6 may take to end by itself once it is told to: it
// breaks off the iterations, runs the script's teardown and prints its summary.
// That is a second, and the teardown's own time.
const endWithin = 15 * time.Second

// longestLine bounds a line of k6's output. One point is half a kilobyte, and
// longer only by the script's own tags.
const longestLine = 256 << 10

// Run has k6 carry out the script and returns what it measured. onWindow is
// called with each second on the caller's goroutine, one to two seconds after
// it began; windows are cut by the times in k6's own output, and a second in
// which k6 wrote nothing has none. If onWindow returns a text, that ends the
// load and becomes Result.Aborted; onWindow may be nil.
//
// It is an error if k6 cannot be started, does not carry the script out, or is
// ended from outside, by ctx too; the error has k6's exit status in words and
// the last lines that it wrote, and the Report what was measured until then.
// Crossed thresholds are no error: see Report.Failed. When Run returns, k6 and
// whatever it started in its process group are gone.
func Run(ctx context.Context, config Config, onWindow func(load.Window) (stop string)) (Report, error) {
	return run(ctx, config, endWithin, onWindow)
}

func run(ctx context.Context, config Config, within time.Duration, onWindow func(load.Window) string) (Report, error) {
	if ctx.Err() != nil {
		return Report{}, fmt.Errorf("run k6: %w", context.Cause(ctx))
	}
	p, err := start(ctx, config, within)
	if err != nil {
		return Report{}, fmt.Errorf("run k6: %w", err)
	}
	unhook := context.AfterFunc(ctx, p.end)
	defer unhook()

	var stop string
	c := newCollector(p.busy, func(w load.Window) error {
		if onWindow == nil || stop != "" {
			return nil
		}
		if stop = onWindow(w); stop != "" {
			p.end()
		}
		return nil
	})
	readErr := readLines(p.points, c)
	if readErr != nil {
		p.end() // nobody reads what it writes any more, and it would wait for that
	}
	p.wait()

	report, err := c.report()
	if err = errors.Join(readErr, err); err != nil {
		return report, fmt.Errorf("read k6's output: %w", err)
	}
	return p.complete(ctx, report, stop)
}

// readLines feeds every line to c until the output ends.
func readLines(r io.Reader, c *collector) error {
	lines := bufio.NewReaderSize(r, longestLine)
	for {
		text, err := lines.ReadSlice('\n')
		for errors.Is(err, bufio.ErrBufferFull) {
			if len(text) > 0 {
				c.unreadable(text, errors.New("the line is too long"))
				text = nil
			}
			_, err = lines.ReadSlice('\n')
		}
		if text = bytes.TrimSuffix(text, []byte{'\n'}); len(text) > 0 {
			if err := c.line(text); err != nil {
				return err
			}
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF), errors.Is(err, os.ErrDeadlineExceeded):
			return c.finish()
		default:
			return err
		}
	}
}
