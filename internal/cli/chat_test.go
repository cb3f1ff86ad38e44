package cli

import (
	"strings"
	"testing"
)

// chatSaid runs a command of the chat and checks its status and what it says.
func chatSaid(t *testing.T, dir string, code int, want string, args ...string) {
	t.Helper()
	got := loadstone(t, dir, append([]string{"chat"}, args...)...)
	if out := got.stdout + got.stderr; got.code != code || !strings.Contains(out, want) {
		t.Errorf("loadstone chat %s: got status %d and %q, want %d and %q", strings.Join(args, " "), got.code, out, code, want)
	}
}

func TestChatCommands(t *testing.T) {
	t.Parallel()
	const anyAdmin = "127.0.0.1:0"
	dir := t.TempDir()
	chatSaid(t, dir, 2, "0 streams: write 1 to", "seed", "--streams", "0")
	chatSaid(t, dir, 2, "the tick is 2s: write 0 to 1s", "serve", "--tick", "2s")
	chatSaid(t, dir, 2, "a room keeps 1000 bytes: write a power of two from", "serve", "--room-bytes", "1000")
	chatSaid(t, dir, 2, `origin is "example.com": write SCHEME://HOST`, "serve", "--origin", "example.com")
	chatSaid(t, dir, 2, "0 event loops: write 1 or more", "serve", "--loops", "0")
	chatSaid(t, dir, 2, "the directory of the log has no name", "serve", "--data", "")
	chatSaid(t, dir, 0, "chat-data has 3 streams", "seed", "--streams", "3")
	chatSaid(t, dir, 0, "chat-data has 5 streams", "seed", "--streams", "5")
	_, url := serviceOf(t, dir, nil, "chat", "serve", "--tick", "0")
	chatSaid(t, dir, 1, "another process has it open", "seed", "--streams", "3")
	chatSaid(t, dir, 0, "", "health", "--url", url+"/readyz")
	chatSaid(t, dir, 0, "; 0 violations; ", "reconcile", "--url", url, "--for", "1s", "--viewers", "4", "--senders", "2", "--rate", "8", "--streams", "1,2", "--admin-listen", anyAdmin)
	chatSaid(t, dir, 1, "nothing was acknowledged", "reconcile", "--url", url, "--for", "10ms", "--viewers", "1", "--senders", "1", "--rate", "0.0001", "--admin-listen", anyAdmin)
	chatSaid(t, dir, 2, "write http://HOST:PORT", "reconcile", "--url", "127.0.0.1:1")
	chatSaid(t, dir, 2, "streams [0] are checked", "reconcile", "--url", url, "--streams", "0")
	menuWant(t, "GET "+url+"/api/streams", 200, `"pages":1`)
	menuWant(t, "GET "+url+"/ws", 426, "no_upgrade")
}
