package results

import "math/bits"

// random is the stream of numbers of one student. It is a counter passed through
// a mixing function, so that starting one costs nothing: a generator with a
// large state would spend most of its time on being seeded 674,823 times.
//
// It is neither secret nor fit for secrets; access codes have their own hash.
type random struct{ state uint64 }

// golden is 2^64 divided by the golden ratio, made odd: consecutive multiples
// of it are spread evenly.
const golden = 0x9e3779b97f4a7c15

func newRandom(seed uint64, id int64) random {
	return random{state: mix(mix(seed+golden) ^ uint64(id)*golden)}
}

// mix is a permutation of the 64-bit numbers in which every input bit changes
// about half of the output bits (the finaliser of SplitMix64; Steele, Lea and
// Flood, "Fast Splittable Pseudorandom Number Generators", 2014).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func (r *random) next() uint64 {
	r.state += golden
	return mix(r.state)
}

// below returns a number from 0 to n-1. The bias of the multiplication is less
// than n/2^64.
func (r *random) below(n int) int {
	high, _ := bits.Mul64(r.next(), uint64(n))
	return int(high)
}

// popular returns an index below n that prefers small ones: the product of two
// uniform numbers, so the first tenth of a list is drawn a third of the time.
func (r *random) popular(n int) int {
	value := r.next()
	product := (value >> 32) * (value & 0xffffffff)
	high, _ := bits.Mul64(product, uint64(n))
	return int(high)
}

// normalUnit is one standard deviation of normal: four independent uniform
// numbers from 0 to 65535 have the variance 4 * 65536²/12, whose root this is.
const normalUnit = 37_837

// normal returns a nearly normal number with mean 0 and standard deviation
// normalUnit, at most 3.46 deviations from the mean: the sum of four uniform
// numbers. No floating point is involved, whose rounding differs from one
// processor family to another.
func (r *random) normal() int64 {
	value := r.next()
	const mean = 2 * 0xffff
	return int64(value&0xffff) + int64(value>>16&0xffff) + int64(value>>32&0xffff) + int64(value>>48) - mean
}
