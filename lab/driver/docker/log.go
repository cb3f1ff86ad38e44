package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// tailBytes of the end of a log are kept for error messages, and tailLines
	// of them are shown.
	tailBytes = 4 << 10
	tailLines = 15
)

func (in *instance) logFile() string { return filepath.Join(in.run.config.LogDir, in.name+".log") }

// fetchLog writes what Docker has of the container's log to its file and
// returns the last lines. The file is replaced whole.
func (in *instance) fetchLog(ctx context.Context) ([]string, error) {
	f, err := os.Create(in.logFile())
	if err != nil {
		return nil, fmt.Errorf("fetch its log: %w", err)
	}
	w := &boundedWriter{to: f, room: in.run.config.LogBytes}
	err = in.run.docker.run(ctx, call{argv: []string{in.run.docker.docker, "logs", in.id}, within: quickWithin, out: w, both: true})
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("fetch its log: %w", err)
	}
	return w.lines(), nil
}

// lastLines are those that an error shows. It fetches the log.
func (in *instance) lastLines(ctx context.Context) string {
	lines, err := in.fetchLog(ctx)
	switch {
	case err != nil:
		return fmt.Sprintf("; its log cannot be shown (%v)", err)
	case len(lines) == 0:
		return fmt.Sprintf("; it wrote nothing to its log (%s)", in.logFile())
	}
	const indent = "\n    "
	return fmt.Sprintf("; its last lines (of %s):%s%s", in.logFile(), indent, strings.Join(lines, indent))
}

// boundedWriter writes as much as there is room for, and keeps the end of all.
type boundedWriter struct {
	to   io.Writer
	room int64
	tail []byte
}

func (w *boundedWriter) Write(p []byte) (int, error) {
	w.tail = append(w.tail, p[max(0, len(p)-tailBytes):]...)
	w.tail = slices.Delete(w.tail, 0, max(0, len(w.tail)-tailBytes))
	head := p[:min(int64(len(p)), w.room)]
	w.room -= int64(len(head))
	if _, err := w.to.Write(head); err != nil {
		return 0, err
	}
	return len(p), nil
}

// lines are the last lines, the first of which may have lost its beginning.
func (w *boundedWriter) lines() []string {
	text := strings.TrimSpace(string(bytes.ToValidUTF8(w.tail, []byte("?"))))
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	return lines[max(0, len(lines)-tailLines):]
}
