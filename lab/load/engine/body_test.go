package engine

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"loadstone/lab/load"
	"loadstone/lab/load/feed"
)

// TestBodiesArriveAsTheyAreMeant has each kind of body, with a value that would break it if
// it were put in as it is, read by net/http.
func TestBodiesArriveAsTheyAreMeant(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const name = "Ann \"the\\ \n&=100%+ é"
	csv, photo := filepath.Join(dir, "users.csv"), filepath.Join(dir, "photo.bin")
	for path, text := range map[string]string{csv: "name\n\"Ann \"\"the\\ \n&=100%+ é\"\n", photo: "\x00{name}\xff"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	got := map[string]string{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /json", func(_ http.ResponseWriter, r *http.Request) {
		var body struct {
			Name string `json:"name"`
		}
		err := json.NewDecoder(r.Body).Decode(&body)
		mu.Lock()
		defer mu.Unlock()
		got["json"] = r.Header.Get("Content-Type") + " " + body.Name
		if err != nil {
			got["json"] = err.Error()
		}
	})
	mux.HandleFunc("POST /form", func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got["form"] = r.Header.Get("Content-Type") + " " + r.PostFormValue("name")
	})
	mux.HandleFunc("POST /multipart", func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		file, header, err := r.FormFile("photo")
		if err != nil {
			got["multipart"] = err.Error()
			return
		}
		content, _ := io.ReadAll(file)
		got["multipart"] = header.Filename + " " + string(content) + " " + r.PostFormValue("name")
	})
	mux.HandleFunc("POST /text", func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		got["text"] = r.Header.Get("Content-Type") + " " + string(body)
	})
	for protocol, start := range map[string]func(*httptest.Server){
		load.HTTP1: (*httptest.Server).Start,
		load.HTTP2: func(s *httptest.Server) {
			s.Config.Protocols = new(http.Protocols)
			s.Config.Protocols.SetUnencryptedHTTP2(true)
			s.Start()
		},
	} {
		s := httptest.NewUnstartedServer(mux)
		start(s)
		t.Cleanup(s.Close)
		mu.Lock()
		clear(got)
		mu.Unlock()
		post := func(path string, r load.Request) load.Step {
			r.Method, r.Path = http.MethodPost, "/"+path
			return load.Step{Name: path, Request: r}
		}
		r, _ := mustRun(t, load.Plan{
			Targets: []string{s.URL}, Seed: 1, Timeout: time.Minute, Protocol: protocol,
			Scenarios: []load.Scenario{{
				Name: "bodies", Executor: load.SharedIterations, VUs: 1, Iterations: 2, Duration: 2 * time.Minute, GracefulStop: time.Second,
				Feed: map[string]feed.Feed{"name": {CSV: &feed.File{Path: csv}}},
				Steps: []load.Step{
					post("json", load.Request{Body: `{"name": "{name}"}`}),
					post("form", load.Request{Form: map[string]string{"name": "{name}", "x": "1"}}),
					post("multipart", load.Request{Multipart: []load.FormField{{Name: "name", Value: "{name}"}, {Name: "photo", File: photo}}}),
					post("text", load.Request{Body: `name: {name}`}),
				},
			}},
		})
		if r.Requests != 8 || r.Failed > 0 {
			t.Fatalf("%s: %d requests, %d failed, %v; want 8 and none", protocol, r.Requests, r.Failed, r.Errors)
		}
		for what, want := range map[string]string{
			"json": "application/json " + name, "form": "application/x-www-form-urlencoded " + name,
			"multipart": "photo.bin \x00{name}\xff " + name, "text": " name: " + name,
		} {
			mu.Lock()
			saw := got[what]
			mu.Unlock()
			if saw != want {
				t.Errorf("%s, %s: the server saw %q, want %q", protocol, what, saw, want)
			}
		}
	}
}

// TestColumnsThatAreNotThere says so before anything is sent: the first column is not taken
// in place of one that is misspelt.
func TestColumnsThatAreNotThere(t *testing.T) {
	t.Parallel()
	csv := filepath.Join(t.TempDir(), "users.csv")
	if err := os.WriteFile(csv, []byte("id,name\n1,Ann\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for placeholder, want := range map[string]string{
		"user.nosuch": `users.csv has no column "nosuch" for {user.nosuch}, only "id", "name": write {user.id}`,
		"user.nama":   `users.csv has no column "nama" for {user.nama}: write {user.name}`,
		"user":        `users.csv has the columns "id", "name", and {user} names none of them: write {user.id}`,
	} {
		plan := shopping("http://127.0.0.1:9")
		s := &plan.Scenarios[0]
		s.Feed = map[string]feed.Feed{"user": {CSV: &feed.File{Path: csv}}}
		s.Steps = []load.Step{{Name: "one", Request: load.Request{Method: "GET", Path: "/{" + placeholder + "}"}}}
		_, err := Run(t.Context(), plan, nil, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("{%s}: %v, want %s", placeholder, err, want)
		}
	}
}
