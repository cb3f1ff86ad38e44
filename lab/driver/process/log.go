package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"loadstone/lab/driver"
)

// instanceLog is an instance's log file: its head up to a limit, and the last
// lines if there was more.
type instanceLog struct {
	path string

	mu     sync.Mutex // guards all below
	file   *os.File
	room   int64 // bytes that still go to the file
	beyond int64 // bytes that did not
	tail   driver.Tail
}

func newLog(path string, limit int64) (*instanceLog, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("make a log: %w", err)
	}
	return &instanceLog{path: path, file: f, room: limit}, nil
}

// Write takes all of p whatever becomes of it: an instance must not stop
// because its log is full or the disk is.
func (l *instanceLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.tail.Write(p) // has no error
	head := p[:min(int64(len(p)), l.room)]
	l.room -= int64(len(head))
	if n, err := l.file.Write(head); err != nil {
		l.beyond += int64(len(head) - n)
		l.room = 0
	}
	l.beyond += int64(len(p) - len(head))
	return len(p), nil
}

// reopen goes on with a log that was closed, below a line that says why.
func (l *instanceLog) reopen(why string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("continue a log: %w", err)
	}
	l.file, l.beyond, l.tail = f, 0, driver.Tail{}
	if _, err := fmt.Fprintf(f, "[%s]\n", why); err != nil {
		return errors.Join(fmt.Errorf("continue a log: %w", err), f.Close())
	}
	return nil
}

// lines are the last lines so far.
func (l *instanceLog) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tail.Lines()
}

// close notes what is missing, with the last lines, and closes the file.
func (l *instanceLog) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var err error
	if l.beyond > 0 {
		_, err = fmt.Fprintf(l.file, "\n[%d bytes are not kept here; the log ended with:]\n%s\n", l.beyond, strings.Join(l.tail.Lines(), "\n"))
	}
	return errors.Join(err, l.file.Close())
}

// copyLog copies what an instance writes into its log until all writers are
// gone or the reader's deadline has passed.
func copyLog(l *instanceLog, r io.Reader) {
	// The only errors are the end and the deadline: Write has none.
	_, _ = io.CopyBuffer(struct{ io.Writer }{l}, struct{ io.Reader }{r}, make([]byte, 32<<10))
}
