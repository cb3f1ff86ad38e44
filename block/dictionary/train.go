package dictionary

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// Size is that of a trained dictionary, in bytes. Four times that made frames of menus no smaller,
// and a decoder whose dictionary lies in the processor's cache is the faster one.
const Size = 32 << 10

const (
	segmentSize = 1 << 10 // about a text
	gramSize    = 8       // bytes that are worth a reference
	gramBits    = 20
)

// Train chooses from a sample, texts one after the other, what makes the best dictionary, at most Size bytes:
// the segments whose sequences of gramSize bytes occur most often, of each part of the sample
// one (the idea of zstd's FASTCOVER). The best come last: near offsets are the cheaper ones.
// The same sample gives the same dictionary.
func Train(sample []byte) []byte {
	if len(sample) <= Size {
		return sample
	}
	type segment struct {
		at    int
		score uint64
	}
	const grams, parts = segmentSize - gramSize + 1, Size / segmentSize
	gram := func(at int) uint64 {
		return binary.LittleEndian.Uint64(sample[at:]) * 0x9e3779b185ebca87 >> (64 - gramBits)
	}
	counts := make([]uint32, 1<<gramBits) // in the sample; 0 once the dictionary has it
	for at := range len(sample) - gramSize + 1 {
		counts[gram(at)]++
	}
	chosen, inside := make([]segment, 0, parts), make([]uint16, 1<<gramBits)
	for part := range parts {
		from, to := part*len(sample)/parts, (part+1)*len(sample)/parts
		best, score := segment{at: from}, uint64(0)
		// A window of segmentSize bytes moves over the part; a gram that is in it
		// more than once counts once.
		for at := from; at <= to-gramSize; at++ {
			entering := gram(at)
			if inside[entering]++; inside[entering] == 1 {
				score += uint64(counts[entering])
			}
			first := at - grams + 1
			if first < from {
				continue
			}
			if score > best.score {
				best = segment{first, score}
			}
			leaving := gram(first)
			if inside[leaving]--; inside[leaving] == 0 {
				score -= uint64(counts[leaving])
			}
		}
		clear(inside)
		for at := best.at; at < best.at+grams; at++ {
			counts[gram(at)] = 0
		}
		chosen = append(chosen, best)
	}
	slices.SortStableFunc(chosen, func(a, b segment) int { return cmp.Compare(a.score, b.score) })
	dictionary := make([]byte, 0, Size)
	for _, s := range chosen {
		dictionary = append(dictionary, sample[s.at:s.at+segmentSize]...)
	}
	return dictionary
}
