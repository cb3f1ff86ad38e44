package servertest

import (
	"bufio"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Self starts the test's own binary with one more variable in its environment, NAME=VALUE, by
// which TestMain knows that it is to be killed, and returns what it prints and a function that
// ends it and says what it complained of. Reading fails after the time within. It ends with the
// test's process, too.
func Self(tb testing.TB, variable string, within time.Duration) (process *Process, out *bufio.Reader, why func() string) {
	tb.Helper()
	program, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err == nil {
		tb.Cleanup(func() { _ = read.Close() })
		err = read.SetReadDeadline(time.Now().Add(within)) // fails a test that would hang
	}
	if err != nil {
		tb.Fatal(err)
	}
	log := filepath.Join(tb.TempDir(), "log")
	process = New(tb, Program{Command: []string{program}, Env: append(os.Environ(), variable), Log: log, Stdout: write}) //nolint:forbidigo // only tests call this
	process.Start()
	return process, bufio.NewReader(read), func() string {
		process.Kill()
		text, _ := os.ReadFile(log) // without it there is less to say
		return string(text)
	}
}
