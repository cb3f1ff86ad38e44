package serve

import (
	"bufio"
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	gorilla "github.com/gorilla/websocket"

	"loadstone/block/websocket"
	"loadstone/system/chat"
)

// raw is a connection whose bytes are the test's own, behind a handshake that is in order.
type raw struct {
	t  *testing.T
	c  net.Conn
	in *bufio.Reader
}

const deflateOffer = "permessage-deflate; client_max_window_bits" // as browsers offer it

// rawly joins stream 1 as a guest.
func (f *fixture) rawly(offer string) *raw {
	f.t.Helper()
	query := url.Values{"stream": {"1"}, "token": {f.guest("Mallory")}} // first: the server waits for a request for five seconds
	c, err := net.Dial("tcp", f.api)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(long))
	r := &raw{t: f.t, c: c, in: bufio.NewReader(c)}
	r.write([]byte("GET /ws?" + query.Encode() + " HTTP/1.1\r\nHost: " + f.api + "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Extensions: " + offer + "\r\n\r\n"))
	response, err := http.ReadResponse(r.in, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	_ = response.Body.Close()
	if agreed := response.Header.Get("Sec-WebSocket-Extensions"); response.StatusCode != http.StatusSwitchingProtocols || (agreed == "") != (offer == "") {
		f.t.Fatalf("got %s with %q", response.Status, agreed)
	}
	if text := r.text(); !strings.Contains(text, `"joined"`) {
		f.t.Fatalf("got %s", text)
	}
	return r
}

func (r *raw) write(b []byte) {
	r.t.Helper()
	if _, err := r.c.Write(b); err != nil {
		r.t.Fatal(err)
	}
}

// read reads a server's frame.
func (r *raw) read() (websocket.Op, []byte) {
	r.t.Helper()
	var head [2]byte
	if _, err := io.ReadFull(r.in, head[:]); err != nil {
		r.t.Fatal(err)
	}
	length := int(head[1])
	if length == 126 {
		var long [2]byte
		if _, err := io.ReadFull(r.in, long[:]); err != nil {
			r.t.Fatal(err)
		}
		length = int(binary.BigEndian.Uint16(long[:]))
	}
	payload := make([]byte, length)
	if _, err := io.ReadFull(r.in, payload); err != nil {
		r.t.Fatal(err)
	}
	return websocket.Op(head[0] & 0x0f), payload
}

// text reads until there is a text.
func (r *raw) text() string {
	r.t.Helper()
	for {
		if op, payload := r.read(); op == websocket.Text {
			return string(payload)
		}
	}
}

// ended reads until the connection is closed, and returns the code.
func (r *raw) ended() websocket.Code {
	r.t.Helper()
	for {
		if op, payload := r.read(); op == websocket.Close {
			return websocket.Code(binary.BigEndian.Uint16(payload))
		}
	}
}

// masked is a client's frame with its first byte.
func masked(first byte, payload []byte) []byte {
	frame := websocket.AppendMasked(nil, websocket.Text, payload, [4]byte{1, 2, 3, 4})
	frame[0] = first
	return frame
}

const (
	part       = 0x01 // the beginning of a text
	rest       = 0x80 // the end of a message
	whole      = 0x81
	compressed = 0xc1
	pinging    = 0x89
	ponging    = 0x8a
)

func deflated(t *testing.T, text []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, flate.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\x00\x00\xff\xff"))
}

// Whoever breaks the protocol is closed with the code for it, and others in the room go on talking.
func TestHostileSockets(t *testing.T) {
	t.Parallel()
	f := start(t, seeded(t), nil)
	noor := f.join("Noor")
	bomb := deflated(t, make([]byte, 4<<20)) // 4 KiB
	if len(bomb) > chat.MaxRequest {
		t.Fatalf("the bomb has %d bytes", len(bomb))
	}
	much := 2 * DefaultConfig().Hub.MaxFrames // in whatever second they are counted
	for name, c := range map[string]struct {
		offer string
		sent  []byte
		want  websocket.Code
	}{
		"unmasked":                      {"", websocket.AppendFrame(nil, websocket.Text, []byte("{}")), websocket.Protocol},
		"a reserved bit":                {"", masked(whole|0x20, []byte("{}")), websocket.Protocol},
		"compressed, and nobody agreed": {"", masked(compressed, deflated(t, []byte("{}"))), websocket.Protocol},
		"an unknown opcode":             {"", masked(0x83, nil), websocket.Protocol},
		"a long ping":                   {"", masked(pinging, make([]byte, 126)), websocket.Protocol},
		"a ping in fragments":           {"", masked(0x09, nil), websocket.Protocol},
		"nothing to continue":           {"", masked(rest, []byte("{}")), websocket.Protocol},
		"bad UTF-8":                     {"", masked(whole, []byte("{\xff}")), websocket.BadText},
		"bad UTF-8 over two fragments":  {"", append(masked(part, []byte("{\xec")), masked(rest, []byte("}"))...), websocket.BadText},
		"bad UTF-8, compressed":         {deflateOffer, masked(compressed, deflated(t, []byte("{\xff}"))), websocket.BadText},
		"2^40 bytes announced":          {"", []byte{whole, 0xff, 0, 0, 1, 0, 0, 0, 0, 0}, websocket.TooBig},
		"a byte too many":               {"", masked(whole, make([]byte, chat.MaxRequest+1)), websocket.TooBig},
		"fragments without an end":      {"", append(masked(part, make([]byte, chat.MaxRequest)), masked(0, []byte("x"))...), websocket.TooBig},
		"a bomb":                        {deflateOffer, masked(compressed, bomb), websocket.TooBig},
		"a bomb in fragments":           {deflateOffer, append(masked(part|0x40, bomb[:9]), masked(rest, bomb[9:])...), websocket.TooBig},
		"what cannot be decompressed":   {deflateOffer, masked(compressed, []byte{7, 0xff, 0xff}), websocket.BadText},
		"a flood of pings":              {"", bytes.Repeat(masked(pinging, nil), much), websocket.Policy},
		"a flood of pongs":              {"", bytes.Repeat(masked(ponging, nil), much), websocket.Policy},
		"a flood of empty fragments":    {"", append(masked(part, nil), bytes.Repeat(masked(0, nil), much)...), websocket.Policy},
	} {
		r := f.rawly(c.offer)
		r.write(c.sent)
		if got := r.ended(); got != c.want {
			t.Errorf("%s: got %d, want %d", name, got, c.want)
		}
	}
	// What is unusual and in order is accepted.
	for name, send := range map[string]func(r *raw, message string){
		"fragments": func(r *raw, message string) {
			r.write(bytes.Join([][]byte{masked(part, []byte(message[:5])), masked(pinging, []byte("?")), masked(0, nil), masked(rest, []byte(message[5:]))}, nil))
		},
		"a byte at a time": func(r *raw, message string) {
			for _, b := range masked(whole, []byte(message)) {
				r.write([]byte{b})
			}
		},
		"compressed": func(r *raw, message string) { r.write(masked(compressed, deflated(r.t, []byte(message)))) },
	} {
		r := f.rawly(deflateOffer)
		send(r, `{"type":"send","id":"a","text":"`+name+`"}`)
		for text := ""; !strings.Contains(text, `"ack"`); text = r.text() {
			if strings.Contains(text, `"error"`) {
				t.Fatalf("%s: got %s", name, text)
			}
		}
	}
	noor.send("a", "still here")
	noor.next("ack")
	noor.see(4)
}

// Who is slow to say what it wants, or never does, is ended, and others join meanwhile.
func TestSlowHandshakes(t *testing.T) {
	t.Parallel()
	f := start(t, seeded(t), nil) // a request may take five seconds
	const head = "GET /ws?stream=1 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
	slow := make([]net.Conn, 0, 40)
	for i := range cap(slow) {
		c, err := net.Dial("tcp", f.api)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, head[:1+i*(len(head)-1)/cap(slow)]); err != nil {
			t.Fatal(err)
		}
		slow = append(slow, c)
	}
	v := f.join("Noor")
	v.send("a", "hello")
	v.next("ack")
	for i, c := range slow {
		_ = c.SetReadDeadline(time.Now().Add(long))
		answer, err := io.ReadAll(c)
		if errors.Is(err, os.ErrDeadlineExceeded) || len(answer) > 0 && !bytes.HasPrefix(answer, []byte("HTTP/1.1 4")) {
			t.Errorf("connection %d: got %q, %v", i, answer, err)
		}
	}
}

// A place in one room's log is none in another's: nothing of the other room is shown for it.
func TestAPlaceIsOneRooms(t *testing.T) {
	t.Parallel()
	f := start(t, seeded(t), nil)
	noor := f.join("Noor")
	for i := range 3 {
		noor.send(fmt.Sprint(i), "in the first")
		noor.next("ack")
	}
	other := f.join("Olga", "stream", "2")
	other.send("a", "in the second")
	other.next("ack")
	back := f.join("Samir", "stream", "2", "epoch", noor.joined.Epoch, "offset", "3")
	if got := back.see(1); back.joined.Recovered || len(got) != 1 || got[0] != "in the second" {
		t.Errorf("got %+v and %q", back.joined, got)
	}
	for _, offset := range []string{"18446744073709551615", "9223372036854775808"} {
		far := f.join("Ada", "stream", "2", "epoch", noor.joined.Epoch, "offset", offset)
		if got := far.see(1); far.joined.Recovered || len(got) != 1 {
			t.Errorf("from %s: got %+v and %q", offset, far.joined, got)
		}
	}
}

// Messages are compressed for who offers it: what it reads is what others read.
func TestMessagesAreCompressed(t *testing.T) {
	t.Parallel()
	for _, on := range []bool{true, false} {
		f := start(t, seeded(t), func(c *Config) { c.Compression, c.Hub.Tick = on, 20*time.Millisecond })
		plain := f.join("Noor")
		dialer := gorilla.Dialer{EnableCompression: true}
		conn, response, err := dialer.DialContext(t.Context(), "ws://"+f.api+"/ws?"+url.Values{"stream": {"1"}, "token": {f.guest("Olga")}}.Encode(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = response.Body.Close()
		if agreed := response.Header.Get("Sec-WebSocket-Extensions"); strings.HasPrefix(agreed, "permessage-deflate") != on {
			t.Errorf("agreed to %q", agreed)
		}
		packed := &viewer{t: t, Conn: conn}
		packed.joined = packed.next("joined")
		var want []string
		for i := range 10 {
			text := strings.Repeat(fmt.Sprint("안녕 ", i, " "), 80)[:500]
			text = strings.ToValidUTF8(text, "")
			want = append(want, text)
			packed.send(fmt.Sprint(i), text)
			packed.next("ack")
		}
		for name, v := range map[string]*viewer{"plain": plain, "compressed": packed} {
			if got := v.see(10); strings.Join(got, "|") != strings.Join(want, "|") {
				t.Errorf("%s: got %.300q", name, got)
			}
		}
	}
}
