package logstore

import (
	"encoding/binary"
	"fmt"
)

// The first byte of a key says what it is the key of.
const (
	metaKind    = 0 // alone: what the log says of itself
	streamKind  = 1 // and a stream's id: the stream, in JSON
	messageKind = 2 // and a stream's id and an offset: a message as it is on the wire
	saidKind    = 3 // and a stream's id, a sender, a zero, and the sender's id of a message: its offset
	recordKind  = 4 // and a stream's id and a name: what is kept of a room by that name
	entryKind   = 5 // and a stream's id and a number: a line of the log of who did what
	noteKind    = 6 // and a stream's id, a topic and a number: what was found out about its messages
)

const numberBytes = 8

var metaKey = []byte{metaKind}

// appendKey appends a key of numbers, big-endian, so that keys are in the order of the numbers.
func appendKey(dst []byte, kind byte, numbers ...uint64) []byte {
	dst = append(dst, kind)
	for _, n := range numbers {
		dst = binary.BigEndian.AppendUint64(dst, n)
	}
	return dst
}

// lastNumber is what a key or a value ends with.
func lastNumber(b []byte) (uint64, error) {
	if len(b) < numberBytes {
		return 0, fmt.Errorf("%x: %w", b, errCorrupt)
	}
	return binary.BigEndian.Uint64(b[len(b)-numberBytes:]), nil
}

// appendSaid appends the key under which the offset of a message is found by its sender's id
// for it. Neither has a zero in it.
func appendSaid(dst []byte, stream int64, sender, id string) []byte {
	dst = appendKey(dst, saidKind, uint64(stream))
	return append(append(append(dst, sender...), 0), id...)
}
