package cli

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
	feedSaid(t, dir, 2, `serializer is "xml": write append, json or maps`, "serve", "--serializer", "xml")
	feedSaid(t, dir, 2, "write batch or each", "serve", "--queries", "some")
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
		feedSaid(t, dir, 2, "none.csv: these are no posts: there is no such file", append(args, "none.csv", "--store", "sqlite:none.db")...)
	}

	_, url := serviceOf(t, dir, nil, "feed", "serve", "--store", "sqlite:feed.db", "--serializer", "maps", "--queries", "each")
	read := feedtest.Journey(t, http.DefaultClient, url, feedtest.Ways()[2])
	if n := strings.Count(read, "\n"); n != 4*63-1 {
		t.Errorf("got %d lines of a journey", n)
	}
	menuWant(t, "GET "+url+"/app", 200, "<h1>Feed</h1>")
}
