package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"loadstone/lab/driver"
)

func (in *instance) logFile() string { return filepath.Join(in.run.config.LogDir, in.Name+".log") }

// fetchLog writes what Docker has of the container's log to its file and
// returns the last lines. The file is replaced whole.
func (in *instance) fetchLog(ctx context.Context) ([]string, error) {
	f, err := os.Create(in.logFile())
	if err != nil {
		return nil, fmt.Errorf("fetch its log: %w", err)
	}
	w := &driver.BoundedLog{To: f, Room: in.run.config.LogBytes}
	err = in.run.docker.run(ctx, call{argv: []string{in.run.docker.docker, "logs", in.id}, within: quickWithin, out: w, both: true})
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("fetch its log: %w", err)
	}
	return w.Tail.Lines(), nil
}

// LastLines fetches the log.
func (in *instance) LastLines(ctx context.Context) string {
	lines, err := in.fetchLog(ctx)
	if err != nil {
		return fmt.Sprintf("; its log cannot be shown (%v)", err)
	}
	return driver.LastLines(lines, in.logFile())
}
