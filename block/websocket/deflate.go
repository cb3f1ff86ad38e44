package websocket

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/flate"
)

// Deflate is permessage-deflate (RFC 7692) without a context from one message to the next, on
// either side. So a frame that is compressed once is good for every connection that has agreed
// to it, and a connection keeps no window of what it said or heard.
//
// What a client compresses is bounded by what it becomes, see Parser.

// deflateName is the extension's, and what follows are its parameters.
const (
	deflateName      = "permessage-deflate"
	serverNoContext  = "server_no_context_takeover"
	clientNoContext  = "client_no_context_takeover"
	serverWindow     = "server_max_window_bits"
	clientWindow     = "client_max_window_bits"
	leastWindow      = 8
	largestWindow    = 15
	compressedBit    = 0x40
	emptyBlock       = "\x00\x00\xff\xff"     // with which a flushed stream ends, and a message does not
	emptyBlockAndEnd = "\x01\x00\x00\xff\xff" // with which a stream ends
)

// AgreeDeflate chooses among what a client offers as Sec-WebSocket-Extensions. It returns what to answer
// under the same name, or nothing if no offer can be met. Then the Parser's Deflate is to be set.
func AgreeDeflate(offers string) string {
	for offer := range strings.SplitSeq(offers, ",") {
		if answer := agree(offer); answer != "" {
			return answer
		}
	}
	return ""
}

// agree answers one offer, whose parameters are each there once at most.
func agree(offer string) string {
	name, parameters, _ := strings.Cut(offer, ";")
	if strings.TrimSpace(name) != deflateName {
		return ""
	}
	answer := deflateName + "; " + serverNoContext + "; " + clientNoContext
	if !strings.Contains(offer, ";") {
		return answer
	}
	seen := map[string]bool{}
	for part := range strings.SplitSeq(parameters, ";") {
		name, value, given := strings.Cut(strings.TrimSpace(part), "=")
		name, value = strings.TrimSpace(name), strings.Trim(strings.TrimSpace(value), `"`)
		if seen[name] || !canMeet(name, value, given) {
			return ""
		}
		seen[name] = true
	}
	if seen[serverWindow] {
		answer += "; " + serverWindow + "=" + strconv.Itoa(largestWindow)
	}
	return answer
}

// canMeet reports whether what a parameter asks for can be done.
func canMeet(name, value string, given bool) bool {
	switch name {
	case serverNoContext, clientNoContext:
		return !given
	case clientWindow: // ours to take, and it is: all sizes are read
		return !given || isWindow(value)
	case serverWindow: // a smaller one could not be promised
		return given && value == strconv.Itoa(largestWindow)
	}
	return false
}

// isWindow reports whether a text is the size of a window, as it is written.
func isWindow(text string) bool {
	bits, err := strconv.Atoi(text)
	return err == nil && bits >= leastWindow && bits <= largestWindow && strconv.Itoa(bits) == text
}

var deflaters = sync.Pool{New: func() any {
	w, err := flate.NewWriter(nil, flate.BestSpeed)
	if err != nil {
		panic(err) // there is this level
	}
	return w
}}

// AppendDeflated appends a server's frame, a whole message that is compressed, for clients with which that was agreed.
func AppendDeflated(dst []byte, op Op, payload []byte) []byte {
	var out bytes.Buffer
	w, ok := deflaters.Get().(*flate.Writer)
	if !ok {
		panic("the pool has something else")
	}
	defer deflaters.Put(w)
	w.Reset(&out)
	_, err := w.Write(payload)
	if err = errors.Join(err, w.Flush()); err != nil {
		panic(err) // a buffer takes all
	}
	body := bytes.TrimSuffix(out.Bytes(), []byte(emptyBlock))
	at := len(dst)
	dst = append(AppendHeader(dst, op, len(body)), body...)
	dst[at] |= compressedBit
	return dst
}

var inflaters = sync.Pool{New: func() any { return flate.NewReader(nil) }}

// inflate returns what a message was before it was compressed, of limit bytes at most. No more than that
// is ever made of it.
func inflate(payload []byte, limit int) ([]byte, error) {
	r, ok := inflaters.Get().(io.ReadCloser)
	if !ok {
		panic("the pool has something else")
	}
	defer inflaters.Put(r)
	reset, ok := r.(flate.Resetter)
	if !ok {
		panic("the reader cannot be used again")
	}
	whole := io.MultiReader(bytes.NewReader(payload), strings.NewReader(emptyBlock+emptyBlockAndEnd))
	if err := reset.Reset(whole, nil); err != nil {
		panic(err) // there is no dictionary that it could refuse
	}
	var out bytes.Buffer
	switch n, err := io.Copy(&out, io.LimitReader(r, int64(limit)+1)); {
	case n > int64(limit):
		return nil, tooBig(limit)
	case err != nil:
		return nil, &Error{BadText, "a message cannot be decompressed"}
	}
	return out.Bytes(), nil
}

func tooBig(limit int) error {
	return &Error{TooBig, fmt.Sprintf("a message has more than %d bytes", limit)}
}
