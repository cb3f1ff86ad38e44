package objects

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"loadstone/block/servertest"
)

// between stands between a store and its server. Each request that is to write or read an object meets the next of its
// faults; what is left unsaid is passed on.
type between struct {
	server string
	client http.Client

	mu     sync.Mutex
	faults []fault
	met    int
}

type fault string

const (
	none       fault = ""
	unheard    fault = "the server does it, and its answer is lost"
	half       fault = "half of what is sent arrives"
	flipped    fault = "a bit of what is sent changes"
	busy       fault = "the server is busy"
	conflict   fault = "the server has another write of the object under way"
	silent     fault = "nobody answers"
	halfAnswer fault = "half of the answer arrives"
)

func standBetween(t *testing.T, s *servertest.S3Server) (*between, S3Config) {
	t.Helper()
	server, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	b := &between{server: server.Host, client: http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	front := httptest.NewServer(b)
	t.Cleanup(func() {
		front.Close()
		b.client.CloseIdleConnections()
	})
	cfg := DefaultS3Config()
	cfg.URL, cfg.AccessKey, cfg.SecretKey = front.URL+server.Path, s.AccessKey, s.SecretKey
	return b, cfg
}

func (b *between) next(faults ...fault) { b.mu.Lock(); b.faults, b.met = faults, 0; b.mu.Unlock() }

func (b *between) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	b.mu.Lock()
	now := none
	if r.Method != http.MethodHead { // a look at the tag meets none
		if b.met < len(b.faults) {
			now = b.faults[b.met]
		}
		b.met++
	}
	b.mu.Unlock()
	size := int64(len(body))
	reader := io.Reader(bytes.NewReader(body))
	switch now {
	case busy:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case conflict:
		w.WriteHeader(http.StatusConflict)
		return
	case silent:
		<-r.Context().Done()
		return
	case half: // the connection to the server ends there
		reader = io.MultiReader(bytes.NewReader(body[:len(body)/2]), failing{})
	case flipped:
		body[len(body)/2] ^= 1
	case none, unheard, halfAnswer:
	}
	out, _ := http.NewRequestWithContext(r.Context(), r.Method, "http://"+b.server+r.URL.RequestURI(), reader)
	out.Host, out.Header, out.ContentLength = r.Host, r.Header.Clone(), size // as they were signed
	answer, err := b.client.Do(out)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	if now == unheard {
		panic(http.ErrAbortHandler)
	}
	maps.Copy(w.Header(), answer.Header)
	w.WriteHeader(answer.StatusCode)
	if now == halfAnswer {
		w.Write(text[:len(text)/2])
		panic(http.ErrAbortHandler)
	}
	w.Write(text)
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("cut") }

// What goes wrong on the way is tried again, and is never taken for another writer, nor that one for oneself.
func TestS3Faults(t *testing.T) {
	t.Parallel()
	s := servertest.S3(t)
	b, cfg := standBetween(t, s)
	store, err := OpenS3(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	store.pause = time.Millisecond
	direct := openS3(t, s, s.URL)
	text := strings.Repeat("text ", 1000)
	for name, faults := range map[string][]fault{
		"unheard": {unheard}, "half": {half}, "busy": {busy, busy}, "conflict": {conflict}, "all": {half, busy, unheard}, "none": {none},
	} {
		b.next(faults...)
		first := put(t, store, name, text, Absent)
		holds(t, direct, name, text, first)
		b.next(faults...)
		second := put(t, store, name, text+name, first)
		holds(t, direct, name, text+name, second)
		b.next(faults...)
		holds(t, store, name, text+name, second)
		b.next(faults...)
		if err := store.Delete(t.Context(), name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	there := put(t, direct, "there", text, Absent)
	b.next(halfAnswer)
	holds(t, store, "there", text, there)
	// Another's object is not one's own that was not heard of.
	for _, was := range []Tag{Absent, "0123456789abcdef0123456789abcdef"} {
		b.next(busy)
		if _, err := store.Put(t.Context(), "there", []byte(text+"!"), was); !errors.Is(err, ErrChanged) {
			t.Errorf("got %v", err)
		}
	}
	// Nor is there an end of attempts at what would be refused, if it could be sent.
	b.next(half, none, half, half)
	if _, err := store.Put(t.Context(), "there", []byte(text+"!"), Absent); !errors.Is(err, ErrChanged) {
		t.Errorf("got %v", err)
	}
	holds(t, direct, "there", text, there)
	// Nothing is stored of what does not arrive, and there is no end of attempts only if that may help.
	for now, want := range map[fault]string{half: "4 attempts failed", busy: "503", flipped: ""} {
		b.next(now, now, now, now)
		_, err := store.Put(t.Context(), "never", []byte(text), Absent)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "write never in "+cfg.URL+": ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v", now, err)
		}
		if b.met > 1 == (now == flipped) {
			t.Errorf("%s: %d attempts", now, b.met)
		}
		if names, err := direct.List(t.Context(), "never"); err != nil || len(names) > 0 {
			t.Errorf("%s: there is %q, %v", now, names, err)
		}
	}
}

func TestS3IsNotThere(t *testing.T) {
	t.Parallel()
	s := servertest.S3(t)
	b, cfg := standBetween(t, s)
	cfg.Attempts = 2
	store, err := OpenS3(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	wrong := map[string]func(cfg *S3Config){
		"2 attempts failed, the last: no answer for 10ms": func(cfg *S3Config) { cfg.Timeout = 10 * time.Millisecond },
		"signature":                   func(cfg *S3Config) { cfg.SecretKey = "wrong" },
		"bucket does not exist":       func(cfg *S3Config) { cfg.URL += "s" },
		"connection refused":          func(cfg *S3Config) { cfg.URL = "http://127.0.0.1:1/bucket" },
		"gave HTTP response to HTTPS": func(cfg *S3Config) { cfg.URL = "https" + strings.TrimPrefix(cfg.URL, "http") },
	}
	for want, change := range wrong {
		cfg := cfg
		change(&cfg)
		b.next()
		if strings.Contains(want, "no answer") {
			b.next(silent, silent, silent, silent, silent, silent)
		}
		store, err := OpenS3(cfg)
		if err != nil {
			t.Fatal(err)
		}
		_, _, getErr := store.Get(t.Context(), "name")
		_, putErr := store.Put(t.Context(), "name", nil, Absent)
		_, listErr := store.List(t.Context(), "name")
		for _, err := range []error{getErr, putErr, listErr} {
			if err == nil || errors.Is(err, ErrNotFound) || errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want %q", err, want)
			}
		}
		store.Close()
	}
	// It goes down, and comes back.
	b.next()
	tag := put(t, store, "it", "text", Absent)
	s.Kill()
	if _, _, err := store.Get(t.Context(), "it"); err == nil || errors.Is(err, ErrNotFound) {
		t.Errorf("got %v", err)
	}
	s.Start()
	holds(t, store, "it", "text", tag)
}

// Who is first makes the bucket, however many are.
func TestBucketIsMade(t *testing.T) {
	t.Parallel()
	s := servertest.S3(t)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if err := openS3(t, s, s.URL+"-of-ours/feed").MakeBucket(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	store := openS3(t, s, s.URL+"-of-ours/feed")
	holds(t, store, "name", "text", put(t, store, "name", "text", Absent))
	if err := store.MakeBucket(t.Context()); err != nil {
		t.Error(err)
	}
	if names, err := store.List(t.Context(), ""); err != nil || len(names) != 1 {
		t.Errorf("got %q, %v: it was made anew", names, err)
	}
}

func TestKeysOfAFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "keys")
	for text, want := range map[string]string{
		"[default]\naws_access_key_id = feed\naws_secret_access_key = secret\n":                    "",
		"[other]\naws_access_key_id = feed\naws_secret_access_key = secret\n":                      path + " has none: write a line [default]",
		"[default]\naws_access_key_id = feed\n":                                                    path + " has none: write a line [default]",
		"[default]\naws_access_key_id = feed\nsecret\naws_secret_access_key = secret\n[unfinished": path + " has none: write a line [default]",
		"": path + " has none: write a line [default]",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		access, secret, err := ReadKeys(path)
		switch {
		case want == "" && (err != nil || access != "feed" || secret != "secret"):
			t.Errorf("got %q, %q, %v", access, secret, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n")):
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if _, _, err := ReadKeys(path + "s"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestS3Config(t *testing.T) {
	t.Parallel()
	cfg := DefaultS3Config()
	cfg.AccessKey, cfg.SecretKey = "a", "s"
	for _, wrong := range []string{"", "bucket", "host/bucket", "ftp://host/bucket", "https://host", "https://host/", "https://host/b/../c", "https://u:p@host/bucket", "https://host/bucket?x=1", "https:///bucket", "%"} {
		cfg.URL = wrong
		if _, err := OpenS3(cfg); err == nil || !strings.Contains(err.Error(), "write https://HOST/BUCKET") {
			t.Errorf("%q: got %v", wrong, err)
		}
	}
	cfg = S3Config{URL: "https://host/bucket/"}
	_, err := OpenS3(cfg)
	for _, want := range []string{"missing", "timeout is 0s", "attempts is 0"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
