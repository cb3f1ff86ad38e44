package report

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"loadstone/block/browsertest"
)

// browser is one tab of a browser, in which reports are looked at.
type browser struct {
	*browsertest.Tab
	t *testing.T
}

// startBrowser starts a browser that ends with the test and tells what goes wrong.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	b := &browser{t: t, Tab: browsertest.Start(t, "--hide-scrollbars").Open(t, browsertest.Screen{Width: 1280, Height: 800})}
	b.Hear("Page", "Runtime", "Log", "Network")
	return b
}

// look sets the size of the screen, in CSS pixels, and the theme.
func (b *browser) look(width int, theme string) {
	b.t.Helper()
	b.Look(browsertest.Screen{Width: width, Height: 800, Dark: theme == "dark"})
}

// visit opens a file and waits until it is there.
func (b *browser) visit(path string) {
	b.t.Helper()
	b.Visit((&url.URL{Scheme: "file", Path: path}).String())
}

// complaints are what the browser had to say since the last time, and the
// requests that did not go to the page itself.
func (b *browser) complaints(page string) []string {
	b.t.Helper()
	var found []string
	for _, e := range b.Events() {
		switch {
		case e.IsComplaint(), e.Method == "Network.loadingFailed":
			found = append(found, e.String())
		case e.Method == "Network.requestWillBeSent":
			var sent struct {
				Request struct {
					URL string `json:"url"`
				} `json:"request"`
			}
			if err := json.Unmarshal(e.Params, &sent); err != nil {
				found = append(found, err.Error())
			} else if u := sent.Request.URL; !strings.HasSuffix(u, page) && !strings.HasPrefix(u, "data:") && u != "about:blank" {
				found = append(found, "a request to "+u)
			}
		}
	}
	return found
}

// keepPicture writes what the tab shows, or prints, if the test is to keep pages.
func (b *browser) keepPicture(name, method string, params map[string]any) {
	b.t.Helper()
	if *keep == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(*keep, name), b.File(method, params), 0o600); err != nil {
		b.t.Fatal(err)
	}
}
