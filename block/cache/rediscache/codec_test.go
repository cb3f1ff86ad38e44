package rediscache

import (
	"bytes"
	"errors"
	"testing"

	"loadstone/block/cache"
)

func FuzzDecode(f *testing.F) {
	for _, item := range []cache.Item{
		{Kind: cache.Present, Born: 1, Value: []byte("v")}, {Kind: cache.Missing, Born: 1 << 52},
	} {
		f.Add(encode(item))
	}
	for _, garbage := range []string{"", "\x01", "\x02\x01........", "\x01\x04\x00.......", "\x01\x02\x00\x00\x00\x00\x00\x00\x00\x00x", "\x01\x01\xff.......", "plain text of somebody"} {
		f.Add([]byte(garbage))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		item, err := decode(data)
		if err != nil {
			if !errors.Is(err, cache.ErrGarbage) {
				t.Errorf("got %v, want it to wrap %v", err, cache.ErrGarbage)
			}
			return
		}
		if again := encode(item); !bytes.Equal(again, data) {
			t.Errorf("got %x, want %x", again, data)
		}
	})
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	for _, garbage := range []string{"", "\x01\x01\x00\x00\x00\x00\x00\x00\x00", "\x02\x01\x00\x00\x00\x00\x00\x00\x00\x00", "\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00", "\x01\x03\x00\x00\x00\x00\x00\x00\x00\x00x", "\x01\x01\xff\x00\x00\x00\x00\x00\x00\x00"} {
		if _, err := decode([]byte(garbage)); !errors.Is(err, cache.ErrGarbage) {
			t.Errorf("%q: got %v, want %v", garbage, err, cache.ErrGarbage)
		}
	}
}
