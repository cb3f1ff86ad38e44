package servertest

import (
	"net"
	"testing"
	"time"
)

func TestRedis(t *testing.T) {
	t.Parallel()
	s := Redis(t)
	is := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: got %q, want %q", what, got, want)
		}
	}
	is("set", s.Command("SET", "a", "1\r\n2"), "OK")
	is("get", s.Command("GET", "a"), "1\r\n2")
	is("array", s.Command("MGET", "a", "b"), "1\r\n2\n(nil)")
	is("integer", s.Command("EXISTS", "a"), "1")
	if s.Memory() <= 0 || s.CPU() <= 0 {
		t.Errorf("got %d bytes and %v, want both positive", s.Memory(), s.CPU())
	}
	s.Flush()
	is("after a flush", s.Command("GET", "a"), "(nil)")

	s.Command("SET", "a", "1")
	s.Kill()
	if _, err := command(t.Context(), s.Addr(), "PING"); err == nil {
		t.Error("a killed server answers")
	}
	addr := s.Addr()
	s.Start()
	is("address after a restart", s.Addr(), addr)
	is("after a restart", s.Command("GET", "a"), "(nil)")
	if _, err := command(t.Context(), s.Addr(), "NONSENSE"); err == nil {
		t.Error("an unknown command: got nil, want an error")
	}

	s.Pause()
	conn, err := net.DialTimeout("tcp", s.Addr(), 20*time.Second)
	if err != nil {
		t.Fatalf("a paused server's kernel must still accept: %v", err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		t.Fatal(err)
	}
	reply := make([]byte, 7)
	_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := conn.Read(reply); err == nil {
		t.Errorf("a paused server answered %q", reply[:n])
	}
	s.Resume()
	_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	if n, err := conn.Read(reply); string(reply[:n]) != "+PONG\r\n" {
		t.Errorf("after Resume: got %q and %v, want PONG", reply[:n], err)
	}
}
