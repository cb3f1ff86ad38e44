// Package seed turns one number into independent random streams whose every
// element is at hand: element k is a pure function of the stream's key and k.
// So who asks, when and in which order does not matter, and a plan's seed fixes
// everything that is drawn.
package seed

import (
	"hash/fnv"
	"math/bits"
)

// Derive makes the key of one random stream out of a seed, so that streams are
// independent of each other and of the order in which they are made.
func Derive(seed uint64, names ...string) uint64 {
	h := fnv.New64a()
	for _, name := range names {
		_, _ = h.Write([]byte(name)) // a hash never fails to write
		_, _ = h.Write([]byte{0})
	}
	return Mix(seed ^ bits.RotateLeft64(Mix(h.Sum64()), 32))
}

// gamma is the golden ratio in 64 bits, the step of SplitMix64.
const gamma = 0x9e3779b97f4a7c15

// At returns element k of the stream with the given key: 64 uniform bits.
func At(key, k uint64) uint64 { return Mix(key + (k+1)*gamma) }

// Mix is the output function of SplitMix64 (Steele, Lea, Flood, Fast
// Splittable Pseudorandom Number Generators, 2014): Mix(key + k·gamma) for
// k = 1, 2, … is that generator's stream.
func Mix(x uint64) uint64 {
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb
	return x ^ (x >> 31)
}

// Below maps 64 uniform bits to a number below span without bias (Lemire, Fast
// Random Integer Generation in an Interval, 2019). Where his method draws
// again, the next element of a stream that begins at x is taken. A span of 0
// stands for 2⁶⁴.
func Below(x, span uint64) uint64 {
	if span == 0 {
		return x
	}
	high, low := bits.Mul64(x, span)
	if low < span {
		for threshold := -span % span; low < threshold; {
			x = Mix(x + gamma)
			high, low = bits.Mul64(x, span)
		}
	}
	return high
}

// Unit maps 64 uniform bits to a number in [0, 1).
func Unit(x uint64) float64 { return float64(x>>11) / (1 << 53) }
