package httpapi_test

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"loadstone/system/menu"
	"loadstone/system/menu/httpapi"
)

// Every answer that the document lists is given by the server. That every answer given is
// in the document is checked wherever a test sends a request.
func TestDocumentIsExercised(t *testing.T) {
	t.Parallel()
	document, err := theDocument()
	if err != nil {
		t.Fatal(err)
	}
	if err := document.Whole(); err != nil {
		t.Error(err)
	}
	missing := document.Names()
	targets := []string{"/menu", "/menu?ids=7", "/menu/7", "/menu/6", "/menu/x", "/menu/7/metadata", "/menu/6/metadata", "/menu/x/metadata", "/menu/7/availability", "/menu/6/availability", "/menu/x/availability", "/menu/7/sold-out", "/menu/6/sold-out", "/menu/7/now", "/menu/6/now", "/menu/x/now", "/openapi.json", "/healthz", "/readyz", "/nothing"}
	const mark = `{"dish":"Shiro","soldOut":true}`
	visit := func(f fixture, headers ...string) {
		for _, target := range targets {
			for _, method := range []string{"GET", "HEAD", "DELETE", "POST", "PUT", "PATCH"} {
				for _, body := range []string{strings.Replace(seven, `"id":7,`, "", 1), "{}", "["} {
					if method == "PATCH" {
						body = strings.Replace(mark, "Shiro", body[:1], 1)
					}
					if method == "GET" || method == "HEAD" {
						body = ""
					}
					delete(missing, f.ask(t, method+" "+target, body, headers...).document)
				}
			}
		}
	}
	f := start(t, nil)
	visit(f, bearer, asJSON)
	recorded, d, _ := startRecorded(t)
	for _, method := range []string{"GET", "HEAD"} {
		delete(missing, recorded.ask(t, method+" /menu/dictionary/"+d.Name(), "").document)
		delete(missing, recorded.ask(t, method+" /menu/dictionary/0", "").document)
	}
	visit(f, asJSON)
	visit(f, bearer)
	for range 2 { // made, and replaced
		delete(missing, f.write(t, "PUT /menu/7", seven).document)
		delete(missing, f.write(t, "PATCH /menu/7/sold-out", mark).document)
		delete(missing, f.write(t, "PATCH /menu/7/sold-out", mark, `If-Match: "x"`).document)
		delete(missing, f.write(t, "PATCH /menu/7/sold-out", "[").document)
	}
	visit(f, bearer, asJSON, `If-Match: "x"`)
	visit(f, "If-None-Match: *")
	delete(missing, f.write(t, "POST /menu", seven).document)
	visit(start(t, func(c *httpapi.Config) { c.Token = "" }), asJSON)
	visit(start(t, func(c *httpapi.Config) { c.Store = published{newMemory(t)} }), asJSON)
	f.db.fail(menu.ErrUnavailable)
	visit(f, bearer, asJSON)
	f.db.fail(menu.ErrCorrupt)
	visit(f, bearer, asJSON)
	f.db.fail(nil)
	f.db.mu.Lock()
	f.db.panic = "broken"
	f.db.mu.Unlock()
	f.ask(t, "GET /menu/7", "").want(t, 500, `"internal"`)
	stopping := start(t, func(c *httpapi.Config) { c.Ready = func() bool { return false } })
	for _, method := range []string{"GET", "HEAD"} {
		delete(missing, stopping.ask(t, method+" /readyz", "").document)
	}
	for _, request := range []string{
		"garbage\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\nCookie: " + strings.Repeat("c", 20_000) + "\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n",
	} {
		delete(missing, f.send(t, request).document)
	}
	hasty := startReading(t, nil, 2*time.Second) // for as much as has come before it is over
	delete(missing, hasty.send(t, "GET / HTTP/1.1\r\nHost: x\r\nX-").document)
	if len(missing) > 0 {
		t.Errorf("in the document and never seen:\n%s", strings.Join(slices.Sorted(maps.Keys(missing)), "\n"))
	}
}

func TestDocumentIsServed(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	if got := start(t, nil).ask(t, "GET /openapi.json", ""); got.Status != 200 || got.Body != string(want) {
		t.Errorf("got status %d and %d bytes, want 200 and the file's %d", got.Status, len(got.Body), len(want))
	}
}
