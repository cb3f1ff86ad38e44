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
	"crypto/sha256"
	_ "embed" // for the weights
	"fmt"
	"slices"
)

// rules is the version of what is done with the files of this package: whoever has a text
// normalised, or a show judged, in another way raises it.
const rules = 2

// Version names how messages are judged: by which weights, folds and rules. Counts of
// different versions are not to be added up.
func Version() string { return version }

var version = func() string {
	const enough = 8
	sum := sha256.Sum256(slices.Concat(modelFile, []byte(foldTable)))
	return fmt.Sprintf("%d-%x", rules, sum[:enough])
}()

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
	weights [Buckets]packed
}

// packed are the weights of a bucket, 12 bits each and 128 greater: those of 16 buckets are
// added up in 16 additions.
type packed uint64

const packedBits, packedMost, packedZero = 12, 16, 128

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
		m.weights[i/Labels] |= packed(packedZero+int(int8(b))) << (i % Labels * packedBits)
	}
	return m, nil
}

// Classify is the label of a text by the weights that come with the program.
func Classify(text string) Label { return own.Classify(text) }

// Sums are the weights of a text's features, by the weights that come with the program, added up.
func Sums(text string) [Labels]int32 { return own.Sums(text) }

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
	var sums [Labels]int32
	for all := Features(buckets[:0], text); len(all) > 0; {
		some := all[:min(packedMost, len(all))]
		all = all[len(some):]
		var sum packed
		for _, bucket := range some {
			sum += m.weights[bucket%Buckets]
		}
		for l := range sums {
			sums[l] += int32(sum>>(l*packedBits)&(1<<packedBits-1)) - int32(packedZero*len(some))
		}
	}
	return sums
}

// FNV-1a of 32 bits.
const (
	hashBasis = 2166136261
	hashPrime = 16777619
)

// Features appends the bucket of each feature of a text to dst, one that is there twice twice:
// the empty one first, and then those of one to Gram characters that end with each character.
// A space alone is none.
//
// The hash is FNV-1a of 32 bits over the feature's UTF-8, the bucket its lower bits after
// the upper 16 were added by exclusive or.
func Features(dst []uint32, text string) []uint32 {
	var space [Longest + 2]rune
	dst = append(dst, bucket(hashBasis))
	var h hashes
	for i, c := range Normalise(space[:0], text) {
		h.add(uint32(c))
		if c != ' ' {
			dst = append(dst, bucket(h.one))
		}
		switch i {
		case 0:
		case 1:
			dst = append(dst, bucket(h.two))
		case 2:
			dst = append(dst, bucket(h.two), bucket(h.three))
		default:
			dst = append(dst, bucket(h.two), bucket(h.three), bucket(h.four))
		}
	}
	return dst
}

func bucket(hash uint32) uint32 { return (hash ^ hash>>16) % Buckets }

// hashes are those of the features that end with the last character, of so many characters.
// They are made side by side: none waits for another's multiplication.
type hashes struct{ one, two, three, four uint32 }

// add continues them with a character's UTF-8. There are no halves of surrogates.
func (h *hashes) add(c uint32) {
	const more, six = 0x80, 0x3f // a byte that continues a character, and its bits of it
	h.one, h.two, h.three, h.four = hashBasis, h.one, h.two, h.three
	switch {
	case c < 0x80:
		h.mix(c)
		return
	case c < 0x800:
		h.mix(0xc0 | c>>6)
	case c < 0x10000:
		h.mix(0xe0 | c>>12)
		h.mix(more | c>>6&six)
	default:
		h.mix(0xf0 | c>>18)
		h.mix(more | c>>12&six)
		h.mix(more | c>>6&six)
	}
	h.mix(more | c&six)
}

func (h *hashes) mix(b uint32) {
	h.one = (h.one ^ b) * hashPrime
	h.two = (h.two ^ b) * hashPrime
	h.three = (h.three ^ b) * hashPrime
	h.four = (h.four ^ b) * hashPrime
}
