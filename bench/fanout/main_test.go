package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"loadstone/block/servertest"
	"loadstone/block/websocket"
)

// TestMain makes the test's own program the servers that the bench starts of itself.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		main()
		return
	}
	os.Exit(m.Run())
}

// small runs a form of the bench and looks for words in what it prints.
func small(t *testing.T, want []string, args ...string) {
	t.Helper()
	var out bytes.Buffer
	if err := run(t.Context(), args, &out); err != nil {
		t.Fatal(err)
	}
	for _, word := range want {
		if !strings.Contains(out.String(), word) {
			t.Errorf("%q is not in what %q prints:\n%s", word, args, out.String())
		}
	}
}

// None of its figures is checked: they are for a quiet machine.
func TestSmallForms(t *testing.T) {
	t.Parallel()
	small(t, []string{"10 idle viewers: "}, "idle", "10")
	small(t, []string{"20 joins with a token and 50 messages"}, "joins", "20")
	for _, c := range [][]string{{"joins", "x"}, {"idle", "1", "2"}, {"0"}} {
		if err := run(t.Context(), c, &bytes.Buffer{}); err == nil {
			t.Errorf("%q: got no error", c)
		}
	}
}

// The hub and the C program do what is compared.
func TestTheHubBesideC(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("cc"); err != nil {
		servertest.Missing(t, "there is no C compiler")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	hub := server{name: "hub", command: []string{self, "hub"}, args: offer.args}
	c, err := inC(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	packed := server{name: "packed", tick: 50 * time.Millisecond, deflate: true, command: hub.command, args: offer.args}
	var out bytes.Buffer
	if err := compare(t.Context(), &out, []server{c, hub, packed}, offer{viewers: 10, messages: 20, rate: 100}, 1); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); !strings.Contains(text, "C, writes in a loop") || !strings.Contains(text, "hub") {
		t.Errorf("got %s", text)
	}
	// Somebody else's that fails does not end the bench, and is not left unsaid; ours does.
	out.Reset()
	broken := server{name: "broken", command: []string{self, "nonsense"}, args: offer.args, peer: true}
	few := offer{viewers: 2, messages: 2, rate: 100}
	if err := compare(t.Context(), &out, []server{broken, hub}, few, 1); err != nil || !strings.Contains(out.String(), "broken: ") || !strings.Contains(out.String(), "hub") {
		t.Errorf("got %v and %s", err, out.String())
	}
	broken.peer = false
	if err := compare(t.Context(), &out, []server{broken}, few, 1); err == nil {
		t.Error("one of ours failed, and nobody heard of it")
	}
	// Who reads measures how late messages are.
	u, err := measure(t.Context(), server{command: hub.command, args: func(o offer) []string { return append(o.args(), stamping) }},
		offer{viewers: 10, messages: 20, rate: 100, stalled: 3, stamped: true})
	if err != nil || len(u.late) == 0 || u.late.quantile(0) > u.late.quantile(0.99) {
		t.Errorf("got %d latencies and %v", len(u.late), err)
	}
}

// A server that loses messages, or sends one twice, is found out, however reads are cut.
func TestMessagesAreCounted(t *testing.T) {
	t.Parallel()
	text := bytes.Repeat(message(0, someday), 3)
	for size := 1; size < len(text); size++ {
		var got tally
		for rest := text; len(rest) > 0; rest = rest[min(size, len(rest)):] {
			got.add(rest[:min(size, len(rest))])
		}
		if got.n != 3 {
			t.Errorf("in pieces of %d bytes: got %d messages", size, got.n)
		}
	}
	frames := bytes.Repeat(websocket.AppendDeflated(nil, websocket.Text, bytes.Repeat(message(0, someday), 3)), 2)
	frames = append(frames, websocket.AppendFrame(nil, websocket.Text, message(0, someday))...)
	for size := 1; size < len(frames); size++ {
		got := tally{inflate: true}
		for rest := bytes.Clone(frames); len(rest) > 0; rest = rest[min(size, len(rest)):] {
			got.add(rest[:min(size, len(rest))])
		}
		if got.n != 7 {
			t.Errorf("compressed, in pieces of %d bytes: got %d messages", size, got.n)
		}
	}
	v := &viewers{reading: 2, tallies: []tally{{n: 1}, {n: 3}}}
	v.total.Store(3)
	if err := v.arrive(2, time.Nanosecond, time.Hour); err == nil || err.Error() != "3 of 4 messages arrived" {
		t.Errorf("got %v", err)
	}
	if err := v.arrive(2, time.Hour, time.Nanosecond); err == nil || err.Error() != "3 of 4 messages arrived" {
		t.Errorf("in all: got %v", err)
	}
	v.total.Store(4)
	if err := v.arrive(2, time.Nanosecond, time.Hour); err != nil {
		t.Error(err)
	}
	if err := v.each(2); err == nil || err.Error() != "1 of 2 messages arrived at viewer 0" {
		t.Errorf("got %v", err)
	}
}

func TestAllTakePartLarge(t *testing.T) {
	servertest.Large(t)
	t.Chdir("../..") // where .tools is
	small(t, []string{"C, writes", "hub", "centrifuge", "ws on node", "socket.io on node", "uWebSockets in Bun", "nchan on NGINX"}, "20", "100", "1")
}
