package engine

import (
	"errors"
	"strings"
	"testing"
)

// received is what came of reading an answer.
type received struct {
	status int
	keep   bool
	used   int  // bytes up to its end
	done   bool // it was whole
	bad    bool // it was not HTTP
}

// receive reads data in pieces that end at the given places, the way a
// connection does, and then the end of the stream if closed is set.
func receive(data string, head, closed bool, cuts ...int) received {
	var a answer
	a.reset(head, nil, nil)
	var pending []byte
	used, from := 0, 0
	for _, to := range append(cuts, len(data)) {
		pending = append(pending, data[from:to]...)
		from = to
		n, err := a.advance(pending)
		used += n
		pending = pending[n:]
		if err != nil {
			if _, ok := errors.AsType[badHTTPError](err); !ok {
				panic("an error of another kind: " + err.Error())
			}
			return received{bad: true}
		}
		if a.done() {
			break
		}
	}
	if closed {
		a.eof()
	}
	if !a.done() {
		return received{}
	}
	return received{status: a.status, keep: a.keepAlive, used: used, done: true}
}

// wire writes a message with | for the end of each line.
func wire(s string) string { return strings.ReplaceAll(s, "|", "\r\n") }

var goodAnswers = []struct {
	name string
	data string
	head bool
	want received // used is filled in: all of data
}{
	{"a length", "HTTP/1.1 200 OK|Content-Length: 5||hello", false, received{status: 200, keep: true}},
	{"no body", "HTTP/1.1 404 Not Found|Content-Length: 0||", false, received{status: 404, keep: true}},
	{"no reason", "HTTP/1.1 200|content-length:0||", false, received{status: 200, keep: true}},
	{"an empty reason", "HTTP/1.1 200 |CONTENT-LENGTH:\t 0 ||", false, received{status: 200, keep: true}},
	{"lines that end in LF alone", "HTTP/1.1 200 OK\nContent-Length: 2\n\nhi", false, received{status: 200, keep: true}},
	{"close", "HTTP/1.1 200 OK|Connection: close|Content-Length: 1||x", false, received{status: 200}},
	{"close in a list", "HTTP/1.1 200 OK|Connection: x, CLOSE ,y|Content-Length: 0||", false, received{status: 200}},
	{"HTTP/1.0", "HTTP/1.0 200 OK|Content-Length: 1||x", false, received{status: 200}},
	{"HTTP/1.0 that keeps alive", "HTTP/1.0 200 OK|Connection: Keep-Alive|Content-Length: 1||x", false, received{status: 200, keep: true}},
	{"HEAD", "HTTP/1.1 200 OK|Content-Length: 500||", true, received{status: 200, keep: true}},
	{"HEAD, chunked", "HTTP/1.1 200 OK|Transfer-Encoding: chunked||", true, received{status: 200, keep: true}},
	{"204", "HTTP/1.1 204 No Content||", false, received{status: 204, keep: true}},
	{"304 with a length", "HTTP/1.1 304 Not Modified|Content-Length: 99||", false, received{status: 304, keep: true}},
	{"1xx before it", "HTTP/1.1 100 Continue||HTTP/1.1 103 Early Hints|Link: x|Connection: close||HTTP/1.1 200 OK|Content-Length: 1||x", false, received{status: 200, keep: true}},
	{"chunks", "HTTP/1.1 200 OK|Transfer-Encoding: chunked||5|hello|1A;x=y|abcdefghijklmnopqrstuvwxyz|0||", false, received{status: 200, keep: true}},
	{"chunks and a trailer", "HTTP/1.1 500 Oops|Transfer-Encoding: Chunked||3 |abc|00|X: y|Z: |\r\n", false, received{status: 500, keep: true}},
	{"an empty chunked body", "HTTP/1.1 200 OK|Transfer-Encoding: chunked||0||", false, received{status: 200, keep: true}},
	{"the same length twice", "HTTP/1.1 200 OK|Content-Length: 2|Content-Length: 2||ok", false, received{status: 200, keep: true}},
	{"letters beyond ASCII in a header", "HTTP/1.1 200 OK|X-Name: h\u00e9|Content-Length: 0||", false, received{status: 200, keep: true}},
}

func TestAnswerIsReadWhole(t *testing.T) {
	t.Parallel()
	for _, test := range goodAnswers {
		data := wire(test.data)
		want := test.want
		want.used, want.done = len(data), true
		if got := receive(data, test.head, false); got != want {
			t.Errorf("%s: got %+v, want %+v", test.name, got, want)
		}
		// What follows is not touched.
		if got := receive(data+"HTTP/1.1 200 OK\r\n", test.head, false); got != want {
			t.Errorf("%s, with more behind it: got %+v, want %+v", test.name, got, want)
		}
		for cut := range len(data) {
			if got := receive(data, test.head, false, cut); got != want {
				t.Errorf("%s, cut at %d: got %+v, want %+v", test.name, cut, got, want)
			}
			// No beginning of an answer is an answer.
			if got := receive(data[:cut], test.head, true); got.done || got.bad {
				t.Errorf("%s, ended at %d: got %+v, want neither an answer nor a bad one", test.name, cut, got)
			}
		}
		every := make([]int, len(data))
		for i := range every {
			every[i] = i
		}
		if got := receive(data, test.head, false, every...); got != want {
			t.Errorf("%s, byte by byte: got %+v, want %+v", test.name, got, want)
		}
	}
}

func TestAnswerUntilTheConnectionCloses(t *testing.T) {
	t.Parallel()
	data := wire("HTTP/1.1 200 OK|Server: x||all of this")
	for cut := range len(data) {
		if got := receive(data, false, false, cut); got.done {
			t.Fatalf("cut at %d: done before the connection closed: %+v", cut, got)
		}
		got := receive(data, false, true, cut)
		if want := (received{status: 200, used: len(data), done: true}); got != want {
			t.Fatalf("cut at %d: got %+v, want %+v", cut, got, want)
		}
	}
}

var badAnswers = []struct{ name, data string }{
	{"no HTTP", "SSH-2.0-OpenSSH_9.2|"},
	{"HTTP/2", "HTTP/2.0 200 OK||"},
	{"HTTP/1.x without a digit", "HTTP/1.x 200 OK||"},
	{"a status of two digits", "HTTP/1.1 20 OK||"},
	{"a status of four digits", "HTTP/1.1 2000 OK||"},
	{"a status of letters", "HTTP/1.1 2OO OK||"},
	{"status 99", "HTTP/1.1 099 OK||"},
	{"status 600", "HTTP/1.1 600 OK||"},
	{"an empty first line", "|HTTP/1.1 200 OK||"},
	{"a control character in the first line", "HTTP/1.1 200 O\x00K||"},
	{"status 101", "HTTP/1.1 101 Switching Protocols|Upgrade: h2c||"},
	{"a header without a colon", "HTTP/1.1 200 OK|nonsense||"},
	{"a header without a name", "HTTP/1.1 200 OK|: x||"},
	{"a space before the colon", "HTTP/1.1 200 OK|Content-Length : 5||hello"},
	{"a folded header", "HTTP/1.1 200 OK|X: y| z||"},
	{"a carriage return inside a line", "HTTP/1.1 200 OK|X: y\rContent-Length: 0||"},
	{"a length with a sign", "HTTP/1.1 200 OK|Content-Length: +5||hello"},
	{"a negative length", "HTTP/1.1 200 OK|Content-Length: -1||"},
	{"no length at all", "HTTP/1.1 200 OK|Content-Length: ||"},
	{"a length in hex", "HTTP/1.1 200 OK|Content-Length: 0x5||hello"},
	{"a length beyond 63 bits", "HTTP/1.1 200 OK|Content-Length: 9223372036854775808||"},
	{"a length beyond all bits", "HTTP/1.1 200 OK|Content-Length: 99999999999999999999999||"},
	{"two lengths", "HTTP/1.1 200 OK|Content-Length: 5|Content-Length: 6||hello"},
	{"a list of lengths", "HTTP/1.1 200 OK|Content-Length: 5, 5||hello"},
	{"a length and chunks", "HTTP/1.1 200 OK|Content-Length: 5|Transfer-Encoding: chunked||0||"},
	{"chunks in HTTP/1.0", "HTTP/1.0 200 OK|Transfer-Encoding: chunked||0||"},
	{"another coding", "HTTP/1.1 200 OK|Transfer-Encoding: gzip, chunked||0||"},
	{"chunked twice", "HTTP/1.1 200 OK|Transfer-Encoding: chunked|Transfer-Encoding: chunked||0||"},
	{"a chunk without a size", "HTTP/1.1 200 OK|Transfer-Encoding: chunked|||"},
	{"a chunk with a bad size", "HTTP/1.1 200 OK|Transfer-Encoding: chunked||5g|hello|0||"},
	{"a chunk with a negative size", "HTTP/1.1 200 OK|Transfer-Encoding: chunked||-5|hello|0||"},
	{"a chunk of too many digits", "HTTP/1.1 200 OK|Transfer-Encoding: chunked||1000000000000000|x"},
	{"a chunk that is longer than it says", "HTTP/1.1 200 OK|Transfer-Encoding: chunked||4|hello|0||"},
	{"1xx without end", strings.Repeat("HTTP/1.1 100 Continue||", 4000)},
	{"headers without end", "HTTP/1.1 200 OK|" + strings.Repeat("X-Padding: aaaaaaaaaaaaaaaaaaaaaaaa|", 4000)},
	{"trailers without end", "HTTP/1.1 200 OK|Transfer-Encoding: chunked||0|" + strings.Repeat("X-Padding: aaaaaaaaaaaaaaaaaaaaaaaa|", 4000)},
}

func TestBadAnswerIsRefused(t *testing.T) {
	t.Parallel()
	for _, test := range badAnswers {
		data := wire(test.data)
		if got := receive(data, false, false); !got.bad {
			t.Errorf("%s: got %+v, want it refused", test.name, got)
		}
		for cut := 0; cut < len(data); cut += 1 + len(data)/500 {
			if got := receive(data, false, false, cut); !got.bad {
				t.Errorf("%s, cut at %d: got %+v, want it refused", test.name, cut, got)
			}
		}
	}
}

// FuzzAnswer checks that no input makes the reader panic, and that how it was
// cut into pieces makes no difference.
func FuzzAnswer(f *testing.F) {
	for _, test := range goodAnswers {
		f.Add(wire(test.data), test.head, true, uint(3))
	}
	for _, test := range badAnswers {
		if len(test.data) < 1000 {
			f.Add(wire(test.data), false, false, uint(7))
		}
	}
	f.Fuzz(func(t *testing.T, data string, head, closed bool, step uint) {
		want := receive(data, head, closed)
		every := int(step%16) + 1
		var cuts []int
		for i := every; i < len(data); i += every {
			cuts = append(cuts, i)
		}
		if got := receive(data, head, closed, cuts...); got != want {
			t.Errorf("in pieces of %d: got %+v, want %+v", every, got, want)
		}
		if want.used > len(data) || want.done && (want.status < 200 || want.status > 599) {
			t.Errorf("got %+v of %d bytes", want, len(data))
		}
	})
}

func TestAnswerAllocatesNothing(t *testing.T) {
	data := []byte(wire("HTTP/1.1 200 OK|Server: x|Date: Mon, 01 Jan 2024 00:00:00 GMT|Content-Type: application/json|Content-Length: 5||hello"))
	var a answer
	n := testing.AllocsPerRun(1000, func() {
		a.reset(false, nil, nil)
		if _, err := a.advance(data); err != nil || !a.done() {
			t.Error(err)
		}
	})
	if n != 0 {
		t.Errorf("got %v allocations for an answer, want 0", n)
	}
}

func BenchmarkAnswer(b *testing.B) {
	data := []byte(wire("HTTP/1.1 200 OK|Server: x|Date: Mon, 01 Jan 2024 00:00:00 GMT|Content-Type: application/json|Content-Length: 400||" + strings.Repeat("x", 400)))
	var a answer
	for b.Loop() {
		a.reset(false, nil, nil)
		if _, err := a.advance(data); err != nil {
			b.Fatal(err)
		}
	}
}
