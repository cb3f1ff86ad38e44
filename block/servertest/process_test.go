package servertest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	code := Main(m.Run)
	if err := goleak.Find(); code == 0 && err != nil {
		_, _ = os.Stderr.WriteString(err.Error() + "\n")
		code = 1
	}
	os.Exit(code)
}

// A server outlives the thread of whoever asked for it: the kernel's death signal
// belongs to a thread, and Go ends those of locked goroutines that end.
func TestOutlivesTheThreadThatAskedForIt(t *testing.T) {
	t.Parallel()
	p := New(t, Program{Command: []string{"/bin/sleep", "1000"}, Log: filepath.Join(t.TempDir(), "log")})
	asked := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with this goroutine
		asked <- p.start(context.Background())
	}()
	if err := <-asked; err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.ended:
		t.Error("it ended with the thread that asked for it")
	case <-time.After(200 * time.Millisecond):
	}
}

func TestAProgramThatEndsIsNotReady(t *testing.T) {
	t.Parallel()
	p := New(t, Program{
		Command: []string{"/bin/sh", "-c", "echo no such luck; exit 3"}, Log: filepath.Join(t.TempDir(), "log"),
		Ready: func(context.Context) error { return errors.New("not yet") },
	})
	if err := p.start(t.Context()); err == nil || !strings.Contains(err.Error(), "no such luck") {
		t.Errorf("got %v, want what it has said", err)
	}
}

// answers reports whether a database answers within a time, which is short only where it
// should not.
func answers(ctx context.Context, url string, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	s := Postgres(t)
	url := s.Database(t)
	if other := s.Database(t); other == url {
		t.Errorf("two databases are both %s", url)
	}
	s.Pause()
	if err := answers(t.Context(), url, 500*time.Millisecond); err == nil {
		t.Error("a paused server answers")
	}
	s.Resume()
	s.Kill()
	if err := answers(t.Context(), url, 500*time.Millisecond); err == nil {
		t.Error("a killed server answers")
	}
	s.Start()
	if err := answers(t.Context(), url, time.Minute); err != nil {
		t.Errorf("the database after a restart: %v", err)
	}
	if used, err := s.CPU(); err != nil || used <= 0 {
		t.Errorf("got %v and %v, want the processor time that it used", used, err)
	}
}

// The tests of a package share a server, and each has a database of its own.
func TestDatabase(t *testing.T) {
	t.Parallel()
	url := Database(t)
	if other := Database(t); other == url {
		t.Errorf("two databases are both %s", url)
	}
	if err := answers(t.Context(), url, time.Minute); err != nil {
		t.Error(err)
	}
	if one, two := SharedPostgres(t), SharedPostgres(t); one != two {
		t.Error("there are two shared servers")
	}
}
