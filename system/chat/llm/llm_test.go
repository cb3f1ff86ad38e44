package llm

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

const secret = "sk-secret"

// model is a server that answers with a status and a body.
func model(t *testing.T, answer http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	cfg := Config{URL: server.URL + "/v1/", Model: "small", Key: secret, Timeout: time.Minute}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	return New(cfg)
}

func reply(text string) string {
	data, _ := json.Marshal(map[string]any{"choices": []any{map[string]any{"message": map[string]string{"role": "assistant", "content": text}}}})
	return string(data)
}

func TestSummarise(t *testing.T) {
	t.Parallel()
	requests := make(chan string, 1)
	c := model(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests <- r.URL.Path + " " + r.Header.Get("Authorization") + " " + string(body)
		_, _ = io.WriteString(w, reply(" They like\n\tthe <b>song</b>.\x07\u009b "))
	})
	got, err := c.Summarise(t.Context(), []string{"노래 좋다", `"quoted"`})
	if err != nil || got != "They like the <b>song</b>." {
		t.Errorf("got %q, %v", got, err)
	}
	request := <-requests
	for _, want := range []string{"/v1/chat/completions Bearer " + secret, `"model":"small"`, `노래 좋다\n\"quoted\"`} {
		if !strings.Contains(request, want) {
			t.Errorf("got %s, want %s in it", request, want)
		}
	}
}

func TestALongTextIsCut(t *testing.T) {
	t.Parallel()
	c := model(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, reply(strings.Repeat("가", 2000)))
	})
	if got, err := c.Summarise(t.Context(), []string{"a"}); err != nil || utf8.RuneCountInString(got) != 500 {
		t.Errorf("got %d characters, %v", utf8.RuneCountInString(got), err)
	}
}

// Whatever comes back, there is an error without the key in it.
func TestOtherAnswersAreErrors(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{
		"refused": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "bad key "+secret, http.StatusUnauthorized)
		},
		"no json":    func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>"+secret) },
		"no choices": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"choices":[]}`) },
		"empty":      func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, reply(" \n")) },
		"endless": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, reply(strings.Repeat("x", maxReply)))
		},
		"elsewhere": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/other", http.StatusTemporaryRedirect)
		},
		"hangs up": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		got, err := model(t, answer).Summarise(t.Context(), []string{"a"})
		if err == nil || got != "" || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
}

func TestWhoHangsIsLeft(t *testing.T) {
	t.Parallel()
	const most = 12
	came, left := make(chan struct{}, most), make(chan struct{}, most)
	c := model(t, func(_ http.ResponseWriter, r *http.Request) {
		came <- struct{}{}
		_, _ = io.Copy(io.Discard, r.Body) // else the end of the connection is not seen
		<-r.Context().Done()
		left <- struct{}{}
	})
	c.http.Timeout = 10 * time.Millisecond
	for range most { // on a busy machine the time may be over before the request is there
		if _, err := c.Summarise(t.Context(), []string{"a"}); err == nil {
			t.Error("got an answer")
		}
		if len(came) > 0 {
			<-left
			return
		}
		c.http.Timeout *= 2
	}
	t.Error("no request came")
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]Config{
		"has no URL":                        {Model: "m"},
		"cannot be used":                    {URL: "ftp://host/v1", Model: "m", Timeout: 1},
		"URL of the language model":         {URL: "https://user:" + secret + "@host/v1", Model: "m", Timeout: 1},
		"has no name":                       {URL: "https://host/v1", Timeout: 1},
		"may take 0s":                       {URL: "https://host/v1", Model: "m"},
		"characters that a header cannot h": {URL: "https://host/v1", Model: "m", Timeout: 1, Key: secret + "\n"},
	} {
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if err := (Config{}).Validate(); err != nil || (Config{}).On() {
		t.Errorf("without a model: got %v", err)
	}
}
