package websocket

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/flate"
)

func TestWhatIsAgreedTo(t *testing.T) {
	t.Parallel()
	const plain = "permessage-deflate; server_no_context_takeover; client_no_context_takeover"
	for offers, want := range map[string]string{
		"":                   "",
		"permessage-deflate": plain,
		"permessage-deflate; client_max_window_bits":                                 plain, // browsers
		"permessage-deflate;client_max_window_bits=9;client_no_context_takeover":     plain,
		"permessage-deflate; server_no_context_takeover":                             plain,
		`permessage-deflate; server_max_window_bits="15"`:                            plain + "; server_max_window_bits=15",
		"permessage-deflate; server_max_window_bits=10":                              "",
		"permessage-deflate; server_max_window_bits=10, permessage-deflate":          plain,
		"permessage-deflate; server_max_window_bits":                                 "",
		"permessage-deflate; client_max_window_bits=16":                              "",
		"permessage-deflate; client_max_window_bits=07":                              "",
		"permessage-deflate; client_max_window_bits=+9":                              "",
		"permessage-deflate; client_max_window_bits=":                                "",
		"permessage-deflate; client_no_context_takeover=1":                           "",
		"permessage-deflate; x":                                                      "",
		"permessage-deflate; server_no_context_takeover; server_no_context_takeover": "",
		"permessage-deflate; permessage-deflate":                                     "",
		"permessage-deflate=1":                                                       "",
		"x-webkit-deflate-frame, permessage-deflate":                                 plain,
		";;,=,": "",
	} {
		if got := AgreeDeflate(offers); got != want {
			t.Errorf("%q: got %q, want %q", offers, got, want)
		}
	}
}

// deflated is a payload as a client compresses it.
func deflated(t testing.TB, payload []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, flate.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(payload); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte(emptyBlock))
}

// feedDeflating gives a stream to a parser that takes compressed messages, in pieces.
func feedDeflating(stream []byte, size, limit int) (all []Message, err error) {
	return feedTo(&Parser{Deflate: true}, stream, size, limit)
}

const compressedText = text | compressedBit

func TestCompressedMessagesAreRead(t *testing.T) {
	t.Parallel()
	long := []byte(strings.Repeat("가나다 hello ", 5000))
	packed := deflated(t, long)
	half := len(packed) / 2
	final := append(bytes.Clone(packed), emptyBlock+emptyBlockAndEnd...) // a client may end its stream
	stream := bytes.Join([][]byte{
		frame(compressedText, packed), frame(text, []byte("plain")), frame(compressedText, deflated(t, nil)),
		frame(byte(Text)|compressedBit, packed[:half]), frame(ping, nil), frame(fin, packed[half:]),
		frame(text, []byte("plain")), frame(compressedText, final), frame(fin|compressedBit|byte(Binary), deflated(t, []byte{0xff})),
	}, nil)
	want := []Message{{Text, long}, {Text, []byte("plain")}, {Text, nil}, {Ping, nil}, {Text, long}, {Text, []byte("plain")}, {Text, long}, {Binary, []byte{0xff}}}
	for _, size := range []int{1, 7, len(stream)} {
		got, err := feedDeflating(bytes.Clone(stream), size, limit)
		if err != nil || len(got) != len(want) {
			t.Fatalf("in pieces of %d: got %d messages, %v, want %d", size, len(got), err, len(want))
		}
		for i := range want {
			if got[i].Op != want[i].Op || !bytes.Equal(got[i].Payload, want[i].Payload) {
				t.Errorf("in pieces of %d: message %d is %v %.20q", size, i, got[i].Op, got[i].Payload)
			}
		}
	}
}

func TestCompressedMessagesThatAreRefused(t *testing.T) {
	t.Parallel()
	bomb := deflated(t, make([]byte, 100<<20))
	good := deflated(t, []byte("hello"))
	const limit = 8 << 10
	if len(bomb) > 200<<10 {
		t.Fatalf("the bomb has %d bytes", len(bomb))
	}
	for name, c := range map[string]struct {
		stream []byte
		limit  int
		want   Code
	}{
		"a bomb of 100 MiB":            {frame(compressedText, bomb), 1 << 20, TooBig},
		"one byte too many":            {frame(compressedText, deflated(t, bytes.Repeat([]byte("x"), limit+1))), limit, TooBig},
		"too big before and after":     {frame(compressedText, bomb), limit, TooBig},
		"nonsense":                     {frame(compressedText, []byte{7, 0xff, 0xff}), limit, BadText},
		"no UTF-8":                     {frame(compressedText, deflated(t, []byte{'a', 0xff})), limit, BadText},
		"a compressed ping":            {frame(ping|compressedBit, nil), limit, Protocol},
		"a compressed close":           {frame(bye|compressedBit, nil), limit, Protocol},
		"a compressed continuation":    {append(frame(byte(Text)|compressedBit, good[:2]), frame(fin|compressedBit, good[2:])...), limit, Protocol},
		"another reserved bit as well": {frame(compressedText|0x20, good), limit, Protocol},
	} {
		got, err := feedDeflating(c.stream, len(c.stream), c.limit)
		if e, ok := errors.AsType[*Error](err); !ok || e.Code != c.want || len(got) > 0 {
			t.Errorf("%s: got %v after %d messages, want code %d", name, err, len(got), c.want)
		}
	}
	if _, err := feedDeflating(frame(compressedText, deflated(t, bytes.Repeat([]byte("x"), limit))), 1000, limit); err != nil {
		t.Errorf("as much as may be: %v", err)
	}
	if _, err := feed(frame(compressedText, good), 1000, limit); err == nil {
		t.Error("a message is compressed, and nobody agreed to it")
	}
}

// What is sent is what a reader of RFC 7692 makes the message of, each alone.
func TestDeflatedFramesAreReadBack(t *testing.T) {
	t.Parallel()
	for _, payload := range []string{"x", strings.Repeat(`{"offset":17,"text":"안녕"},`, 100), strings.Repeat("a", 70_000)} {
		stream := AppendDeflated([]byte("before"), Text, []byte(payload))[len("before"):]
		length, head, err := size(stream)
		if err != nil || stream[0] != compressedText || int(length) != len(stream)-head {
			t.Fatalf("got %x, %v", stream[:head], err)
		}
		got, err := io.ReadAll(flate.NewReader(io.MultiReader(bytes.NewReader(stream[head:]), strings.NewReader(emptyBlock+emptyBlockAndEnd))))
		if string(got) != payload || err != nil {
			t.Errorf("got %d bytes, %v, want %d", len(got), err, len(payload))
		}
		if len(payload) > 1000 && len(stream) > len(payload)/4 {
			t.Errorf("%d bytes of %d", len(stream), len(payload))
		}
	}
}

func BenchmarkAppendDeflated(b *testing.B) {
	payload := []byte(strings.Repeat(`{"offset":17,"at":1800000000000,"sender":"guest-ABCDEFGHIJKLMNOPQRSTUVWXYZ","name":"Noor","id":"c-1","text":"hello hello hello"},`, 12))
	b.SetBytes(int64(len(payload)))
	var dst []byte
	for b.Loop() {
		dst = AppendDeflated(dst[:0], Text, payload)
	}
	b.ReportMetric(float64(len(dst))/float64(len(payload)), "ratio")
}
