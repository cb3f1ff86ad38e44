package menu

import (
	"context"

	"loadstone/block/dataset"
	"loadstone/block/dictionary"
)

// sampleMenus is how many menus a dictionary is trained on: about 4 MB.
const sampleMenus = 4000

// TrainDictionary makes a dictionary of menus spread over the source. The same source gives the same
// dictionary.
func TrainDictionary(ctx context.Context, source dataset.Source[Menu]) (*dictionary.Dictionary, error) {
	step, n, bodies := source.Meta().Count/sampleMenus+1, int64(0), []byte(nil)
	err := dataset.Each(ctx, source, nil, func(m *Menu) error {
		if n++; n%step == 0 || n == 1 {
			bodies = m.AppendJSON(bodies)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return dictionary.New(dictionary.Train(bodies), MaxBodyBytes)
}

// Frame is a body that is compressed.
type Frame struct {
	Data       []byte
	Dictionary *dictionary.Dictionary
	// Tag is that of the body.
	Tag uint64
}

// Compressed is a store whose menus are compressed with a dictionary, which may change as its
// menus do.
type Compressed interface {
	// Compressed finds a menu's frame, without decompressing it. The errors are Lookup's.
	Compressed(id int64) (Frame, error)
	// Dictionary is that of the next frame, most likely; nil once the store is closed.
	Dictionary() *dictionary.Dictionary
}
