package cli

import (
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
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
	chatSaid(t, dir, 2, "the language model has no name", "serve", "--summary-url", "https://models.example.com/v1")
	chatSaid(t, dir, 2, "a language model has no URL", "serve", "--summary-model", "small")
	chatSaid(t, dir, 2, "-1 messages: write 0 to", "seed", "--messages", "-1")
	chatSaid(t, dir, 0, "said has 2 streams", "seed", "--data", "said", "--streams", "2", "--messages", "300")
	chatSaid(t, dir, 0, "said has 2 streams", "seed", "--data", "said", "--streams", "2", "--messages", "300")
	chatSaid(t, dir, 0, "said has the epoch", "new-epoch", "--data", "said")
	chatSaid(t, dir, 0, " and 2 streams", "new-epoch", "--data", "said")
	chatSaid(t, dir, 1, "open the log in none: there is no log", "new-epoch", "--data", "none")
	chatSaid(t, dir, 1, "open the log in none: there is no log", "replay", "--data", "none")
	if _, err := os.Stat(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory that was only to be read is made: %v", err)
	}
	chatSaid(t, dir, 2, "the speed is 0: write a number above 0", "replay", "--data", "said", "--speed", "0")
	chatSaid(t, dir, 2, "it is to begin at -1s", "replay", "--data", "said", "--from", "-1s")
	chatSaid(t, dir, 1, "stream 9: there is no such stream", "replay", "--data", "said", "--stream", "9")
	chatSaid(t, dir, 0, "0:01:0", "replay", "--data", "said", "--stream", "2", "--from", "1m", "--speed", "100000")
	if whole := loadstone(t, dir, "chat", "replay", "--data", "said", "--stream", "2", "--at-once"); strings.Count(whole.stdout, "\n") != 300 {
		t.Errorf("a replay has %d messages, want 300", strings.Count(whole.stdout, "\n"))
	}
	_, url := serviceOf(t, dir, nil, "chat", "serve", "--tick", "0")
	chatSaid(t, dir, 1, "another process has it open", "seed", "--streams", "3")
	chatSaid(t, dir, 0, "chat-data is in use", "seed", "--streams", "3", "--unless-in-use")
	chatSaid(t, dir, 0, "", "health", "--url", url+"/readyz")
	chatSaid(t, dir, 0, "; 0 violations; ", "reconcile", "--most-skipped", "0", "--analysed", "--url", url, "--for", "6s", "--viewers", "4", "--senders", "2", "--rate", "8", "--streams", "1,2", "--admin-listen", anyAdmin)
	chatSaid(t, dir, 1, "nothing was acknowledged", "reconcile", "--url", url, "--for", "10ms", "--viewers", "1", "--senders", "1", "--rate", "0.0001", "--admin-listen", anyAdmin)
	chatSaid(t, dir, 2, "write http://HOST:PORT", "reconcile", "--url", "127.0.0.1:1")
	chatSaid(t, dir, 2, "streams [0] are checked", "reconcile", "--url", url, "--streams", "0")
	chatSaid(t, dir, 2, `the cluster's address is "cassandra"`, "reconcile", "--url", url, "--store", "cassandra")
	menuWant(t, "GET "+url+"/api/streams", 200, `"pages":1`)
	menuWant(t, "GET "+url+"/ws", 426, "no_upgrade")
}

// Users are added, changed and listed by a command, also while a server runs, which lets them in.
func TestChatUsers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const password = "correct horse battery"
	said := func(code int, want, stdin string, args ...string) {
		t.Helper()
		cmd := exec.Command(program, append([]string{"chat", "user"}, args...)...)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
		out, _ := cmd.CombinedOutput() // its status counts
		if cmd.ProcessState.ExitCode() != code || !strings.Contains(string(out), want) || strings.Contains(string(out), password) {
			t.Errorf("chat user %s: got status %d and %q, want %d and %q", strings.Join(args, " "), cmd.ProcessState.ExitCode(), out, code, want)
		}
	}
	said(2, "write 12 to 72", "short\n", "add", "ada@example.com")
	said(2, "write an e-mail address", password, "add", "ada")
	said(2, "write member, host or admin", password, "add", "ada@example.com", "--role", "king")
	said(1, "nobody has signed up in chat-data", "", "list")
	said(2, "must be mysql://", "", "list", "--database", "postgres://a@b/c")
	said(0, "ada@example.com, host, was added as user-", password+"\nmore\n", "add", "Ada@example.com", "--name", "Ada", "--role", "host")
	said(1, "there is a user ada@example.com", password, "add", "ada@example.com")
	foreign, err := sql.Open("sqlite", filepath.Join(dir, "chat-data", "users.db"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = foreign.ExecContext(t.Context(), `INSERT INTO users (id, email, name, role, created) VALUES ('user-x', 'x' || char(27) || '[2J@example.com', 'X', 'member', 1)`)
	if err := errors.Join(err, foreign.Close()); err != nil {
		t.Fatal(err)
	}
	said(0, `user-x member "x\x1b[2J@example.com" "X"`, "", "list")
	_, url := serviceOf(t, dir, nil, "chat", "serve", "--tick", "0")
	said(0, "ben@example.com, member, was added", password, "add", "ben@example.com")
	menuWant(t, "POST "+url+"/api/session", 201, `"role":"member"`, `{"email":"ben@example.com","password":"`+password+`"}`)
	said(0, "ben@example.com is admin", "", "role", "ben@example.com", "admin")
	said(2, "write member, host or admin", "", "role", "ben@example.com", "king")
	said(0, "has the new password", "another password\n", "password", "ben@example.com")
	menuWant(t, "POST "+url+"/api/session", 401, "bad_sign_in", `{"email":"ben@example.com","password":"`+password+`"}`)
	menuWant(t, "POST "+url+"/api/session", 201, `"role":"admin"`, `{"email":"ben@example.com","password":"another password"}`)
	menuWant(t, "POST "+url+"/api/users", 202, "sign in", `{"email":"cleo@example.com","password":"`+password+`","name":"Cleo"}`)
	for _, role := range []string{"host", "admin"} {
		said(1, "anybody may have signed up with cleo@example.com: ask its owner for the account's id", "", "role", "cleo@example.com", role)
	}
	list := loadstone(t, dir, "chat", "user", "list").stdout
	before, _, _ := strings.Cut(list, " member cleo@example.com")
	cleo := before[strings.LastIndexByte(before, '\n')+1:]
	said(0, cleo+" is host", "", "role", cleo, "host")
	said(0, "cleo@example.com is member", "", "role", "cleo@example.com", "member")
	said(0, "has the new password", "another password\n", "password", "cleo@example.com")
	said(0, "cleo@example.com is host", "", "role", "cleo@example.com", "host")
	said(0, "may not sign in", "", "disable", "ben@example.com")
	said(0, ` admin (disabled) ben@example.com "ben@example.com"`, "", "list")
	said(0, "may sign in", "", "disable", "ben@example.com", "--undo")
	said(1, `there is no user "eve@example.com"`, "", "disable", "eve@example.com")
	chatSaid(t, dir, 2, "need the client's id", "serve", "--oidc-issuer", "https://id.example.com", "--public-url", "https://chat.example.com")
	chatSaid(t, dir, 2, "access tokens are good for 1s", "serve", "--access-ttl", "1s")
}
