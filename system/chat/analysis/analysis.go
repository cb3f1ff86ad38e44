// Package analysis says what messages of a chat are: praise, criticism, laughter, a question
// or advice; what of many of them stands for the others; and where in a show something
// happened. It is pure: the same on every machine, and in every language that does the same,
// see the golden records in contract/. There are integers only.
//
// A label is the greatest of five sums. A message has features, its runs of one to four
// characters; each has a bucket, and a bucket has a weight for each label:
//
//	"so good" ─ Normalise ─► " so good " ─► " ", " s", " so", ..., "d " ─ hash ─► buckets
//	                                                                                │
//	            label ◄─ the greatest, of equal ones the first ◄─ sum of weights ◄──┘
//
// The weights are learned from messages of our own, package train.
package analysis

import (
	_ "embed" // for the weights
	"fmt"
)

// Label is what a message is.
type Label uint8

// The labels, in the order in which they are written anywhere.
const (
	Praise Label = iota
	Criticism
	Laughter
	Question
	Advice
)

// Labels is how many there are.
const Labels = 5

var names = [Labels]string{"praise", "criticism", "laughter", "question", "advice"}

// String is the label on the wire.
func (l Label) String() string { return names[l] }

// Counts are messages by label.
type Counts [Labels]uint64

// Sum is how many they are in all.
func (c *Counts) Sum() (n uint64) {
	for _, count := range c {
		n += count
	}
	return n
}

// Buckets of features, and the longest feature in characters.
const (
	Buckets = 1 << 14
	Gram    = 4
)

// Model has a weight for each bucket and label.
type Model struct {
	weights [Buckets][8]int8 // of a bucket in one piece of a cache line; the last three are 0
}

// modelFile has the weights: a byte each, in two's complement, the five of a bucket after
// those of the bucket before.
//
//go:embed model.bin
var modelFile []byte

var own = mustLoad(modelFile)

func mustLoad(data []byte) *Model {
	m, err := Load(data)
	if err != nil {
		panic(err)
	}
	return m
}

// Load reads a model.
func Load(data []byte) (*Model, error) {
	if len(data) != Buckets*Labels {
		return nil, fmt.Errorf("a model of %d bytes: it has %d", len(data), Buckets*Labels)
	}
	m := &Model{}
	for i, b := range data {
		m.weights[i/Labels][i%Labels] = int8(b)
	}
	return m, nil
}

// Classify is the label of a text by the weights that come with the program.
func Classify(text string) Label { return own.Classify(text) }

// Classify is the label of a text.
func (m *Model) Classify(text string) Label {
	sums := m.Sums(text)
	best := Praise
	for l := range Label(Labels) {
		if sums[l] > sums[best] {
			best = l
		}
	}
	return best
}

// Sums are the weights of a text's features, added up.
func (m *Model) Sums(text string) [Labels]int32 {
	var buckets [1 + Gram*(Longest+2)]uint32
	var a, b, c, d, e int32 // a loop over an array takes twice the time
	for _, bucket := range Features(buckets[:0], text) {
		w := &m.weights[bucket%Buckets]
		a += int32(w[0])
		b += int32(w[1])
		c += int32(w[2])
		d += int32(w[3])
		e += int32(w[4])
	}
	return [Labels]int32{a, b, c, d, e}
}

// FNV-1a of 32 bits.
const (
	hashBasis = 2166136261
	hashPrime = 16777619
)

// Features appends the bucket of each feature of a text to dst, one that is there twice twice:
// the empty one first, and then from each character on those of one to Gram characters. A
// space alone is none.
//
// The hash is FNV-1a of 32 bits over the feature's UTF-8, the bucket its lower bits after
// the upper 16 were added by exclusive or.
func Features(dst []uint32, text string) []uint32 {
	var space [Longest + 2]rune
	all := Normalise(space[:0], text)
	dst = append(dst, bucket(hashBasis))
	for i := range all {
		hash := uint32(hashBasis)
		for n, c := range all[i:min(i+Gram, len(all))] {
			if hash = add(hash, uint32(c)); n > 0 || c != ' ' {
				dst = append(dst, bucket(hash))
			}
		}
	}
	return dst
}

func bucket(hash uint32) uint32 { return (hash ^ hash>>16) % Buckets }

// add continues a hash with a character's UTF-8. There are no halves of surrogates.
func add(hash, c uint32) uint32 {
	const more, six = 0x80, 0x3f // a byte that continues a character, and its bits of it
	switch {
	case c < 0x80:
		return (hash ^ c) * hashPrime
	case c < 0x800:
		hash = (hash ^ (0xc0 | c>>6)) * hashPrime
	case c < 0x10000:
		hash = (hash ^ (0xe0 | c>>12)) * hashPrime
		hash = (hash ^ (more | c>>6&six)) * hashPrime
	default:
		hash = (hash ^ (0xf0 | c>>18)) * hashPrime
		hash = (hash ^ (more | c>>12&six)) * hashPrime
		hash = (hash ^ (more | c>>6&six)) * hashPrime
	}
	return (hash ^ (more | c&six)) * hashPrime
}
