package driver

import "io"

// BoundedLog writes to another writer as much as there is room for, and keeps the end of
// all.
type BoundedLog struct {
	To   io.Writer
	Room int64 // in bytes
	Tail Tail
}

// Write takes all of p, whatever there is room for.
func (l *BoundedLog) Write(p []byte) (int, error) {
	_, _ = l.Tail.Write(p) // has no error
	head := p[:min(int64(len(p)), l.Room)]
	l.Room -= int64(len(head))
	if _, err := l.To.Write(head); err != nil {
		return 0, err
	}
	return len(p), nil
}
