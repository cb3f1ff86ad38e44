package rediscache

import (
	"encoding/binary"
	"fmt"

	"loadstone/block/cache"
)

// An item in Redis is
//
//	byte 0      version, 1
//	byte 1      kind: see cache.Kind
//	bytes 2-9   born, microseconds since 1970, big endian
//	the rest    the value; nothing unless the kind is Present
const (
	version = 1
	header  = 10
)

func encode(item cache.Item) []byte {
	data := make([]byte, header, header+len(item.Value))
	data[0], data[1] = version, byte(item.Kind)
	binary.BigEndian.PutUint64(data[2:], uint64(item.Born))
	return append(data, item.Value...)
}

// decode returns an item whose value lies in data, or an error that wraps
// cache.ErrGarbage.
func decode(data []byte) (cache.Item, error) {
	if len(data) < header || data[0] != version {
		return cache.Item{}, fmt.Errorf("%w: %d bytes of another version", cache.ErrGarbage, len(data))
	}
	item := cache.Item{Kind: cache.Kind(data[1]), Born: int64(binary.BigEndian.Uint64(data[2:])), Value: data[header:]}
	switch item.Kind {
	case cache.Present:
	case cache.Missing:
		if len(item.Value) != 0 {
			return cache.Item{}, fmt.Errorf("%w: a value of a kind that has none", cache.ErrGarbage)
		}
		item.Value = nil
	default:
		return cache.Item{}, fmt.Errorf("%w: kind %d", cache.ErrGarbage, data[1])
	}
	// A time before 1970 or in 2255 is no load of ours.
	if item.Born < 0 || item.Born >= 1<<53 {
		return cache.Item{}, fmt.Errorf("%w: born at %d", cache.ErrGarbage, item.Born)
	}
	return item, nil
}
