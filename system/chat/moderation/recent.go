package moderation

// recentTexts are how many texts are remembered that may not be said again.
const recentTexts = 500

// recent is the hashes of the last texts, and who said each by which id, hashed too.
type recent struct {
	by   map[uint64]uint64
	ring []uint64
	at   int
}

// add remembers a text. It is false if it is among the last by another message.
func (r *recent) add(text, by uint64) bool {
	if before, ok := r.by[text]; ok {
		return before == by
	}
	if r.by == nil {
		r.by = map[uint64]uint64{}
	}
	if len(r.ring) < recentTexts {
		r.ring = append(r.ring, text)
	} else {
		delete(r.by, r.ring[r.at])
		r.ring[r.at] = text
		r.at = (r.at + 1) % recentTexts
	}
	r.by[text] = by
	return true
}
