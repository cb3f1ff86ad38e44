package httpapi_test

import (
	"io"
	"net/http"
	"strconv"
	"testing"
)

// Answers of one connection go into one buffer: none has anything of those before it, however
// long they were, and whatever became of them.
func TestPublishedMenusOverOneConnection(t *testing.T) {
	t.Parallel()
	f, _, text := startRecorded(t)
	transport := &http.Transport{MaxConnsPerHost: 1, DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	client := http.Client{Transport: transport}
	do := func(method, path, match string) (status int, body string, header http.Header) {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+f.addr+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if match != "" {
			req.Header.Set("If-None-Match", match)
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		got, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(got), res.Header
	}
	for id := int64(1); id <= 50; id++ {
		want, path := text(id), "/menu/"+strconv.FormatInt(id, 10)
		status, got, header := do("GET", path, "")
		if status != 200 || got != want || header.Get("ETag") != tagOf(want) || header.Get("X-Menu-Version") != "0" ||
			header.Get("Content-Type") != "application/json; charset=utf-8" || header.Get("Cache-Control") != "public, no-cache" {
			t.Errorf("GET %s: got status %d, %v and %s, want %s", path, status, header, got, want)
		}
		if status, got, header := do("HEAD", path, ""); status != 200 || got != "" || header.Get("Content-Length") != strconv.Itoa(len(want)) {
			t.Errorf("HEAD %s: got status %d, %v and %q", path, status, header, got)
		}
		if status, got, header := do("GET", path, tagOf(want)); status != 304 || got != "" || header.Get("ETag") != tagOf(want) {
			t.Errorf("GET %s with its tag: got status %d, %v and %q", path, status, header, got)
		}
		const absent = `{"error":{"code":"not_found","message":"no menu has this id"}}`
		if status, got, _ := do("GET", "/menu/51", ""); status != 404 || got != absent {
			t.Errorf("GET of no menu: got status %d and %s", status, got)
		}
	}
}
