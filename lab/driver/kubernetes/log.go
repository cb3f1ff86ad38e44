package kubernetes

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"loadstone/lab/driver"
)

func (in *instance) logFile() string { return filepath.Join(in.run.config.LogDir, in.Name+".log") }

// follower writes the log of one life to the instance's file while it is written. It
// ends when the container has ended and all is read.
type follower struct {
	done   chan struct{}
	cancel context.CancelFunc

	mu  sync.Mutex // guards log
	log driver.BoundedLog
}

// Write is for the copying.
func (f *follower) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.log.Write(p)
}

func (f *follower) lines() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.log.Tail.Lines()
}

// finish waits until all is read, for a while.
func (f *follower) finish(within time.Duration) {
	late := time.AfterFunc(within, f.cancel)
	defer late.Stop()
	<-f.done
}

// follow begins to follow the log of a pod.
func (in *instance) follow(ctx context.Context, pod string) *follower {
	f := &follower{done: make(chan struct{})}
	ctx, f.cancel = context.WithCancel(ctx)
	in.run.ends.Go(func() {
		defer close(f.done)
		defer f.cancel()
		if err := in.copyLog(ctx, pod, f); err != nil && ctx.Err() == nil {
			in.run.Warnf("%s: its log is not whole: %v", in.Name, err)
		}
	})
	return f
}

func (in *instance) copyLog(ctx context.Context, pod string, f *follower) (err error) {
	file, err := os.OpenFile(in.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer func() {
		if errClose := file.Close(); err == nil {
			err = errClose
		}
	}()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	f.mu.Lock()
	f.log.To, f.log.Room = file, max(in.run.config.LogBytes-info.Size(), 0)
	f.mu.Unlock()
	stream, err := in.run.cluster.CoreV1().Pods(in.run.name).GetLogs(pod, &corev1.PodLogOptions{Container: mainContainer, Follow: true}).Stream(ctx)
	if err != nil {
		return in.run.cluster.explain("read it", err)
	}
	defer stream.Close() //nolint:errcheck // read only
	_, err = io.Copy(f, stream)
	return err
}

// LastLines are those that have come so far.
func (in *instance) LastLines(context.Context) string {
	lines, err := in.lastLines()
	if err != nil {
		return fmt.Sprintf("; its log cannot be shown (%v)", err)
	}
	return driver.LastLines(lines, in.logFile())
}
