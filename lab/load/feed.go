package load

import "math/bits"

// values is a Feed made ready: the value of the request with a given number is
// a pure function of the feed's key and that number. So it does not matter
// which virtual user sends a request, or when: request k always carries the
// same values.
type values struct {
	name       string
	lo         int64
	span       uint64 // how many different values; 0 stands for all 2⁶⁴
	key        uint64
	sequential bool
}

// newValues prepares the feed called name of a scenario.
func newValues(seed uint64, scenario, name string, f Feed) values {
	v := values{name: name, key: derive(seed, scenario, "feed", name)}
	bounds := f.Uniform
	if f.Sequential != nil {
		bounds, v.sequential = f.Sequential, true
	}
	v.lo = bounds[0]
	v.span = uint64(bounds[1]) - uint64(bounds[0]) + 1
	return v
}

// at returns the value of request k.
func (v *values) at(k uint64) int64 {
	if v.sequential {
		if v.span != 0 {
			k %= v.span
		}
		return int64(uint64(v.lo) + k)
	}
	return int64(uint64(v.lo) + bounded(mix(v.key+(k+1)*gamma), v.span))
}

// bounded maps a uniform 64-bit number to one below span without bias (Lemire,
// Fast Random Integer Generation in an Interval, 2019). Where his method draws
// again, the next element of a stream that begins at x is taken.
func bounded(x, span uint64) uint64 {
	if span == 0 {
		return x
	}
	high, low := bits.Mul64(x, span)
	if low < span {
		for threshold := -span % span; low < threshold; {
			x = mix(x + gamma)
			high, low = bits.Mul64(x, span)
		}
	}
	return high
}
