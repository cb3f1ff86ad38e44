package pebblestore

import (
	"encoding/binary"
	"errors"

	"loadstone/system/patterns/activity"
)

// format is the first byte of each value: the version of what follows, which is
//
//	varint   milliseconds since 1970
//	3 times  uvarint length, bytes: user, kind, details
const format = 1

var errValue = errors.New("the stored value is damaged, or of another version of this program")

// encode appends an activity's value.
func encode(dst []byte, a *activity.Activity) []byte {
	dst = append(dst, format)
	dst = binary.AppendVarint(dst, a.Millis())
	for _, text := range []string{a.User, a.Kind, a.Details} {
		dst = binary.AppendUvarint(dst, uint64(len(text)))
		dst = append(dst, text...)
	}
	return dst
}

// decode is the inverse. It keeps nothing of the value, and refuses one that no
// valid activity has.
func decode(id string, value []byte) (activity.Activity, error) {
	a := activity.Activity{ID: id}
	if len(value) == 0 || value[0] != format {
		return a, errValue
	}
	millis, n := binary.Varint(value[1:])
	if n <= 0 {
		return a, errValue
	}
	rest := value[1+n:]
	for _, target := range []*string{&a.User, &a.Kind, &a.Details} {
		length, n := binary.Uvarint(rest)
		if n <= 0 || length > uint64(len(rest)-n) {
			return a, errValue
		}
		end := n + int(length)
		*target, rest = string(rest[n:end]), rest[end:]
	}
	a.At = activity.Time(millis)
	if len(rest) > 0 || a.Validate() != nil {
		return a, errValue
	}
	return a, nil
}
