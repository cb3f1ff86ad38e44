package engine

import (
	"bytes"
	"fmt"
	"strings"
)

// maxHeaderBytes bounds everything of an answer that is not its body: status
// lines and headers (those of 1xx answers too) and trailers. It also bounds
// the read buffer, so that a hostile server cannot make the generator grow.
const maxHeaderBytes = 64 << 10

// answer reads one HTTP/1.x answer (RFC 9112) from bytes handed to it in
// pieces of any size. It keeps nothing but the status: bodies are counted off
// and dropped. What the standard lets a client reject is rejected, because a
// load test has no use for guesses about where an answer ends.
type answer struct {
	state    answerState
	head     bool      // the request was HEAD
	capture  *capture  // what is to be kept; nil for nothing
	captured *captured // and where

	status    int
	keepAlive bool // the connection may carry another request

	// Of the header section being read.
	minor      byte // of HTTP/1.minor
	hasLength  bool
	chunked    bool
	saysClose  bool
	saysKeep   bool
	left       int64 // bytes of the body, or of the chunk, still to come
	sectionLen int   // bytes of header and trailer lines so far
}

type answerState uint8

const (
	inStatusLine answerState = iota
	inHeader
	inBody
	inChunkSize
	inChunk
	afterChunk
	inTrailer
	toEOF
	complete
)

// reset prepares for the next answer, of which captured gets what capture says.
func (a *answer) reset(head bool, keep *capture, kept *captured) {
	*a = answer{head: head, capture: keep, captured: kept}
	if keep != nil {
		kept.reset()
	}
}

// done says whether the answer is complete.
func (a *answer) done() bool { return a.state == complete }

// inBody says whether the header is complete and the body is not.
func (a *answer) inBody() bool { return a.state > inHeader && a.state < complete }

// advance reads from p and returns how much of it is dealt with. It stops at
// the end of the answer; else what is left over is the beginning of a line and
// must come again, with more behind it.
func (a *answer) advance(p []byte) (int, error) {
	at := 0
	for at < len(p) {
		switch a.state {
		case inBody, inChunk:
			n := min(a.left, int64(len(p)-at))
			a.left -= n
			a.body(p[at : at+int(n)])
			at += int(n)
			if a.left == 0 {
				a.endOfData()
			}
		case toEOF:
			a.body(p[at:])
			return len(p), nil
		case complete:
			return at, nil
		default:
			end := bytes.IndexByte(p[at:], '\n')
			if end < 0 {
				return at, nil
			}
			line := p[at : at+end]
			at += end + 1
			if err := a.line(line, end+1); err != nil {
				return at, err
			}
		}
	}
	return at, nil
}

// body keeps a piece of the body, if it is to be kept.
func (a *answer) body(piece []byte) {
	if a.capture != nil && a.capture.body {
		a.captured.add(piece)
	}
}

// eof tells that the server closed the connection. It says whether that was
// the end of the answer.
func (a *answer) eof() bool {
	if a.state == toEOF {
		a.state = complete
	}
	return a.done()
}

// endOfData moves on behind a body or a chunk.
func (a *answer) endOfData() {
	if a.state == inChunk {
		a.state = afterChunk
		return
	}
	a.state = complete
}

// line deals with one line, given without its LF; size is that on the wire.
func (a *answer) line(line []byte, size int) error {
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	if a.state != inChunkSize && a.state != afterChunk {
		a.sectionLen += size
	}
	if a.sectionLen > maxHeaderBytes {
		return badHTTPError(fmt.Sprintf("its header is longer than %d bytes", maxHeaderBytes))
	}
	if !all(line, printable) {
		return badHTTPError(fmt.Sprintf("a control character in the line %.60q", line))
	}
	switch a.state {
	case inStatusLine:
		return a.statusLine(line)
	case inHeader:
		if len(line) == 0 {
			return a.endOfHeader()
		}
		return a.header(line)
	case inChunkSize:
		return a.chunkSize(line)
	case afterChunk:
		if len(line) != 0 {
			return badHTTPError(fmt.Sprintf("a chunk is followed by %.60q, not by the end of a line", line))
		}
		a.state = inChunkSize
	default: // inTrailer
		if len(line) == 0 {
			a.state = complete
		}
	}
	return nil
}

// statusLine reads "HTTP/1.1 200 OK"; the reason may be missing.
func (a *answer) statusLine(line []byte) error {
	const shape = "HTTP/1.x nnn"
	bad := len(line) < len(shape) || string(line[:7]) != "HTTP/1." || line[8] != ' ' || !isDigit(line[7]) ||
		!isDigit(line[9]) || !isDigit(line[10]) || !isDigit(line[11]) || len(line) > len(shape) && line[12] != ' '
	if bad {
		return badHTTPError(fmt.Sprintf("it begins with %.60q", line))
	}
	a.minor = line[7] - '0'
	a.status = int(line[9]-'0')*100 + int(line[10]-'0')*10 + int(line[11]-'0')
	if a.status < 100 || a.status > 599 {
		return badHTTPError(fmt.Sprintf("status %d", a.status))
	}
	a.state = inHeader
	return nil
}

// header reads one header line. Only those that say where the answer ends, or
// whether the connection does, are looked at.
func (a *answer) header(line []byte) error {
	colon := bytes.IndexByte(line, ':')
	if colon <= 0 {
		return badHTTPError(fmt.Sprintf("the header line %.60q", line))
	}
	name := line[:colon]
	if !all(name, token) {
		return badHTTPError(fmt.Sprintf("the header line %.60q", line))
	}
	if a.capture != nil {
		a.captured.header(a.capture, name, bytes.Trim(line[colon+1:], " \t"))
	}
	switch {
	case len(name) == len("connection") && equalFold(name, "connection"):
		a.connection(line[colon+1:])
	case len(name) == len("content-length") && equalFold(name, "content-length"):
		return a.contentLength(bytes.Trim(line[colon+1:], " \t"))
	case len(name) == len("transfer-encoding") && equalFold(name, "transfer-encoding"):
		value := bytes.Trim(line[colon+1:], " \t")
		// We offer no other coding (no TE header), so a server may use no other.
		if a.chunked || !equalFold(value, "chunked") {
			return badHTTPError(fmt.Sprintf("Transfer-Encoding %.60q", value))
		}
		a.chunked = true
	}
	return nil
}

// connection reads the value of a Connection header: a list of options.
func (a *answer) connection(value []byte) {
	for len(value) > 0 {
		option := value
		if comma := bytes.IndexByte(value, ','); comma >= 0 {
			option, value = value[:comma], value[comma+1:]
		} else {
			value = nil
		}
		option = bytes.Trim(option, " \t")
		a.saysClose = a.saysClose || equalFold(option, "close")
		a.saysKeep = a.saysKeep || equalFold(option, "keep-alive")
	}
}

// contentLength reads a length. The same length twice is one length.
func (a *answer) contentLength(value []byte) error {
	const most = 1<<63 - 1
	var n int64
	for _, c := range value {
		if !isDigit(c) || n > (most-int64(c-'0'))/10 {
			return badHTTPError(fmt.Sprintf("Content-Length %.60q", value))
		}
		n = n*10 + int64(c-'0')
	}
	if len(value) == 0 || a.hasLength && a.left != n {
		return badHTTPError(fmt.Sprintf("Content-Length %.60q", value))
	}
	a.hasLength, a.left = true, n
	return nil
}

// endOfHeader decides what follows a header section (RFC 9112, section 6.3).
func (a *answer) endOfHeader() error {
	switch {
	case a.status == 101:
		return badHTTPError("status 101, but no other protocol was asked for")
	case a.status < 200: // on the way to the answer, which follows
		*a = answer{head: a.head, sectionLen: a.sectionLen, capture: a.capture, captured: a.captured}
		if a.capture != nil {
			a.captured.reset()
		}
		return nil
	case a.chunked && (a.hasLength || a.minor == 0):
		// Either would let two readers see different ends.
		return badHTTPError("Transfer-Encoding together with Content-Length or HTTP/1.0")
	}
	a.keepAlive = !a.saysClose && (a.minor >= 1 || a.saysKeep)
	switch {
	case a.head || a.status == 204 || a.status == 304:
		a.state = complete
	case a.chunked:
		a.state = inChunkSize
	case !a.hasLength:
		a.state, a.keepAlive = toEOF, false
	case a.left == 0:
		a.state = complete
	default:
		a.state = inBody
	}
	return nil
}

// chunkSize reads the line before a chunk: a size in hex, perhaps extensions.
func (a *answer) chunkSize(line []byte) error {
	const mostDigits = 15 // below 2⁶⁰, so that nothing overflows
	var n int64
	digits := 0
	for digits < len(line) {
		d := hexDigit(line[digits])
		if d < 0 {
			break
		}
		n = n<<4 | int64(d)
		if digits++; digits > mostDigits {
			return badHTTPError(fmt.Sprintf("chunk size %.60q", line))
		}
	}
	rest := bytes.TrimLeft(line[digits:], " \t")
	if digits == 0 || len(rest) > 0 && rest[0] != ';' {
		return badHTTPError(fmt.Sprintf("chunk size %.60q", line))
	}
	a.left, a.state = n, inChunk
	if n == 0 {
		a.state = inTrailer
	}
	return nil
}

// all says whether every byte of p is of the kind. It has no branch to
// mispredict in its loop: this is most of what an answer costs to read.
func all(p []byte, kind uint8) bool {
	kinds := kind
	for _, c := range p {
		kinds &= kindOf[c]
	}
	return kinds != 0
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// hexDigit returns the value of a hexadecimal digit, or -1.
func hexDigit(c byte) int {
	switch {
	case isDigit(c):
		return int(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	default:
		return -1
	}
}

// equalFold compares with lower, which must be lower-case ASCII.
func equalFold(p []byte, lower string) bool {
	if len(p) != len(lower) {
		return false
	}
	for i, c := range p {
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// The kinds of bytes.
const (
	token     uint8 = 1 << iota // in a header's name or a method (RFC 9110, 5.6.2)
	printable                   // in a line: no control character but a tab
	plain                       // in a path or query, unescaped, wherever it stands there
)

// kindOf holds the kinds of each byte.
var kindOf = func() (table [256]uint8) {
	for i := range table {
		c := byte(i)
		if isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'z' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0 {
			table[i] |= token
		}
		if isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'z' || strings.IndexByte("-._~/", c) >= 0 {
			table[i] |= plain
		}
		if c >= ' ' && c != 0x7f || c == '\t' {
			table[i] |= printable
		}
	}
	return table
}()
