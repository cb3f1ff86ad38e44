package nginx_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

const (
	public  = "public, max-age=60"
	private = "private, no-cache"
)

func TestCacheKeepsPublicAnswersAndServesThemWhenReplicasAreGone(t *testing.T) {
	t.Parallel()
	program(t)
	f := startFake(t, says(200, "a result", "Cache-Control", public, "ETag", `"1"`))
	b := run(t, []string{f.address}, settings{env: map[string]string{"EDGE_CACHE": "15s"}}) // three requests take less
	url := "http://" + b.http + "/student/1"
	for i, want := range []string{"MISS", "MISS", "HIT"} { // the first is not kept: see proxy_cache_min_uses
		if got := ask(t, nil, "GET "+url, nil); got.header.Get("X-Cache") != want || got.body != "a result" {
			t.Errorf("request %d: got %s, %q", i+1, got.header.Get("X-Cache"), got.body)
		}
	}
	if got := ask(t, nil, "GET "+url, nil, "If-None-Match", `"1"`); got.status != 304 {
		t.Errorf("a conditional request: got status %d, want 304", got.status)
	}
	asked := f.requests.Load()
	f.end()
	wait(t, "the answer is too old", func() bool {
		got := ask(t, nil, "GET "+url, nil)
		if got.status != 200 || got.body != "a result" {
			t.Fatalf("got status %d, %q", got.status, got.body)
		}
		return slices.Contains([]string{"STALE"}, got.header.Get("X-Cache"))
	})
	if got := ask(t, nil, "GET http://"+b.http+"/student/2", nil); got.status != 503 {
		t.Errorf("what is not in the cache: got status %d, want 503", got.status)
	}
	if asked != 2 {
		t.Errorf("the replica was asked %d times, want 2", asked)
	}
}

func TestCacheFetchesAgain(t *testing.T) {
	t.Parallel()
	program(t)
	n := 0
	f := startFake(t, func(w http.ResponseWriter, r *http.Request) { // one request at a time
		n++
		says(200, fmt.Sprint(n), "Cache-Control", public)(w, r)
	})
	b := run(t, []string{f.address}, settings{env: map[string]string{"EDGE_CACHE": "1s"}})
	wait(t, "the third answer comes", func() bool { return ask(t, nil, "GET http://"+b.http+"/student/1", nil).body == "3" })
}

// Results that come out are shown at once, and those that are taken back no longer than
// EDGE_CACHE.
func TestCacheFollowsAnEmbargo(t *testing.T) {
	t.Parallel()
	program(t)
	var out atomic.Bool
	f := startFake(t, func(w http.ResponseWriter, r *http.Request) {
		if out.Load() {
			says(200, "a result", "Cache-Control", public, "ETag", `"1"`)(w, r)
		} else {
			says(403, "embargoed", "Cache-Control", "no-store")(w, r)
		}
	})
	b := run(t, []string{f.address}, settings{env: map[string]string{"EDGE_CACHE": "1s"}})
	status := func(headers ...string) int {
		return ask(t, nil, "GET http://"+b.http+"/student/1", nil, headers...).status
	}
	for range 3 {
		if got := status(); got != 403 {
			t.Errorf("before: got status %d, want 403", got)
		}
	}
	out.Store(true)
	for range 3 {
		if got := status(); got != 200 {
			t.Errorf("from the instant on: got status %d, want 200", got)
		}
	}
	out.Store(false)
	wait(t, "what is taken back is gone", func() bool { return status() == 403 })
	for range 5 {
		for _, headers := range [][]string{nil, {"If-None-Match", `"1"`}} {
			if got := status(headers...); got != 403 {
				t.Errorf("taken back: got status %d with %q, want 403", got, headers)
			}
		}
	}
}

func TestCacheNeverKeeps(t *testing.T) {
	t.Parallel()
	program(t)
	for name, c := range map[string]struct {
		status  int
		control string
		query   string
		headers []string
	}{
		"what is behind a code":            {200, private, "", nil},
		"what says nothing":                {200, "", "", nil},
		"what is called republic":          {200, "republic", "", nil},
		"no-store":                         {200, "no-store", "", nil},
		"an unknown id":                    {404, public, "", nil},
		"an embargo":                       {403, public, "", nil},
		"a failure":                        {503, public, "", nil},
		"what came for a code":             {200, public, "?code=SECRET", nil},
		"what came for a code in a header": {200, public, "", []string{"X-Access-Code", "SECRET"}},
		"what came for some query":         {200, public, "?x=1", nil},
		"what came for a cookie":           {200, public, "", []string{"Cookie", "results_wait=SECRET"}},
		"what came for somebody who is in": {200, public, "", []string{"Authorization", "SECRET"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var headers []string
			if c.control != "" {
				headers = []string{"Cache-Control", c.control}
			}
			f := startFake(t, says(c.status, "x", headers...))
			b := run(t, []string{f.address}, settings{env: map[string]string{"EDGE_CACHE": "10s"}})
			for range 3 {
				if got := ask(t, nil, "GET http://"+b.http+"/student/1"+c.query, nil, c.headers...); got.status != c.status {
					t.Errorf("got status %d, want %d", got.status, c.status)
				}
			}
			if n := f.requests.Load(); n != 3 {
				t.Errorf("3 requests reached the replica %d times", n)
			}
			b.master.Stop()
			if files := contents(t, filepath.Join(b.dir, "cache")); len(files) != 0 {
				t.Errorf("the cache holds %d files", len(files))
			}
		})
	}
}

// A cookie in an answer is one reader's.
func TestCacheKeepsNoCookie(t *testing.T) {
	t.Parallel()
	program(t)
	f := startFake(t, says(200, "x", "Cache-Control", public, "Set-Cookie", "a=b"))
	b := run(t, []string{f.address}, settings{env: map[string]string{"EDGE_CACHE": "10s"}})
	for range 2 {
		ask(t, nil, "GET http://"+b.http+"/", nil)
	}
	if n := f.requests.Load(); n != 2 {
		t.Errorf("2 requests reached the replica %d times", n)
	}
}

// contents reads all files below a directory.
func contents(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	root := os.DirFS(dir)
	err := fs.WalkDir(root, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		files[name], err = fs.ReadFile(root, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestCodesAreInNoFile(t *testing.T) {
	t.Parallel()
	program(t)
	const code = "XYZZY-12345"
	f := startFake(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/dies") {
			dies(w, r)
		}
		says(200, strings.Repeat("a result behind "+code+" ", 3000), "Cache-Control", public)(w, r)
	})
	b := run(t, []string{f.address}, settings{env: map[string]string{"EDGE_CACHE": "10s", "LB_ACCESS_LOG": "on"}})
	url := "http://" + b.http
	for range 3 {
		for _, path := range []string{"/student/1?code=", "/dies?code=", "/student/%00?code=", "/?id=1&code="} {
			ask(t, nil, "GET "+url+path+code, nil)
			ask(t, nil, "POST "+url+path+code, strings.NewReader("id=1&code="+code))
		}
		ask(t, nil, "GET "+url+"/student/1", nil, "X-Access-Code", code, "Referer", url+"/?code="+code)
		ask(t, nil, "GET "+url+"/wait", nil, "Cookie", "results_wait="+code)
		ask(t, nil, "POST "+url+"/", strings.NewReader(strings.Repeat(code, 2000))) // too large
		ask(t, nil, "GET "+url+"/"+"?code="+code+strings.Repeat("x", 20_000), nil)
	}
	f.end()
	for range 3 { // with nobody left, too
		ask(t, nil, "GET "+url+"/student/1?code="+code, nil)
		ask(t, nil, "POST "+url+"/", strings.NewReader("id=1&code="+code))
	}
	b.master.Stop()
	files := contents(t, b.dir)
	if n := bytes.Count(files["access.log"], []byte("\n")); n < 30 || !bytes.Contains(files["access.log"], []byte(`"path":"/student/1"`)) {
		t.Errorf("the access log has %d lines:\n%.1000s", n, files["access.log"])
	}
	for name, text := range files {
		if i := bytes.Index(text, []byte("XYZZY")); i >= 0 {
			t.Errorf("%s holds the code: %.300s", name, text[max(i-200, 0):])
		}
	}
}
