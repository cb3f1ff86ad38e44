// Package random is numbers that look random, and are the same on every machine, for
// data that is made up: each record's are a function of a seed and the record's id.
package random

import "math/bits"

// Stream is the stream of numbers of one record. It is a counter passed through
// a mixing function, so that starting one costs nothing: a generator with a
// large state would spend most of its time on being seeded.
//
// It is neither secret nor fit for secrets.
type Stream struct{ state uint64 }

// Golden is 2^64 divided by the golden ratio, made odd: consecutive multiples
// of it are spread evenly.
const Golden = 0x9e3779b97f4a7c15

// New returns the stream of one record.
func New(seed uint64, id int64) Stream {
	return Stream{state: Mix(Mix(seed+Golden) ^ uint64(id)*Golden)}
}

// Mix is a permutation of the 64-bit numbers in which every input bit changes
// about half of the output bits (the finaliser of SplitMix64; Steele, Lea and
// Flood, "Fast Splittable Pseudorandom Number Generators", 2014).
func Mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Next returns 64 bits.
func (r *Stream) Next() uint64 {
	r.state += Golden
	return Mix(r.state)
}

// Below returns a number from 0 to n-1. The bias of the multiplication is less
// than n/2^64.
func (r *Stream) Below(n int) int {
	high, _ := bits.Mul64(r.Next(), uint64(n))
	return int(high)
}

// Popular returns an index below n that prefers small ones: the product of two
// uniform numbers, so the first tenth of a list is drawn a third of the time.
func (r *Stream) Popular(n int) int {
	value := r.Next()
	product := (value >> 32) * (value & 0xffffffff)
	high, _ := bits.Mul64(product, uint64(n))
	return int(high)
}

// NormalUnit is one standard deviation of Normal: four independent uniform
// numbers from 0 to 65535 have the variance 4 * 65536²/12, whose root this is.
const NormalUnit = 37_837

// Normal returns a nearly normal number with mean 0 and standard deviation
// NormalUnit, at most 3.46 deviations from the mean: the sum of four uniform
// numbers. No floating point is involved, whose rounding differs from one
// processor family to another.
func (r *Stream) Normal() int64 {
	value := r.Next()
	const mean = 2 * 0xffff
	return int64(value&0xffff) + int64(value>>16&0xffff) + int64(value>>32&0xffff) + int64(value>>48) - mean
}
