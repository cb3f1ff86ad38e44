package engine

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"

	"loadstone/lab/load"
	"loadstone/lab/load/failure"
)

// encode applies content codings in their order, as a server does.
func encode(tb testing.TB, body []byte, codings ...string) []byte {
	tb.Helper()
	for _, coding := range codings {
		var out bytes.Buffer
		w := map[string]func() (io.WriteCloser, error){
			"gzip":    func() (io.WriteCloser, error) { return gzip.NewWriter(&out), nil },
			"deflate": func() (io.WriteCloser, error) { return zlib.NewWriter(&out), nil },
			"x-own":   func() (io.WriteCloser, error) { return asItIs{&out}, nil },
			"br":      func() (io.WriteCloser, error) { return brotli.NewWriter(&out), nil },
			"zstd":    func() (io.WriteCloser, error) { return zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1)) },
		}
		coder, err := w[coding]()
		if err != nil {
			tb.Fatal(err)
		}
		if _, err := coder.Write(body); err != nil {
			tb.Fatal(err)
		}
		if err := coder.Close(); err != nil {
			tb.Fatal(err)
		}
		body = out.Bytes()
	}
	return body
}

// asItIs is a coding that changes nothing.
type asItIs struct{ io.Writer }

func (asItIs) Close() error { return nil }

// TestAnswersAreDecodedBeforeTheyAreLookedAt: values and checks are of what an answer
// means, whatever it travels as; bytes are those that travelled.
func TestAnswersAreDecodedBeforeTheyAreLookedAt(t *testing.T) {
	t.Parallel()
	plain := []byte(`{"post": {"id": "a/7"}, "text": "` + strings.Repeat("hello ", 2000) + `"}`)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		coding := r.Header.Get("Accept-Encoding")
		if strings.HasPrefix(r.URL.Path, "/post/") {
			if r.URL.Path != "/post/a/7" {
				w.WriteHeader(http.StatusNotFound)
			}
			return
		}
		w.Header().Set("Content-Encoding", coding)
		body := plain
		if coding != "identity" {
			body = encode(t, plain, strings.Split(coding, ", ")...)
		}
		_, _ = w.Write(body)
	}))
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	for _, protocol := range []string{load.HTTP1, load.HTTP2} {
		for _, coding := range []string{"identity", "gzip", "br", "zstd", "deflate", "gzip, br, zstd", "x-own", "x-own, gzip"} {
			t.Run(protocol+" "+coding, func(t *testing.T) {
				plan := shopping(server.URL)
				plan.Protocol = protocol
				s := &plan.Scenarios[0]
				s.Feed = nil
				s.Steps = []load.Step{
					{
						Name: "list", Request: load.Request{Method: "GET", Path: "/list", Header: map[string]string{"Accept-Encoding": coding}},
						Extract: map[string]load.Extract{"id": {JSON: "post.id"}},
						Checks:  []load.Check{{Name: "greets", Contains: "lo hello hel"}, {Name: "has an id", JSON: "post.id"}},
					},
					{Name: "post", Request: load.Request{Method: "GET", Path: "/post/{id}"}},
				}
				r, _ := mustRun(t, plan)
				if r.Requests != 40 || r.Failed > 0 {
					t.Fatalf("%d requests, %d failed, errors %v, statuses %v; want 40 and none", r.Requests, r.Failed, r.Errors, r.Status)
				}
				wantChecks(t, r, "greets 20/0", "has an id 20/0")
				if got := r.Steps[0].Received / 20; coding != "identity" && coding != "x-own" && got > uint64(len(plain))/10 {
					t.Errorf("%d bytes came for each answer, want what it was encoded to", got)
				}
			})
		}
	}
}

// TestAnswersThatCannotBeDecoded end the iteration with a reason, and cost no memory.
func TestAnswersThatCannotBeDecoded(t *testing.T) {
	t.Parallel()
	good := []byte(`{"post": {"id": "7"}}`)
	opaque := []byte("\x28\xb5\x2f\xfd")
	long := []byte(`{"post": {"id": "7"}, "text": "` + strings.Repeat("x", 50<<20) + `"}`)
	for name, test := range map[string]struct {
		coding string
		body   []byte
		want   string
	}{
		"unknown":       {"x-own", opaque, `Content-Encoding is "x-own", and only gzip, deflate, br and zstd are decoded`},
		"not deflate":   {"deflate", good, "not what its Content-Encoding deflate says"},
		"a bomb":        {"deflate", encode(t, long, "deflate"), tooLong},
		"a dictionary":  {"dcz", opaque, `Content-Encoding is "dcz"`},
		"not gzip":      {"gzip", good, "not what its Content-Encoding gzip says"},
		"not br":        {"br", good, "not what its Content-Encoding br says"},
		"not zstd":      {"zstd", good, "not what its Content-Encoding zstd says"},
		"half":          {"gzip", encode(t, good, "gzip")[:20], "not what its Content-Encoding gzip says"},
		"a gzip bomb":   {"gzip", encode(t, long, "gzip"), tooLong},
		"a br bomb":     {"br", encode(t, long, "br"), tooLong},
		"a zstd bomb":   {"zstd", encode(t, long, "zstd"), tooLong},
		"many codings":  {"gzip,gzip,gzip,gzip", opaque, "4 content codings"},
		"long and open": {"", long, tooLong},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			head := ""
			if test.coding != "" {
				head = "Content-Encoding: " + test.coding + "|"
			}
			server := serveRaw(t, func(c *rawConn) {
				for c.request() != nil {
					c.send(fmt.Sprintf("HTTP/1.1 200 OK|%sContent-Length: %d||", head, len(test.body)))
					_, _ = c.Write(test.body)
				}
			})
			plan := shopping(server.url)
			s := &plan.Scenarios[0]
			s.VUs, s.Iterations, s.Feed = 1, 2, nil
			s.Steps = []load.Step{
				{Name: "list", Request: load.Request{Method: "GET", Path: "/"}, Extract: map[string]load.Extract{"id": {JSON: "post.id"}}},
				{Name: "post", Request: load.Request{Method: "GET", Path: "/{id}"}},
			}
			plan.Timeout = 60 * time.Second
			r, _ := mustRun(t, plan)
			e := r.Errors[failure.NoValue.String()]
			if e.Count != 2 || r.Steps[1].Requests != 0 || !strings.Contains(e.Example, test.want) {
				t.Errorf("errors %v, %d requests of the next step; want 2 failures that say %q", r.Errors, r.Steps[1].Requests, test.want)
			}
		})
	}
}
