package feed

import "github.com/cespare/xxhash/v2"

//go:generate go run loadstone/internal/appendjson feed.go json.go

// Value is what is answered as JSON. AppendJSON appends the bytes that encoding/json writes,
// in an eighth of its time; FuzzSerializers holds them equal. The methods are generated from the types.
type Value interface {
	AppendJSON(dst []byte) []byte
}

// appendList appends a list as encoding/json does: null is another list than an empty one.
func appendList[T any, P interface {
	*T
	Value
}](dst []byte, list []T,
) []byte {
	if list == nil {
		return append(dst, "null"...)
	}
	dst = append(dst, '[')
	for i := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = P(&list[i]).AppendJSON(dst)
	}
	return append(dst, ']')
}

// Tag identifies a body: the XXH64 hash of its bytes, the same in every process.
func Tag(body []byte) uint64 { return xxhash.Sum64(body) }
