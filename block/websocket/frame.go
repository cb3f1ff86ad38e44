package websocket

import (
	"encoding/binary"
	"fmt"
	"unicode/utf8"
)

// Op says what a frame is.
type Op byte

// What frames are.
const (
	Continuation Op = 0x0
	Text         Op = 0x1
	Binary       Op = 0x2
	Close        Op = 0x8
	Ping         Op = 0x9
	Pong         Op = 0xA
)

// control reports whether the frame is about the connection and not a message.
func (o Op) control() bool { return o >= Close }

func (o Op) known() bool { return o <= Binary || o >= Close && o <= Pong }

// Code says why a connection is closed.
type Code uint16

// Reasons to close.
const (
	Normal       Code = 1000
	GoingAway    Code = 1001
	Protocol     Code = 1002
	Unsupported  Code = 1003
	BadText      Code = 1007
	Policy       Code = 1008
	TooBig       Code = 1009
	Failed       Code = 1011
	TryLater     Code = 1013
	firstOwn     Code = 3000 // of libraries and applications, up to lastOwn
	lastOwn      Code = 4999
	lastStandard Code = 1014
	reservedFrom Code = 1004 // these are never sent, up to reservedTo
	reservedTo   Code = 1006
	codeBytes         = 2
	maxControl        = 125
	finBit            = 0x80
	maskBit           = 0x80
	reservedBits      = 0x70
	opBits            = 0x0f
	lengthBits        = 0x7f
	length16          = 126
	length64          = 127
	maskBytes         = 4
	// MaxHeader is the length of the longest header of a server's frame.
	MaxHeader = 2 + 8
)

// sendable reports whether a client may send the code.
func (c Code) sendable() bool {
	return c >= Normal && c <= lastStandard && (c < reservedFrom || c > reservedTo) || c >= firstOwn && c <= lastOwn
}

// Error is what the other side did wrong, and the code to close with.
type Error struct {
	Code Code
	Text string
}

// Error returns both.
func (e *Error) Error() string { return fmt.Sprintf("%s (%d)", e.Text, e.Code) }

func protocol(text string) error { return &Error{Protocol, text} }

// Message is a whole message or control frame.
type Message struct {
	Op      Op
	Payload []byte
}

// Parser is where the stream of a client's frames stands, or of a server's. The zero Parser is
// the beginning of a client's.
type Parser struct {
	// OfServer says that the frames are a server's, which are not masked.
	OfServer bool
	// Deflate says that messages may be compressed, see AgreeDeflate. What Next returns is not.
	Deflate bool

	compressed bool   // the message in fragments is
	op         Op     // of that message; Continuation if there is none
	parts      []byte // of it
}

// Next takes the first frame off data, unmasking it in place. It returns how many bytes that
// were: 0 if the frame is not whole yet, and then data and what follows are to be given again.
// A fragment that does not end its message has no Op but Continuation. limit bounds a message, in bytes, compressed and not. The payload is valid until data is
// used again or Next called. An error is an *Error; nothing may be parsed after it.
func (p *Parser) Next(data []byte, limit int) (Message, int, error) {
	if len(data) < 2 {
		return Message{}, 0, nil
	}
	op, fin := Op(data[0]&opBits), data[0]&finBit != 0
	if err := p.check(data, op, fin); err != nil {
		return Message{}, 0, err
	}
	length, head, err := size(data)
	switch {
	case err != nil:
		return Message{}, 0, err
	case !op.control() && length > uint64(max(limit-len(p.parts), 0)):
		return Message{}, 0, tooBig(limit)
	case head == 0 || uint64(len(data)-head) < p.mask()+length:
		return Message{}, 0, nil
	}
	begin := head + int(p.mask())
	end := begin + int(length)
	payload := data[begin:end]
	if !p.OfServer {
		unmask(payload, [maskBytes]byte(data[head:]))
	}
	if op.control() {
		return Message{op, payload}, end, checkControl(op, payload)
	}
	if op != Continuation {
		p.compressed = data[0]&compressedBit != 0
	}
	m, err := p.message(op, fin, payload, limit)
	return m, end, err
}

func (p *Parser) wrongMask() error {
	if p.OfServer {
		return protocol("a server's frame is masked")
	}
	return protocol("a frame is not masked")
}

// mask is how many bytes of a frame are its mask.
func (p *Parser) mask() uint64 {
	if p.OfServer {
		return 0
	}
	return maskBytes
}

// mayReserve reports whether a frame may have these reserved bits: none, or that of a compressed message.
func (p *Parser) mayReserve(bits byte, op Op) bool {
	return bits == 0 || bits == compressedBit && p.Deflate && (op == Text || op == Binary)
}

// check looks at the first two bytes of a frame.
func (p *Parser) check(data []byte, op Op, fin bool) error {
	switch {
	case !p.mayReserve(data[0]&reservedBits, op):
		return protocol("a reserved bit is set")
	case !op.known():
		return protocol("an opcode is unknown")
	case data[1]&maskBit == 0 != p.OfServer:
		return p.wrongMask()
	case op.control() && !fin:
		return protocol("a control frame is a fragment")
	case op.control() && data[1]&lengthBits > maxControl:
		return protocol("a control frame is too long")
	case op == Continuation && p.op == Continuation:
		return protocol("there is no message to continue")
	case !op.control() && op != Continuation && p.op != Continuation:
		return protocol("a message begins within another")
	}
	return nil
}

// size returns the payload's length and the header's without the mask, 0 if it is not whole.
func size(data []byte) (length uint64, head int, err error) {
	const head16, head64 = 2 + 2, 2 + 8
	switch short := data[1] & lengthBits; short {
	case length16:
		if len(data) < head16 {
			return 0, 0, nil
		}
		if length = uint64(binary.BigEndian.Uint16(data[2:])); length < length16 {
			return 0, 0, protocol("a length is not written in the shortest form")
		}
		return length, head16, nil
	case length64:
		if len(data) < head64 {
			return 0, 0, nil
		}
		if length = binary.BigEndian.Uint64(data[2:]); length>>63 != 0 || length>>16 == 0 {
			return 0, 0, protocol("a length is not written in the shortest form")
		}
		return length, head64, nil
	default:
		return uint64(short), 2, nil
	}
}

// message takes a frame of a message.
func (p *Parser) message(op Op, fin bool, payload []byte, limit int) (Message, error) {
	compressed := p.compressed
	switch {
	case !fin:
		if op != Continuation {
			p.op = op
		}
		p.parts = append(p.parts, payload...)
		return Message{}, nil
	case op == Continuation:
		op, payload = p.op, append(p.parts, payload...)
		*p = Parser{OfServer: p.OfServer, Deflate: p.Deflate} // most messages are whole: nothing is kept for the next in fragments
	}
	if compressed {
		var err error
		if payload, err = inflate(payload, limit); err != nil {
			return Message{}, err
		}
	}
	if op == Text && !utf8.Valid(payload) {
		return Message{}, &Error{BadText, "a text is no UTF-8"}
	}
	return Message{op, payload}, nil
}

func checkControl(op Op, payload []byte) error {
	if op != Close || len(payload) == 0 {
		return nil
	}
	if len(payload) < codeBytes || !Code(binary.BigEndian.Uint16(payload)).sendable() {
		return protocol("a connection is closed with a code that there is not")
	}
	if !utf8.Valid(payload[codeBytes:]) {
		return &Error{BadText, "a reason to close is no UTF-8"}
	}
	return nil
}

// unmask takes the mask off.
func unmask(b []byte, mask [maskBytes]byte) {
	const word = 8
	key := uint64(binary.LittleEndian.Uint32(mask[:]))
	key |= key << 32
	for len(b) >= word {
		binary.LittleEndian.PutUint64(b, binary.LittleEndian.Uint64(b)^key)
		b = b[word:]
	}
	for i := range b {
		b[i] ^= mask[i%maskBytes]
	}
}

// AppendHeader appends the header of a server's frame, a whole message.
func AppendHeader(dst []byte, op Op, length int) []byte {
	dst = append(dst, byte(op)|finBit)
	switch {
	case length < length16:
		return append(dst, byte(length))
	case length < 1<<16:
		return binary.BigEndian.AppendUint16(append(dst, length16), uint16(length))
	default:
		return binary.BigEndian.AppendUint64(append(dst, length64), uint64(length))
	}
}

// AppendMasked appends a client's frame, a whole message, with a mask that the caller has drawn.
// A control frame's payload has 125 bytes at most.
func AppendMasked(dst []byte, op Op, payload []byte, mask [4]byte) []byte {
	at := len(dst)
	dst = AppendHeader(dst, op, len(payload))
	dst[at+1] |= maskBit
	dst = append(dst, mask[:]...)
	begin := len(dst)
	dst = append(dst, payload...)
	unmask(dst[begin:], mask)
	return dst
}

// AppendFrame appends a server's frame, a whole message. A control frame's payload has 125
// bytes at most.
func AppendFrame(dst []byte, op Op, payload []byte) []byte {
	return append(AppendHeader(dst, op, len(payload)), payload...)
}

// AppendClose appends a frame that closes. A reason of more than 123 bytes is left out.
func AppendClose(dst []byte, code Code, reason string) []byte {
	if len(reason) > maxControl-codeBytes {
		reason = ""
	}
	dst = AppendHeader(dst, Close, codeBytes+len(reason))
	return append(binary.BigEndian.AppendUint16(dst, uint16(code)), reason...)
}
