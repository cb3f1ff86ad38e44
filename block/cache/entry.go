package cache

import "time"

// entry is what the tiers keep of a key. Nobody modifies one that others can see.
type entry[V any] struct {
	value V
	born  int64 // when its load began, microseconds since 1970
	retry int64 // no refresh before that moment
	scale float32
	// absent: the loader said that there is no value.
	absent bool
}

// micros is a moment as entries hold it. Microseconds of this century fit into
// the 53 bits of a float64, the only number that Redis's scripts have.
func micros(t time.Time) int64 { return t.UnixMicro() }

// age is in microseconds. A clock that was set back makes an entry new, not
// eternal: it is at most once more as old as it may get.
func (e *entry[V]) age(now int64) int64 { return max(0, now-e.born) }

// scaled is the entry's own share of a configured age.
func (e *entry[V]) scaled(age int64) int64 { return int64(float64(age) * float64(e.scale)) }

// rest is how long the entry may still be served.
func (a ages) rest(born int64, scale float32, absent bool) time.Duration {
	most := a.value
	if absent {
		most = a.absent
	}
	left := int64(float64(most)*float64(scale)) - max(0, micros(time.Now())-born)
	return time.Duration(left) * time.Microsecond
}

// scale draws an entry's share of its ages: number n of the sequence that the
// seed stands for (splitmix64, Steele, Lea and Flood 2014).
func (j Jitter) scale(n uint64) float32 {
	if j.Fraction == 0 {
		return 1
	}
	z := j.Seed + n*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	z ^= z >> 31
	return float32(1 - j.Fraction*float64(z>>11)/(1<<53))
}
