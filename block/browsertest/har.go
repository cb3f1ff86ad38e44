package browsertest

import (
	"encoding/json"
	"time"
)

// exchange is a request of a page and what came of it, as the events of the protocol's
// domain Network tell.
type exchange struct {
	id       string
	kind     string
	began    time.Time
	from, to float64 // seconds of the browser's clock
	request  struct {
		URL      string            `json:"url"`
		Method   string            `json:"method"`
		Headers  map[string]string `json:"headers"`
		PostData string            `json:"postData"`
	}
	status int
	media  string
	cached bool
	ended  bool
}

// Record begins to record the requests of the tab's pages. stop waits for those under way
// and returns all as a HAR 1.2, with the fields that Chromium's network panel writes.
func (t *Tab) Record() (stop func() []byte) {
	t.tb.Helper()
	t.Hear("Network")
	t.Events() // of before
	return func() []byte {
		t.tb.Helper()
		var all []*exchange
		for deadline := time.Now().Add(callTimeout); ; time.Sleep(10 * time.Millisecond) {
			for _, e := range t.Events() {
				all = hear(all, e)
			}
			if !underWay(all) {
				break
			}
			if time.Now().After(deadline) {
				t.tb.Fatalf("these requests of the page did not end within %v: %s", callTimeout, pending(all))
			}
		}
		var entries []map[string]any
		for _, x := range all {
			entries = append(entries, t.entry(x))
		}
		out, err := json.Marshal(map[string]any{"log": map[string]any{
			"version": "1.2", "creator": map[string]string{"name": "browsertest", "version": "1"}, "pages": []any{}, "entries": entries,
		}})
		if err != nil {
			t.tb.Fatal(err)
		}
		return out
	}
}

func underWay(all []*exchange) bool { return pending(all) != "" }

// pending are the requests that have not ended, of the last page: of what a page that was
// left had under way, its icon say, the browser may never tell the end. A HAR has such
// requests with the status 0.
func pending(all []*exchange) (out string) {
	for _, x := range all {
		if x.kind == "Document" {
			out = ""
		}
		if !x.ended {
			out += " " + x.kind + " " + x.request.Method + " " + x.request.URL
		}
	}
	return out
}

// hear takes in an event.
func hear(all []*exchange, e Event) []*exchange {
	var told struct {
		RequestID        string          `json:"requestId"`
		Type             string          `json:"type"`
		Timestamp        float64         `json:"timestamp"`
		WallTime         float64         `json:"wallTime"`
		Request          json.RawMessage `json:"request"`
		RedirectResponse *struct {
			Status   int    `json:"status"`
			MimeType string `json:"mimeType"`
		} `json:"redirectResponse"`
		Response struct {
			Status        int    `json:"status"`
			MimeType      string `json:"mimeType"`
			FromDiskCache bool   `json:"fromDiskCache"`
		} `json:"response"`
	}
	if json.Unmarshal(e.Params, &told) != nil {
		return all
	}
	var last *exchange
	for _, x := range all {
		if x.id == told.RequestID && !x.ended {
			last = x
		}
	}
	switch {
	case e.Method == "Network.requestWillBeSent":
		if last != nil && told.RedirectResponse != nil {
			last.status, last.media, last.to, last.ended = told.RedirectResponse.Status, told.RedirectResponse.MimeType, told.Timestamp, true
		}
		x := &exchange{id: told.RequestID, kind: told.Type, from: told.Timestamp, began: time.UnixMicro(int64(told.WallTime * 1e6))}
		if json.Unmarshal(told.Request, &x.request) == nil {
			all = append(all, x)
		}
	case last == nil:
	case e.Method == "Network.responseReceived":
		last.status, last.media, last.cached = told.Response.Status, told.Response.MimeType, told.Response.FromDiskCache
	case e.Method == "Network.loadingFinished", e.Method == "Network.loadingFailed":
		last.to, last.ended = told.Timestamp, true
	}
	return all
}

// kinds are the network panel's words for the protocol's.
var kinds = map[string]string{
	"Document": "document", "Stylesheet": "stylesheet", "Image": "image", "Font": "font", "Script": "script",
	"XHR": "xhr", "Fetch": "fetch", "WebSocket": "websocket", "Manifest": "manifest", "Preflight": "preflight",
}

// entry is an exchange as a HAR has it.
func (t *Tab) entry(x *exchange) map[string]any {
	headers := []map[string]string{}
	for name, value := range x.request.Headers {
		headers = append(headers, map[string]string{"name": name, "value": value})
	}
	content := map[string]any{"mimeType": x.media, "size": 0}
	var body struct {
		Body          string `json:"body"`
		Base64Encoded bool   `json:"base64Encoded"`
	}
	// Of a page that was left, the browser has no bodies any more.
	if t.browser.call(t.session, "Network.getResponseBody", map[string]any{"requestId": x.id}, &body) == nil {
		content["text"] = body.Body
		if body.Base64Encoded {
			content["encoding"] = "base64"
		}
	}
	request := map[string]any{"method": x.request.Method, "url": x.request.URL, "httpVersion": "HTTP/1.1", "headers": headers}
	if x.request.PostData != "" {
		request["postData"] = map[string]any{"mimeType": x.request.Headers["Content-Type"], "text": x.request.PostData}
	}
	entry := map[string]any{
		"_resourceType": kinds[x.kind], "startedDateTime": x.began, "time": 1000 * (x.to - x.from), "request": request,
		"response": map[string]any{"status": x.status, "content": content},
	}
	if x.cached {
		entry["_fromCache"] = "disk"
	}
	return entry
}
