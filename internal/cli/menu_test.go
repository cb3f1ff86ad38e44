package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"loadstone/block/dictionary"
	"loadstone/block/servertest"
	"loadstone/system/menu"
)

// menuSaid runs a command of the menus and checks its status and what it says.
func menuSaid(t *testing.T, dir string, code int, want string, args ...string) {
	t.Helper()
	got := loadstone(t, dir, append([]string{"menu"}, args...)...)
	if out := got.stdout + got.stderr; got.code != code || !strings.Contains(out, want) {
		t.Errorf("loadstone menu %s: got status %d and %q, want %d and %q", strings.Join(args, " "), got.code, out, code, want)
	}
}

// menuServing starts a service of the menus and returns it with its address.
func menuServing(t *testing.T, dir string, env []string, args ...string) (cmd *exec.Cmd, url string) {
	t.Helper()
	return serviceOf(t, dir, env, append([]string{"menu"}, args...)...)
}

// serviceOf starts a service and returns it with its address.
func serviceOf(t *testing.T, dir string, env []string, args ...string) (cmd *exec.Cmd, url string) {
	t.Helper()
	cmd = exec.Command(program, append(args, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--drain", "0")...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	var said strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		var line struct {
			Address string `json:"address"`
		}
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Address != "" {
			go io.Copy(io.Discard, out)
			return cmd, "http://" + line.Address
		}
	}
	t.Fatalf("loadstone %s ended before it said its address: %s", strings.Join(args, " "), &said)
	return nil, ""
}

// menuWant sends METHOD URL, perhaps with a body and headers behind it, and checks the answer.
func menuWant(t *testing.T, request string, status int, want string, sent ...string) {
	t.Helper()
	method, url, _ := strings.Cut(request, " ")
	body, headers := "", []string(nil)
	if len(sent) > 0 {
		body, headers = sent[0], sent[1:]
	}
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		req.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != status || !strings.Contains(string(got), want) {
		t.Errorf("%s: got status %d, %s and %v, want %d and %q", request, res.StatusCode, got, err, status, want)
	}
}

// From nothing to the page: seed, publish, serve; then another menu in the database, which
// is served once it is published.
func TestMenusFromSeedToPage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const count, seed = "300", "5"
	menuSaid(t, dir, exitOK, "pebble:menus holds seed 5, 300 menus", "seed", "--store", "pebble:menus", "--menus", count, "--seed", seed)
	menuSaid(t, dir, exitOK, "nothing to do", "seed", "--store", "pebble:menus", "--menus", count, "--seed", seed)
	menuSaid(t, dir, exitFailed, "name another store", "seed", "--store", "pebble:menus", "--menus", count, "--seed", "6")
	publish := []string{"publish", "--from", "pebble:menus", "--to", "record:menus.record"}
	menuSaid(t, dir, exitOK, "record:menus.record holds", publish...)
	menuSaid(t, dir, exitOK, "nothing to do", publish...)
	menuSaid(t, dir, exitOK, "record:menus.record is whole: 300 menus in ", "verify", "record:menus.record")

	index := []string{"index", "--from", "pebble:menus", "--to", "menus.search"}
	menuSaid(t, dir, exitOK, "menus.search finds the dishes of pebble:menus", index...)
	menuSaid(t, dir, exitFailed, "there already", index...)
	menuSaid(t, dir, exitFailed, "there is no data set", "index", "--from", "pebble:none", "--to", "none.search")

	_, published := menuServing(t, dir, nil, "serve", "--store", "record:menus.record")
	menuWant(t, "GET "+published+"/menu/1", 200, `{"id":1,"dishes":[`)
	menuWant(t, "GET "+published+"/restaurants/1", 200, "<html")
	menuWant(t, "GET "+published+"/menu/301", 404, "not_found")

	const token = "a-token-that-is-long-enough"
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	database, url := menuServing(t, dir, []string{"MENU_TOKEN_FILE=token"}, "serve", "--store", "pebble:menus", "--page", "off")
	const changed = `{"link":"https://example.org/changed"}`
	menuWant(t, "PUT "+url+"/menu/1", 401, "unauthorized", changed, "Content-Type: application/json")
	menuWant(t, "PUT "+url+"/menu/1", 200, "example.org/changed", changed, "Content-Type: application/json", "Authorization: Bearer "+token)
	menuWant(t, "GET "+url+"/restaurants/1", 404, "")
	if err := database.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := database.Wait(); err != nil {
		t.Errorf("the server ended with %v, want exit status 0", err)
	}
	menuSaid(t, dir, exitOK, "record:menus.record holds", publish...)
	_, published = menuServing(t, dir, nil, "serve", "--store", "record:menus.record")
	menuWant(t, "GET "+published+"/menu/1", 200, "example.org/changed")
}

// A file that is damaged where no server looks when it opens it is found, and so is one that is not there.
func TestMenusAreVerified(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	menuSaid(t, dir, exitOK, "holds", "seed", "--store", "pebble:menus", "--menus", "200")
	menuSaid(t, dir, exitOK, "holds", "publish", "--from", "pebble:menus", "--to", "record:r")
	file, err := os.OpenFile(filepath.Join(dir, "r"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	const at = 50_000 // behind the dictionary, and before the index
	was := make([]byte, 1)
	if _, err := file.ReadAt(was, at); err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteAt([]byte{^was[0]}, at); err != nil {
		t.Fatal(err)
	}
	menuSaid(t, dir, exitFailed, "does not match its checksum; publish it again", "verify", "record:r")
	menuSaid(t, dir, exitFailed, "there is no data set", "verify", "record:none")
}

// Proxies answer from Redis what was warmed up, whatever became of the menu servers.
func TestMenusAreWarmedUp(t *testing.T) {
	t.Parallel()
	dir, redis := t.TempDir(), "redis://"+servertest.Redis(t).Addr()
	menuSaid(t, dir, exitOK, "holds", "seed", "--store", "pebble:menus", "--menus", "120")
	_, server := menuServing(t, dir, nil, "serve", "--store", "pebble:menus", "--redis", redis)
	var ids strings.Builder
	for id := range 100 {
		fmt.Fprintln(&ids, id+1)
	}
	hot := filepath.Join(dir, "hot.ids")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(hot, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(ids.String() + "121\n")
	warm := []string{"warm", "hot.ids", "--servers", server, "--redis", redis}
	menuSaid(t, dir, exitOK, ": 100 menus filled in, 0 there already, 1 unknown ids, 0 failed, 0 not tried", warm...)
	menuSaid(t, dir, exitOK, ": 0 menus filled in, 100 there already, 1 unknown ids, 0 failed, 0 not tried", warm...)
	piped := exec.Command(program, append([]string{"menu", "warm", "-"}, warm[2:]...)...)
	piped.Stdin = strings.NewReader("101\n1\n")
	if out, err := piped.CombinedOutput(); err != nil || !strings.Contains(string(out), ": 1 menus filled in, 1 there already") {
		t.Errorf("from the standard input: got %s and %v", out, err)
	}
	const nobody = "http://127.0.0.1:1"
	_, proxy := menuServing(t, dir, nil, "proxy", "--servers", nobody, "--redis", redis)
	eventually(t, "a menu is answered from Redis, which a proxy asks for a moment only", func() bool {
		status, body, err := ask(t, http.MethodGet, proxy+"/api/menu/100", "")
		return err == nil && status == http.StatusOK && strings.Contains(body, `{"id":100,`)
	})
	menuWant(t, "GET "+proxy+"/api/menu/102", 503, "unavailable")
	write("1\n102\n")
	lost := []string{"warm", "hot.ids", "--servers", nobody, "--redis", redis}
	menuSaid(t, dir, exitFailed, "1 there already, 0 unknown ids, 1 failed", lost...)
	menuSaid(t, dir, exitFailed, `1 look-ups failed: "102": `, lost...)
	write("1\n+2\n\n007\n")
	menuSaid(t, dir, exitUsage, `hot.ids:2:1: "+2" is not an id`, warm...)
	menuSaid(t, dir, exitUsage, `hot.ids:4:1: "007" is not an id`, warm...)
	write("1\n")
	menuSaid(t, dir, exitFailed, "connection refused", "warm", "hot.ids", "--servers", server, "--redis", "redis://127.0.0.1:1")
}

// One dictionary from the file to the client: who has it gets it named, through a proxy as well.
func TestMenusWithADictionary(t *testing.T) {
	t.Parallel()
	dir, redis := t.TempDir(), "redis://"+servertest.Redis(t).Addr()
	menuSaid(t, dir, exitOK, "holds", "seed", "--store", "pebble:menus", "--menus", "200")
	menuSaid(t, dir, exitOK, "has the dictionary", "dictionary", "--from", "pebble:menus", "--to", "d")
	menuSaid(t, dir, exitOK, "holds", "publish", "--from", "pebble:menus", "--to", "record:r", "--dictionary", "d")
	menuSaid(t, dir, exitOK, "has the dictionary", "dictionary", "--from", "record:r", "--to", "again")
	d, err := dictionary.Read(filepath.Join(dir, "d"), menu.MaxBodyBytes)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := dictionary.Read(filepath.Join(dir, "again"), menu.MaxBodyBytes); err != nil || again.Name() != d.Name() {
		t.Errorf("the file was published with another dictionary than the given one, or none: %v", err)
	}
	_, server := menuServing(t, dir, nil, "serve", "--store", "record:r")
	_, proxy := menuServing(t, dir, []string{"MENU_DICTIONARY=d"}, "proxy", "--servers", server, "--redis", redis)
	for _, url := range []string{server + "/menu/1", proxy + "/api/menu/1", proxy + "/api/menu/1"} {
		menuWant(t, "GET "+url, 200, string(d.Header()), "", "Accept-Encoding: dcz", "Available-Dictionary: "+d.Available())
		menuWant(t, "GET "+url, 200, `{"id":1,`)
	}
	menuWant(t, "GET "+proxy+"/api/menu/dictionary/"+d.Name(), 200, string(d.Content()))
}

// What was exported is imported again, to the same menus; and what was imported is never
// filled with made-up menus.
func TestMenusOutAndIn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	menuSaid(t, dir, exitOK, "holds", "seed", "--store", "pebble:a", "--menus", "120")
	menuSaid(t, dir, exitUsage, "--to", "export", "--from", "pebble:a", "--to", "-")
	menuSaid(t, dir, exitOK, `{"id":120,`, "export", "--from", "pebble:a", "--to", "-", "--format", "jsonl")
	if _, err := os.Stat(filepath.Join(dir, "-")); err == nil {
		t.Error("there is a file named -")
	}
	var files []string
	for _, format := range []string{"csv", "jsonl", "psv", "csv.gz"} {
		store := "pebble:" + format
		file := "menus." + format
		menuSaid(t, dir, exitOK, "120 menus in "+file, "export", "--from", "pebble:a", "--to", file)
		menuSaid(t, dir, exitOK, store+" holds "+file, "import", file, "--store", store)
		menuSaid(t, dir, exitOK, "they are kept", "seed", "--store", store, "--keep-imported")
		menuSaid(t, dir, exitOK, "120 menus in", "export", "--from", store, "--to", format+".jsonl")
		text, err := os.ReadFile(filepath.Join(dir, format+".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, string(text))
	}
	if len(slices.Compact(files)) != 1 {
		t.Error("menus are others after they went through a file")
	}
	if zipped, err := os.ReadFile(filepath.Join(dir, "menus.csv.gz")); err != nil || !bytes.HasPrefix(zipped, []byte("\x1f\x8b")) {
		t.Errorf("menus.csv.gz begins with %.2x and %v, want what is compressed", zipped, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "bad.jsonl"), []byte(`{"id":1,"link":"javascript:alert(1)"}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	menuSaid(t, dir, exitUsage, "bad.jsonl:1", "import", "bad.jsonl", "--store", "pebble:bad")
	menuSaid(t, dir, exitFailed, "no data set", "export", "--from", "pebble:bad", "--to", "bad.csv")
}

// Wrong input is one sentence and status 2, before anything happens.
func TestMenuMistakes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, c := range []struct{ args, want string }{
		{"sed", `has no command "sed"`},
		{"seed", "--store: store is \"\"; write record:FILE"},
		{"seed --store sqlite:x", "write record:FILE"},
		{"seed --store pebble:x --menus 0", "write a number from 1"},
		{"seed --store pebble:x --file none.csv", "none.csv"},
		{"seed --store pebble:x --sorted-tables y", "--sorted-tables is for a Cassandra"},
		{"seed --store cassandra://h/x --sorted-tables y --cassandra-home none", "needs Cassandra's jars"},
		{"import --store pebble:x", "takes 1 argument, and none is given"},
		{"import none.csv --store pebble:x", "none.csv"},
		{"import none.menus --store pebble:x", "name it csv"},
		{"export --from pebble:x", "--to"},
		{"export --from pebble:x --to x.jsonld", "write csv, jsonl or psv"},
		{"export --from record:x --to x.csv", "write pebble:DIRECTORY"},
		{"publish --from pebble:x --to pebble:y", "write record:FILE"},
		{"publish --from record:x --to record:y", "write pebble:DIRECTORY"},
		{"index --from pebble:x", "name the file with --to"},
		{"index --from record:x --to y", "write pebble:DIRECTORY"},
		{"serve --store pebble:x --search-index y", "accounts"},
		{"publish --from pebble:x --to record:y --dictionary none", "--dictionary"},
		{"verify menus.record", "write record:FILE"},
		{"verify pebble:x", "write record:FILE"},
		{"warm", "takes 1 argument, and none is given"},
		{"warm none.ids", "there is no menu server"},
		{"warm none.ids --servers http://h:1", "redis must be"},
		{"warm none.ids --servers http://h:1 --redis redis://u:s3cret@h --concurrent 0", "write 1 to 256"},
		{"warm none.ids --servers http://h:1 --redis redis://u:s3cret@h", "none.ids"},
		{"dictionary --from pebble:x", "--to"},
		{"dictionary --from x --to y", "--from"},
		{"serve --store postgres://u:s3cret@[/x", "postgres://"},
		{"serve --store pebble:x --token short", "16"},
		{"serve --store pebble:x --token-file none", "--token-file"},
		{"serve --store pebble:x --listen here", "write HOST:PORT"},
		{"proxy", "there is no menu server"},
		{"proxy --servers menus:8080", "http://host:port"},
		{"proxy --servers http://h:1 --redis redis://u:s3cret@h/1", "redis://"},
		{"serve --store pebble:x --session-key short", "16"},
		{"serve --store pebble:x --session-key-file none", "--session-key-file"},
		{"serve --store pebble:x --proxy nginx", "write an address"},
		{"secrets", "--dir"},
		{"account add ada", "--accounts"},
		{"account add ada --accounts x", "the password has 0 bytes"},
		{"account add Ada --accounts x", "small letters"},
		{"account add api --accounts x", "is taken"},
		{"account add ada --accounts x --role king", "write editor or publisher"},
		{"account list", "--accounts"},
		{"account remove ada", "--accounts"},
		{"health --url here", "--url"},
	} {
		got := loadstone(t, dir, append([]string{"menu"}, strings.Fields(c.args)...)...)
		if got.code != exitUsage || !strings.Contains(got.stderr, c.want) || strings.Contains(got.stderr, "s3cret") {
			t.Errorf("loadstone menu %s: got status %d and %q, want %d and %q", c.args, got.code, got.stderr, exitUsage, c.want)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("mistakes left %v and %v", left, err)
	}
}

// Passwords are made once, and only their hashes can be read by others.
func TestMenuSecrets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	menuSaid(t, dir, exitOK, "were generated", "secrets", "--dir", "s")
	read := func() string {
		var all []byte
		for _, name := range []string{"password", "pgpass", "redis", "redis.acl", "token", "session", "admin", "accounts"} {
			path := filepath.Join(dir, "s", name)
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(path)
			if err != nil || info.Mode().Perm() != 0o600 && name != "redis.acl" {
				t.Errorf("%s: got %v and %v, want that only its owner reads it", name, info.Mode(), err)
			}
			if name != "redis.acl" && len(text) < 20 {
				t.Errorf("%s is %q: too short", name, text)
			}
			all = append(all, text...)
		}
		return string(all)
	}
	before := read()
	if err := os.Remove(filepath.Join(dir, "s", "pgpass")); err != nil {
		t.Fatal(err)
	}
	menuSaid(t, dir, exitOK, "are there already", "secrets", "--dir", "s")
	if after := read(); after != before {
		t.Errorf("got %q, want them unchanged: %q", after, before)
	}
}

// Accounts are made, changed, listed and removed, and only their owner reads the file. A server
// lets them in, notices that they are gone, and has no such pages without the file.
func TestMenuAccounts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const password = "a-long-password"
	account := func(code int, want, stdin string, args ...string) {
		t.Helper()
		cmd := exec.Command(program, append([]string{"menu", "account", "--accounts", "accounts"}, args...)...)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
		out, _ := cmd.CombinedOutput() // its status counts
		if cmd.ProcessState.ExitCode() != code || !strings.Contains(string(out), want) || strings.Contains(string(out), password) {
			t.Errorf("menu account %s: got status %d and %q, want %d and %q", strings.Join(args, " "), cmd.ProcessState.ExitCode(), out, code, want)
		}
	}
	account(exitFailed, "accounts", "", "list")
	account(exitOK, "ada, publisher, was added", password+"\r\nmore\n", "add", "ada", "--role", "publisher")
	account(exitUsage, "write 12 to 72", "short\n", "add", "ben")
	account(exitUsage, "write 12 to 72", strings.Repeat("x", 73), "add", "ben")
	account(exitOK, "ben, editor, was added", password, "add", "ben")
	account(exitOK, "ben, publisher, has the new password", password, "add", "ben", "--role", "publisher")
	account(exitFailed, "no account", "", "remove", "eve")
	account(exitOK, "ada publisher\nben publisher\n", "", "list")
	path := filepath.Join(dir, "accounts")
	info, err := os.Stat(path)
	text, _ := os.ReadFile(path) // what is missing is found
	if err != nil || info.Mode().Perm() != 0o600 || strings.Count(string(text), "$2a$12$") != 2 || strings.Contains(string(text), password) {
		t.Errorf("got %v, %v and %s", info, err, text)
	}

	menuSaid(t, dir, exitOK, "holds", "seed", "--store", "pebble:a", "--menus", "20")
	menuSaid(t, dir, exitOK, "holds", "publish", "--from", "pebble:a", "--to", "record:b")
	menuSaid(t, dir, exitUsage, "16", "serve", "--store", "pebble:a", "--accounts", "accounts", "--session-key", "short")
	menuSaid(t, dir, exitFailed, "none", "serve", "--store", "pebble:a", "--accounts", "none")
	server, url := menuServing(t, dir, nil, "serve", "--store", "pebble:a", "--accounts", "accounts")
	menuWant(t, "GET "+url+"/admin", 401, "Sign in")
	form, kind, same := "name=ben&password="+password, "Content-Type: application/x-www-form-urlencoded", "Sec-Fetch-Site: same-origin"
	menuWant(t, "POST "+url+"/admin/sign-in", 403, "", form, kind)
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/admin/sign-in", strings.NewReader(form))
	if err != nil {
		t.Fatal(err)
	}
	for _, header := range []string{kind, same} {
		name, value, _ := strings.Cut(header, ": ")
		req.Header.Set(name, value)
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusSeeOther || len(res.Cookies()) != 1 {
		t.Fatalf("got status %d and %v, want a session", res.StatusCode, res.Cookies())
	}
	cookie := "Cookie: " + res.Cookies()[0].Name + "=" + res.Cookies()[0].Value
	menuWant(t, "GET "+url+"/admin/menus/7", 200, "ben, publisher", "", cookie)
	account(exitOK, "ben was removed", "", "remove", "ben")
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/admin", nil) // as above
		req.AddCookie(res.Cookies()[0])
		again, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		again.Body.Close()
		if again.StatusCode == http.StatusUnauthorized {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("who was removed still is signed in")
		}
	}
	if err := server.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := server.Wait(); err != nil {
		t.Errorf("the server ended with %v", err)
	}
	_, url = menuServing(t, dir, nil, "serve", "--store", "pebble:a")
	menuWant(t, "GET "+url+"/admin", 404, "no_such_path")
	menuSaid(t, dir, exitFailed, "cannot be edited", "serve", "--store", "record:b", "--accounts", "accounts")
}
