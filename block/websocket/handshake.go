// Package websocket is RFC 6455 for event loops: a handshake to check, a parser for bytes as
// they come, and frames to send, of a server and of a client. It reads and writes nothing itself.
//
// Of extensions there is one, see AgreeDeflate; where it was not agreed to, a frame with a reserved bit set is an error. Whatever the other side
// does against the protocol is an *Error with the code to close with.
package websocket

import (
	"crypto/sha1" //nolint:gosec // what RFC 6455 says, and no secret
	"encoding/base64"
	"errors"
	"net/url"
	"strings"
)

// The ways in which a request is no handshake.
var (
	// ErrNoUpgrade: answer 426 with Upgrade: websocket and Connection: Upgrade.
	ErrNoUpgrade = errors.New("this is no WebSocket handshake: send Connection: Upgrade and Upgrade: websocket")
	// ErrVersion: answer 426 with Sec-WebSocket-Version: 13.
	ErrVersion = errors.New("this version of WebSocket is unknown: send Sec-WebSocket-Version: 13")
	// ErrKey: answer 400.
	ErrKey = errors.New("the key is bad: send 16 bytes in base64 as Sec-WebSocket-Key")
)

// Version is the only one.
const Version = "13"

// keyBytes are what a key decodes to.
const keyBytes = 16

// Accept checks the headers of a GET request, of which header returns a value or nothing, and
// returns what to answer as Sec-WebSocket-Accept with status 101.
func Accept(header func(name string) string) (string, error) {
	if !HasToken(header("Connection"), "upgrade") || !HasToken(header("Upgrade"), "websocket") {
		return "", ErrNoUpgrade
	}
	if header("Sec-WebSocket-Version") != Version {
		return "", ErrVersion
	}
	key := header("Sec-WebSocket-Key")
	if raw, err := base64.StdEncoding.DecodeString(key); err != nil || len(raw) != keyBytes {
		return "", ErrKey
	}
	return AcceptOf(key), nil
}

// AcceptOf is what a server answers to a key, as Sec-WebSocket-Accept.
func AcceptOf(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) //nolint:gosec // as above
	return base64.StdEncoding.EncodeToString(sum[:])
}

// HasToken reports whether a comma-separated header has a token.
func HasToken(header, token string) bool {
	for part := range strings.SplitSeq(header, ",") {
		if strings.EqualFold(strings.TrimSpace(part), token) {
			return true
		}
	}
	return false
}

// SameOrigin reports whether a page of this origin is of the host that it asks. A request
// without an origin is no browser's, which could be made to ask for somebody else.
func SameOrigin(origin, host string) bool {
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, host)
}
