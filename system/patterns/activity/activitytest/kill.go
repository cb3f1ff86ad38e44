package activitytest

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"loadstone/system/patterns/activity"
)

// writerVariable makes a test binary the process that is killed, see Kill: it
// holds the path of the store.
const writerVariable = "ACTIVITYTEST_WRITER"

// The writers of the process that is killed, and how many acknowledgements the
// test reads before it kills: enough for several groups of several writers.
const (
	writers   = 8
	killAfter = 300
)

// IsWriter reports whether this process was started by Kill. TestMain asks.
func IsWriter() bool { return os.Getenv(writerVariable) != "" } //nolint:forbidigo // only tests call this

// WriterContext is the life of the process that is killed.
func WriterContext() context.Context { return context.Background() }

// Writer stores activities and prints the id of each that was acknowledged, until
// it is killed. It returns the status of a process that could not.
func Writer(open func(path string) (activity.Store, error)) int {
	store, err := open(os.Getenv(writerVariable)) //nolint:forbidigo // only tests call this
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := 0; ; i++ {
				a := Example(fmt.Sprintf("w%d-%d-%d", w, os.Getpid(), i))
				if err := store.Put(WriterContext(), &a); err != nil {
					fmt.Fprintln(os.Stderr, err)
					return
				}
				// One write of one line: what the reader sees whole was acknowledged.
				if _, err := os.Stdout.WriteString(a.ID + "\n"); err != nil {
					return
				}
			}
		})
	}
	all.Wait()
	return 1
}

// Kill kills a process that writes into the store at path with SIGKILL, twice, and
// then looks for everything that it said was stored.
func Kill(t *testing.T, path string, open func(path string) (activity.Store, error)) {
	t.Helper()
	var stored []string
	for range 2 { // the second begins with what the first left behind
		stored = append(stored, writeAndKill(t, path)...)
	}
	store, err := open(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range stored {
		Want(t, store, Example(id))
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	if len(stored) < 2*killAfter {
		t.Errorf("only %d were acknowledged, so little was tried", len(stored))
	}
}

func writeAndKill(t *testing.T, path string) []string {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // fails a test that would hang
	defer cancel()
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), writerVariable+"="+path) //nolint:forbidigo // only tests call this
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var ids []string
	reader := bufio.NewReader(out)
	for {
		line, err := reader.ReadString('\n')
		if err != nil { // it is dead, and all that it said has been read
			break
		}
		ids = append(ids, strings.TrimSpace(line))
		if len(ids) == killAfter {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); len(ids) < killAfter {
		t.Fatalf("it ended by itself: %v\n%s", err, complaints.String())
	}
	return ids
}
