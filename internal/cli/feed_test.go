package cli

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"loadstone/block/backoffice/backofficetest"
	"loadstone/system/feed/feedtest"
)

// feedSaid runs a command of the feed and checks its status and what it says.
func feedSaid(t *testing.T, dir string, code int, want string, args ...string) {
	t.Helper()
	got := loadstone(t, dir, append([]string{"feed"}, args...)...)
	if out := got.stdout + got.stderr; got.code != code || !strings.Contains(out, want) {
		t.Errorf("loadstone feed %s: got status %d and %q, want %d and %q", strings.Join(args, " "), got.code, out, code, want)
	}
}

// fileIn is what a file in a directory has.
func fileIn(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestFeedCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"own.csv": "id,published,title,text,author_id,author\n1,2026-01-31T08:00:00Z,Hello,Text,7,Noor\n",
		"bad.csv": "id,published,title,text,author_id,author\n1,yesterday,Hello,Text,7,Noor\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	feedSaid(t, dir, 2, `store is "feed.db"; write sqlite:FILE or postgres://USER@HOST/DATABASE`, "seed", "--store", "feed.db", "--posts", "5")
	feedSaid(t, dir, 2, "generate 0 posts: write a number from 1 to", "seed", "--store", "sqlite:feed.db", "--posts", "0")
	feedSaid(t, dir, 2, `line 2: published is "yesterday"`, "import", "bad.csv", "--store", "sqlite:feed.db")
	feedSaid(t, dir, 2, `serializer is "xml": write append, goccy, json or maps`, "serve", "--serializer", "xml")
	feedSaid(t, dir, 2, "write batch or each", "serve", "--queries", "some")
	feedSaid(t, dir, 2, `--posts "1e3" is no whole number; write one such as 10`, "seed", "--store", "sqlite:feed.db", "--posts", "1e3")
	feedSaid(t, dir, 2, `--posts "99999999999999999999" is out of range`, "seed", "--store", "sqlite:feed.db", "--posts", "99999999999999999999")
	feedSaid(t, dir, 2, "--cursor-ttl 5 has no unit; write --cursor-ttl 5s", "serve", "--cursor-ttl", "5")
	feedSaid(t, dir, 1, "there is no directory none: make it first", "seed", "--store", "sqlite:none/feed.db")
	feedSaid(t, dir, 2, "cursors are good for 1s: write at least 1m", "serve", "--cursor-ttl", "1s")
	feedSaid(t, dir, 1, "there is no feed: `loadstone feed seed`", "serve", "--store", "sqlite:feed.db", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	feedSaid(t, dir, 0, "sqlite:feed.db holds seed 1, 100 posts", "seed", "--store", "sqlite:feed.db", "--posts", "100")
	feedSaid(t, dir, 0, "already holds seed 1, 100 posts", "seed", "--store", "sqlite:feed.db", "--posts", "100")
	feedSaid(t, dir, 1, "another feed: seed 1, 100 posts; it is left as it is", "import", "own.csv", "--store", "sqlite:feed.db")
	feedSaid(t, dir, 0, "sqlite:own.db holds own.csv, sha256", "import", "own.csv", "--store", "sqlite:own.db")
	feedSaid(t, dir, 0, "has posts that were imported, own.csv", "seed", "--store", "sqlite:own.db", "--keep-imported")
	feedSaid(t, dir, 0, "already holds own.csv", "seed", "--store", "sqlite:own.db", "--file", "own.csv")

	if err := os.Mkdir(filepath.Join(dir, "dir.csv"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"import"}, {"seed", "--file"}} {
		feedSaid(t, dir, 1, "is a directory", append(args, "dir.csv", "--store", "sqlite:none.db")...) // no fault of the command's
		feedSaid(t, dir, 2, "none.csv: this cannot be imported: there is no such file", append(args, "none.csv", "--store", "sqlite:none.db")...)
	}

	_, url := serviceOf(t, dir, nil, "feed", "serve", "--store", "sqlite:feed.db", "--serializer", "maps", "--queries", "each")
	read := feedtest.Journey(t, http.DefaultClient, url, feedtest.Ways()[2])
	if n := strings.Count(read, "\n"); n != 4*63-1 {
		t.Errorf("got %d lines of a journey", n)
	}
	menuWant(t, "GET "+url+"/app", 200, "<h1>Feed</h1>")
}

// What is published is served by an edge, and by a server that publishes itself; it can be taken down and rolled back.
func TestFeedIsPublished(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	feedSaid(t, dir, 0, "sqlite:feed.db holds", "seed", "--store", "sqlite:feed.db", "--posts", "100")
	to := []string{"publish", "--store", "sqlite:feed.db", "--to", "directory:snapshots"}
	with := func(more ...string) []string { return append(slices.Clone(to), more...) }
	for want, args := range map[string][]string{
		"the store of objects is \"snapshots\"; write directory:DIR or s3:https://HOST/BUCKET":  {"publish", "--to", "snapshots"},
		`the store of objects is ""; write directory:DIR`:                                       {"edge"},
		"write s3:https://HOST/BUCKET, without keys":                                            {"edge", "--from", "s3:https://me:word@example.org/feed"},
		"its keys are missing: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a file": {"edge", "--from", "s3:https://example.org/feed"},
		"--keys: read keys: stat none":                                                          with("--keys", "none"),
		"feed.db has none: write a line [default]":                                              with("--keys", "feed.db"),
		"0 posts: publish 1 to 10000":                                                           with("--posts", "0"),
		"published every 1ms: write at least 1s":                                                with("--every", "1ms"),
		"keep is 0s: write a duration above 0, at most 24h":                                     with("--keep", "0s"),
		"--force is for one publication":                                                        with("--force"),
		"are three things: give one of them":                                                    with("--once", "--take-down", "1"),
		"--take-down is 0: write the id of a post":                                              with("--take-down", "0"),
		"--roll-back is 0: write the number of a version":                                       with("--roll-back", "0"),
		"interval is 0s: write a duration above 0":                                              {"edge", "--from", "directory:snapshots", "--interval", "0s"},
		"published every 1ms":                                                                   {"serve", "--store", "sqlite:feed.db", "--snapshots", "directory:d", "--publish-every", "1ms"},
	} {
		feedSaid(t, dir, 2, want, args...)
	}
	feedSaid(t, dir, 1, "no snapshot was published yet: `loadstone feed publish` makes one", "edge", "--from", "directory:snapshots")
	feedSaid(t, dir, 1, "there is no feed: `loadstone feed seed`", "publish", "--store", "sqlite:none.db", "--to", "directory:snapshots", "--once")

	feedSaid(t, dir, 0, "version 1, 11 pages with", with("--once")...)
	feedSaid(t, dir, 0, "version 1, 11 pages with", with("--once")...)
	feedSaid(t, dir, 1, "the snapshot shrank by half", with("--once", "--posts", "10")...)
	feedSaid(t, dir, 0, "version 2, 2 pages with", with("--once", "--posts", "10", "--force")...)
	feedSaid(t, dir, 0, "is what version 1 was", with("--roll-back", "1")...)
	feedSaid(t, dir, 1, "version 7 is not kept", with("--roll-back", "7")...)

	_, url := serviceOf(t, dir, nil, "feed", "edge", "--from", "directory:snapshots", "--interval", "100ms")
	_, live := serviceOf(t, dir, nil, "feed", "serve", "--store", "sqlite:feed.db", "--snapshots", "directory:own")
	read := feedtest.Published(t, http.DefaultClient, url)
	if want := feedtest.Journey(t, http.DefaultClient, live, feedtest.Ways()[2]); read != want {
		t.Errorf("published:\n%.500s\nlive:\n%.500s", read, want)
	}
	eventually(t, "the server publishes itself", func() bool {
		status, _, _ := ask(t, http.MethodGet, live+"/feed/pages/1.json", "")
		return status == http.StatusOK
	})
	if own := feedtest.Published(t, http.DefaultClient, live); own != read {
		t.Errorf("the server publishes:\n%.500s\nwant:\n%.500s", own, read)
	}
	menuWant(t, "GET "+url+"/readyz", 200, "ok")
	menuWant(t, "GET "+url+"/feed/pages/11.json", 404, `"no_such_path"`)
	menuWant(t, "DELETE "+url+"/feed/pages/1.json", 405, `"method_not_allowed"`)

	feedSaid(t, dir, 0, "version 4, 11 pages with", with("--take-down", "99")...)
	eventually(t, "the post is gone", func() bool {
		_, body, _ := ask(t, http.MethodGet, url+"/feed/pages/1.json", "")
		return body != "" && !strings.Contains(body, `"id":99,"media"`)
	})
	feedSaid(t, dir, 1, "version 3 is not kept", with("--roll-back", "3")...)
	feedSaid(t, dir, 0, "11 pages with", with("--once")...) // without what was kept of the minute before
}

// A publisher that goes on is ready once it has published, and ends when it is told to.
func TestFeedPublisherRuns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	feedSaid(t, dir, 0, "sqlite:feed.db holds", "seed", "--store", "sqlite:feed.db", "--posts", "20")
	cmd := exec.Command(program, "feed", "publish", "--admin-listen", "127.0.0.1:0")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "FEED_STORE=sqlite:feed.db", "FEED_TO=directory:snapshots", "FEED_EVERY=1h")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	var line struct {
		Admin string `json:"admin"`
	}
	lines := bufio.NewScanner(out)
	for line.Admin == "" && lines.Scan() {
		_ = json.Unmarshal(lines.Bytes(), &line) // what is no JSON has no address
	}
	url := "http://" + line.Admin
	eventually(t, "it is ready", func() bool {
		status, _, _ := ask(t, http.MethodGet, url+"/readyz", "")
		return status == http.StatusOK
	})
	menuWant(t, "GET "+url+"/healthz", 200, "ok")
	menuWant(t, "GET "+url+"/metrics", 200, `feed_publish_total{outcome="published"} 1`)
	menuWant(t, "GET "+url+"/metrics", 200, "feed_publish_version 1")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	for lines.Scan() {
		said.WriteString(lines.Text() + "\n")
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(said.String(), "stopped") {
		t.Errorf("got %v and %s", err, &said)
	}
}

// Posts are exported, imported, taken down and put back by commands, and a server notices at once.
func TestFeedDesk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	said := func(code int, want string, args ...string) {
		t.Helper()
		feedSaid(t, dir, code, want, args...)
	}
	said(0, "sqlite:a.db holds", "seed", "--store", "sqlite:a.db", "--posts", "100")
	said(0, "100 posts in a.jsonl", "export", "--store", "sqlite:a.db", "--to", "a.jsonl")
	said(0, "100 posts in a.jsonl.gz", "export", "--store", "sqlite:a.db", "--to", "a.jsonl.gz")
	plain, zipped := fileIn(t, dir, "a.jsonl"), fileIn(t, dir, "a.jsonl.gz")
	if len(zipped) > len(plain)/2 {
		t.Errorf("%d bytes were compressed to %d", len(plain), len(zipped))
	}
	said(0, "sqlite:b.db holds a.jsonl.gz", "import", "a.jsonl.gz", "--store", "sqlite:b.db")
	if got := loadstone(t, dir, "feed", "export", "--store", "sqlite:b.db", "--to", "-"); got.code != 0 || got.stdout != plain {
		t.Errorf("got status %d, %s and %.300q", got.code, got.stderr, got.stdout)
	}
	if _, err := os.Stat(filepath.Join(dir, "-")); err == nil {
		t.Error("there is a file named -")
	}
	said(2, "write a name that ends in .jsonl", "export", "--store", "sqlite:a.db", "--to", "a.csv")
	said(1, "there is no feed", "export", "--store", "sqlite:none.db", "--to", "none.jsonl")

	_, url := serviceOf(t, dir, nil, "feed", "serve", "--store", "sqlite:a.db")
	menuWant(t, "GET "+url+"/posts/17/author", 200, `"author"`)
	said(2, `the id of the post is "x"`, "take-down", "x", "--store", "sqlite:a.db")
	said(1, "there is no post 101 in sqlite:a.db", "take-down", "101", "--store", "sqlite:a.db")
	said(0, "is taken down\n", "take-down", "17", "--store", "sqlite:a.db")
	menuWant(t, "GET "+url+"/posts/17/author", 404, "not_found")
	said(0, "is taken down already; nothing to do", "take-down", "17", "--store", "sqlite:a.db")
	said(0, "is put back\n", "put-back", "17", "--store", "sqlite:a.db")
	menuWant(t, "GET "+url+"/posts/17/author", 200, `"author"`)
	said(0, "is put back already; nothing to do", "put-back", "17", "--store", "sqlite:a.db")
	if got := loadstone(t, dir, "feed", "export", "--store", "sqlite:a.db", "--to", "-"); got.stdout != plain {
		t.Errorf("put back: got %.300q", got.stdout)
	}
	said(0, "is erased\n", "take-down", "17", "--erase", "--store", "sqlite:a.db")
	said(1, "there is no post 17", "put-back", "17", "--store", "sqlite:a.db")
}

// People with an account edit posts at /admin, and nobody else.
func TestFeedAccounts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	add := exec.Command(program, "feed", "account", "add", "ada", "--accounts", "accounts", "--role", "editor")
	add.Dir, add.Stdin = dir, strings.NewReader("correct horse battery\n")
	if out, err := add.CombinedOutput(); err != nil || string(out) != "ada, editor, was added\n" {
		t.Fatalf("got %v and %s", err, out)
	}
	feedSaid(t, dir, 0, "ada editor\n", "account", "list", "--accounts", "accounts")
	feedSaid(t, dir, 2, "write moderator or editor", "account", "add", "ben", "--accounts", "accounts", "--role", "king")
	feedSaid(t, dir, 0, "holds", "seed", "--store", "sqlite:feed.db", "--posts", "10")
	feedSaid(t, dir, 2, "16", "serve", "--store", "sqlite:feed.db", "--accounts", "accounts", "--session-key", "short")
	feedSaid(t, dir, 2, "--proxy", "serve", "--store", "sqlite:feed.db", "--accounts", "accounts", "--proxy", "x")
	_, without := serviceOf(t, dir, nil, "feed", "serve", "--store", "sqlite:feed.db")
	menuWant(t, "GET "+without+"/admin", 404, "no_such_path")
	_, url := serviceOf(t, dir, nil, "feed", "serve", "--store", "sqlite:feed.db", "--accounts", "accounts")
	menuWant(t, "GET "+url+"/admin", 401, "Sign in")
	b := backofficetest.NewBrowser(t, url, "feed").As("ada")
	b.Get("/posts/7", 200, "Take down")
	b.Post("/posts/7/take-down", 303, "")
	menuWant(t, "GET "+without+"/posts/7/author", 404, "not_found")
}
