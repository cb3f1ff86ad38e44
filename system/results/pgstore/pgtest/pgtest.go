// Package pgtest runs a real PostgreSQL for tests: of the installed binaries, in
// a temporary directory, on a loopback address of its own, without syncs.
//
// It is for tests only. A test binary has one shared server, started by the
// first test that asks for a Database and stopped by Main; a test that kills
// its server starts one with New. A server never outlives the test binary,
// however that ends. Where PostgreSQL is not installed a test is skipped with
// the reason, and fails if CI=true.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// errNotInstalled is why a test is skipped.
var errNotInstalled = errors.New("PostgreSQL is not installed: no " + binaries + "; apt-get install postgresql")

// binaries is where Debian and Ubuntu put the programs of each version.
const binaries = "/usr/lib/postgresql/*/bin"

// startTimeout bounds initdb and the start: two seconds on an idle machine.
const startTimeout = 90 * time.Second

// shared is the server of this test binary. It is a global because the tests of
// a package have nothing else in common; Main owns it.
var shared struct { //nolint:gochecknoglobals // see above
	sync.Mutex
	server *Server
	err    error
	number int
}

// Main runs the tests and stops the shared server, whatever came out. Call it
// from TestMain:
//
//	func TestMain(m *testing.M) { os.Exit(pgtest.Main(m.Run)) }
func Main(run func() int) (code int) {
	defer func() {
		shared.Lock()
		defer shared.Unlock()
		if shared.server == nil {
			return
		}
		if err := shared.server.close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}()
	return run()
}

// Database makes an empty database on the shared server and returns its address.
func Database(tb testing.TB) string {
	tb.Helper()
	return Shared(tb).Database(tb)
}

// Shared returns the shared server and starts it if it does not run yet.
func Shared(tb testing.TB) *Server {
	tb.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil && shared.err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		defer cancel()
		shared.server, shared.err = start(ctx, 0)
	}
	need(tb, shared.err)
	return shared.server
}

// New starts a server for one test, which may stop and kill it. It is gone when
// the test ends.
func New(tb testing.TB) *Server {
	tb.Helper()
	shared.Lock()
	shared.number++
	number := shared.number
	shared.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	s, err := start(ctx, number)
	need(tb, err)
	tb.Cleanup(func() {
		if err := s.close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// need ends the test if there is no server.
func need(tb testing.TB, err error) {
	tb.Helper()
	if errors.Is(err, errNotInstalled) && os.Getenv("CI") != "true" { //nolint:forbidigo // only tests call this
		tb.Skip(err)
	}
	if err != nil {
		tb.Fatal(err)
	}
}

// Database makes an empty database on the server and returns its address. It is
// dropped when the test ends, if the server still answers.
func (s *Server) Database(tb testing.TB) string {
	tb.Helper()
	name := fmt.Sprintf("test%d", s.databases.Add(1))
	s.execute(tb, "CREATE DATABASE "+name)
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		defer cancel()
		// A server that the test has stopped keeps it; the directory goes anyway.
		if conn, err := pgx.Connect(ctx, s.URL("postgres")); err == nil {
			_, dropErr := conn.Exec(ctx, "DROP DATABASE "+name+" WITH (FORCE)")
			if err := errors.Join(dropErr, conn.Close(ctx)); err != nil {
				tb.Errorf("drop database %s: %v", name, err)
			}
		}
	})
	return s.URL(name)
}

func (s *Server) execute(tb testing.TB, statement string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		tb.Fatal(err)
	}
	_, err = conn.Exec(ctx, statement)
	if err := errors.Join(err, conn.Close(ctx)); err != nil {
		tb.Fatalf("%s: %v", statement, err)
	}
}

// Program is the path of one of PostgreSQL's programs, such as psql, of the
// newest version installed.
func Program(name string) (string, error) {
	found, err := filepath.Glob(filepath.Join(binaries, name))
	if err != nil {
		return "", fmt.Errorf("find %s: %w", name, err)
	}
	if len(found) == 0 {
		return "", errNotInstalled
	}
	// 9.6 sorts after 15 as text, but has been out of support for years.
	return slices.Max(found), nil
}
