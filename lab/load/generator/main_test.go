package generator

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
	"go.uber.org/goleak"
)

// The test binary plays other parts when this variable names one: the load
// generator, or a server to load, each as a process of its own.
const roleVariable = "LOADSTONE_TEST_ROLE"

const (
	roleGenerator = "generator"
	roleServer    = "server"
)

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case roleGenerator:
		if err := Serve(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case roleServer:
		if err := serveFixedBody(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	default:
		goleak.VerifyTestMain(m)
	}
}

// serveFixedBody answers everything with 400 bytes, on an address that it
// prints, until its standard input ends.
func serveFixedBody() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(os.Stdout, listener.Addr()); err != nil {
		return err
	}
	body := []byte(strings.Repeat("x", 400))
	go func() {
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		os.Exit(0)
	}()
	return fasthttp.Serve(listener, func(ctx *fasthttp.RequestCtx) { ctx.SetBody(body) })
}

// playing returns the command that runs this binary in another role.
func playing(tb testing.TB, role string) []string {
	tb.Helper()
	self, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	return []string{"env", roleVariable + "=" + role, self}
}

// startServer starts a server process and returns its base URL.
func startServer(tb testing.TB) string {
	tb.Helper()
	command := playing(tb, roleServer)
	cmd := exec.Command(command[0], command[1:]...)
	in, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		tb.Fatal(err)
	}
	return "http://" + strings.TrimSpace(address)
}
