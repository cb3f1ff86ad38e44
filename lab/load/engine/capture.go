package engine

import (
	"bytes"

	"github.com/tidwall/gjson"

	"loadstone/lab/load"
)

// capture is what of a step's answers is to be kept until the step is over.
type capture struct {
	body    bool
	cookies bool
	names   []string // of headers, in lower case
}

// captured is what was kept of one answer.
type captured struct {
	body       []byte
	setCookies []string // values of Set-Cookie
	headers    []capturedHeader

	coding  string // the Content-Encoding of the body
	cut     bool   // the body is only the beginning of it
	problem string // what is wrong with the body; empty for nothing
}

type capturedHeader struct {
	name  string // in lower case
	value string
}

// Bounds on what is kept: of an answer beyond them the beginning is kept, and
// the rest read and forgotten as ever.
const (
	maxBody    = 1 << 20
	maxCookies = 50
)

// reset forgets the answer before.
func (k *captured) reset() {
	*k = captured{body: k.body[:0], setCookies: k.setCookies[:0], headers: k.headers[:0]}
}

// add keeps a piece of the body.
func (k *captured) add(piece []byte) {
	n := min(len(piece), maxBody-len(k.body))
	k.body = append(k.body, piece[:n]...)
	k.cut = k.cut || n < len(piece)
}

// header keeps a header line, if it is wanted.
func (k *captured) header(want *capture, name, value []byte) {
	if want.cookies && equalFold(name, "set-cookie") && len(k.setCookies) < maxCookies {
		k.setCookies = append(k.setCookies, string(value))
	}
	if want.body && equalFold(name, "content-encoding") {
		if k.coding != "" {
			k.coding += ","
		}
		k.coding += string(value)
	}
	for _, wanted := range want.names {
		if equalFold(name, wanted) {
			k.headers = append(k.headers, capturedHeader{wanted, string(value)})
		}
	}
}

// value returns what an extraction takes: the first header of the name, or what
// is at the path.
func (k *captured) value(e *load.Extract) (string, bool) {
	if e.JSON != "" {
		return k.json(e.JSON)
	}
	for _, h := range k.headers {
		if string(bytes.ToLower([]byte(e.Header))) == h.name {
			return h.value, true
		}
	}
	return "", false
}

// json returns the value at a path in the body as text. A body that is not JSON
// has no values.
func (k *captured) json(path string) (string, bool) {
	if !gjson.ValidBytes(k.body) {
		return "", false
	}
	v := gjson.GetBytes(k.body, path)
	return v.String(), v.Exists()
}
