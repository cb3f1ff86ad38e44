package websocket

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
)

const limit = 1 << 20

// frame is a client's, with a mask.
func frame(first byte, payload []byte) []byte {
	mask := [4]byte{0x12, 0x34, 0x56, 0x78}
	header := AppendHeader(nil, 0, len(payload))
	header[0] = first
	header[1] |= maskBit
	header = append(header, mask[:]...)
	for i, b := range payload {
		header = append(header, b^mask[i%4])
	}
	return header
}

const (
	fin  = finBit
	text = fin | byte(Text)
	ping = fin | byte(Ping)
	bye  = fin | byte(Close)
)

// feed gives the stream to a parser in pieces of at most size bytes and returns the messages.
func feed(stream []byte, size, limit int) (all []Message, err error) {
	return feedTo(&Parser{}, stream, size, limit)
}

func feedTo(p *Parser, stream []byte, size, limit int) (all []Message, err error) {
	var data []byte
	for len(stream) > 0 {
		n := min(size, len(stream))
		data = append(data, stream[:n]...)
		stream = stream[n:]
		for {
			m, n, err := p.Next(data, limit)
			if err != nil {
				return all, err
			}
			if n == 0 {
				break
			}
			if m.Op != Continuation {
				all = append(all, Message{m.Op, bytes.Clone(m.Payload)})
			}
			data = data[n:]
		}
	}
	return all, nil
}

func TestMessagesAreReadInPiecesOfAnySize(t *testing.T) {
	t.Parallel()
	long := bytes.Repeat([]byte("가나다"), 30_000)
	stream := bytes.Join([][]byte{
		frame(text, []byte("hello")), frame(text, nil), frame(ping, []byte("?")),
		frame(byte(Text), []byte("안")[:2]), frame(ping, nil), frame(0, []byte("안")[2:]), frame(fin, []byte("녕")),
		frame(fin|byte(Binary), []byte{0xff}), frame(text, long[:300]), frame(text, long), frame(bye, []byte{3, 232, 'o', 'k'}),
	}, nil)
	want := []Message{
		{Text, []byte("hello")}, {Text, nil}, {Ping, []byte("?")}, {Ping, nil}, {Text, []byte("안녕")},
		{Binary, []byte{0xff}}, {Text, long[:300]}, {Text, long}, {Close, []byte{3, 232, 'o', 'k'}},
	}
	for _, size := range []int{1, 2, 7, 4096, len(stream)} {
		if size == 1 && testing.Short() {
			continue
		}
		got, err := feed(stream, size, limit)
		if err != nil || len(got) != len(want) {
			t.Fatalf("pieces of %d: got %d messages, %v, want %d", size, len(got), err, len(want))
		}
		for i := range want {
			if got[i].Op != want[i].Op || !bytes.Equal(got[i].Payload, want[i].Payload) {
				t.Errorf("pieces of %d: message %d is %x %.40q", size, i, got[i].Op, got[i].Payload)
			}
		}
	}
}

func TestWhatIsAgainstTheProtocolHasItsCode(t *testing.T) {
	t.Parallel()
	long := func(header ...byte) []byte { return append(header, make([]byte, 200)...) }
	for name, c := range map[string]struct {
		stream []byte
		want   Code
	}{
		"unmasked":                 {AppendFrame(nil, Text, []byte("x")), Protocol},
		"reserved bit 1":           {frame(text|0x40, nil), Protocol},
		"reserved bit 3":           {frame(text|0x10, nil), Protocol},
		"opcode 3":                 {frame(fin|3, nil), Protocol},
		"opcode 11":                {frame(fin|11, nil), Protocol},
		"ping in fragments":        {frame(byte(Ping), nil), Protocol},
		"long ping":                {frame(ping, make([]byte, 126)), Protocol},
		"nothing to continue":      {frame(fin, []byte("x")), Protocol},
		"message within a message": {append(frame(byte(Text), nil), frame(text, nil)...), Protocol},
		"16 bits for 125":          {long(text, maskBit|length16, 0, 125), Protocol},
		"64 bits for 65,535":       {long(text, maskBit|length64, 0, 0, 0, 0, 0, 0, 255, 255), Protocol},
		"negative length":          {long(text, maskBit|length64, 128, 0, 0, 0, 0, 0, 0, 0), Protocol},
		"too big, not yet there":   {[]byte{text, maskBit | length64, 0, 0, 0, 0, 1, 0, 0, 0}, TooBig},
		"too big in fragments":     {append(frame(byte(Text), make([]byte, limit)), frame(fin, []byte("x"))...), TooBig},
		"no UTF-8":                 {frame(text, []byte{'a', 0xff}), BadText},
		"half a letter":            {frame(text, []byte("안")[:2]), BadText},
		"a surrogate":              {frame(text, []byte{0xed, 0xa0, 0x80}), BadText},
		"no UTF-8 in fragments":    {append(frame(byte(Text), []byte("안")[:2]), frame(fin, []byte("x"))...), BadText},
		"half a code":              {frame(bye, []byte{3}), Protocol},
		"code 999":                 {frame(bye, []byte{3, 231}), Protocol},
		"code 1005":                {frame(bye, []byte{3, 237}), Protocol},
		"code 1015":                {frame(bye, []byte{3, 247}), Protocol},
		"code 5000":                {frame(bye, []byte{19, 136}), Protocol},
		"reason without UTF-8":     {frame(bye, []byte{3, 232, 0xff}), BadText},
	} {
		got, err := feed(c.stream, len(c.stream), limit)
		if e, ok := errors.AsType[*Error](err); !ok || e.Code != c.want || len(got) > 0 {
			t.Errorf("%s: got %v after %d messages, want code %d", name, err, len(got), c.want)
		}
	}
}

func TestHeadersAreReadBack(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 125, 126, 127, 65535, 65536, 1 << 20} {
		header := AppendHeader(nil, Text, n)
		if len(header) > MaxHeader {
			t.Errorf("%d: a header of %d bytes", n, len(header))
		}
		if length, head, err := size(header); length != uint64(n) || head != len(header) || err != nil {
			t.Errorf("got %d in %d bytes, %v, want %d in %d", length, head, err, n, len(header))
		}
	}
	closing := AppendClose(nil, TooBig, strings.Repeat("x", 200))
	if want := []byte{bye, 2, 3, 241}; !bytes.Equal(closing, want) {
		t.Errorf("got %x, want %x", closing, want)
	}
}

func TestUnmaskIsXor(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 70 {
		plain := make([]byte, n)
		for i := range plain {
			plain[i] = byte(r.Uint32())
		}
		var mask [4]byte
		binary.LittleEndian.PutUint32(mask[:], r.Uint32())
		got := bytes.Clone(plain)
		unmask(got, mask)
		for i := range got {
			if got[i] != plain[i]^mask[i%4] {
				t.Fatalf("%d bytes: byte %d is %x", n, i, got[i])
			}
		}
	}
}

func TestHandshake(t *testing.T) {
	t.Parallel()
	good := map[string]string{
		"Connection": "keep-alive, Upgrade", "Upgrade": "WebSocket",
		"Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
	}
	with := func(name, value string) func(string) string {
		return func(asked string) string {
			if asked == name {
				return value
			}
			return good[asked]
		}
	}
	// The example of RFC 6455, 1.3.
	if got, err := Accept(with("", "")); got != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	for _, c := range []struct {
		name, value string
		want        error
	}{
		{"Connection", "", ErrNoUpgrade},
		{"Upgrade", "h2c", ErrNoUpgrade},
		{"Sec-WebSocket-Version", "8", ErrVersion},
		{"Sec-WebSocket-Key", "", ErrKey},
		{"Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ", ErrKey},
		{"Sec-WebSocket-Key", "c2hvcnQ=", ErrKey},
	} {
		if _, err := Accept(with(c.name, c.value)); !errors.Is(err, c.want) {
			t.Errorf("%s: %q: got %v, want %v", c.name, c.value, err, c.want)
		}
	}
}

func TestSameOrigin(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		origin, host string
		want         bool
	}{
		{"", "chat.example", true},
		{"https://chat.example", "chat.example", true},
		{"http://chat.example:8080", "CHAT.example:8080", true},
		{"https://evil.example", "chat.example", false},
		{"https://chat.example.evil.example", "chat.example", false},
		{"null", "chat.example", false},
		{"://", "", false},
	} {
		if got := SameOrigin(c.origin, c.host); got != c.want {
			t.Errorf("%q at %q: got %v", c.origin, c.host, got)
		}
	}
}

// Whatever comes, in whatever pieces: the same messages and the same end.
func FuzzParser(f *testing.F) {
	f.Add(frame(text, []byte("hello")), 3)
	f.Add(append(frame(byte(Text), []byte("a")), frame(fin, []byte("b"))...), 1)
	f.Add(frame(bye, []byte{3, 232}), 2)
	f.Add([]byte{text, maskBit | length64, 0, 0, 0, 0, 1, 0, 0, 0}, 1)
	f.Add(frame(compressedText, deflated(f, []byte("hello, hello!"))), 5)
	f.Add(frame(compressedText, deflated(f, make([]byte, 200))), 5)
	f.Fuzz(func(t *testing.T, stream []byte, size int) {
		const limit = 100
		// Frames are unmasked in place. Compressed messages are taken, or not, by the size's sign.
		whole, wholeErr := feedTo(&Parser{Deflate: size >= 0}, bytes.Clone(stream), len(stream)+1, limit)
		pieces, piecesErr := feedTo(&Parser{Deflate: size >= 0}, bytes.Clone(stream), max(size, -size, 1), limit)
		if len(whole) != len(pieces) || (wholeErr == nil) != (piecesErr == nil) {
			t.Fatalf("whole: %d, %v; in pieces: %d, %v", len(whole), wholeErr, len(pieces), piecesErr)
		}
		for i := range whole {
			if whole[i].Op != pieces[i].Op || !bytes.Equal(whole[i].Payload, pieces[i].Payload) {
				t.Fatalf("message %d differs", i)
			}
			if len(whole[i].Payload) > max(limit, maxControl) {
				t.Fatalf("message %d has %d bytes", i, len(whole[i].Payload))
			}
		}
		if wholeErr != nil {
			a, _ := errors.AsType[*Error](wholeErr)
			b, _ := errors.AsType[*Error](piecesErr)
			if a == nil || b == nil || a.Code != b.Code {
				t.Fatalf("whole: %v, in pieces: %v", wholeErr, piecesErr)
			}
		}
	})
}

func BenchmarkParser(b *testing.B) {
	one := frame(text, []byte(`{"type":"send","id":"c-1","text":"hello everybody out there"}`))
	data := make([]byte, len(one))
	b.ReportAllocs()
	for b.Loop() {
		copy(data, one)
		var p Parser
		if _, n, err := p.Next(data, limit); n != len(one) || err != nil {
			b.Fatal(n, err)
		}
	}
}
