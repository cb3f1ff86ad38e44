package moderation

// recent is the keys that were added last, each with a value.
type recent[K comparable, V any] struct {
	values map[K]V
	ring   []K
	at     int
}

// add adds a key, in place of the oldest of most, and returns its value: that of the key
// that is there.
func (r *recent[K, V]) add(key K, value V, most int) V {
	if there, ok := r.values[key]; ok {
		return there
	}
	if r.values == nil {
		r.values = map[K]V{}
	}
	if len(r.ring) < most {
		r.ring = append(r.ring, key)
	} else {
		delete(r.values, r.ring[r.at])
		r.ring[r.at] = key
		r.at = (r.at + 1) % most
	}
	r.values[key] = value
	return value
}
