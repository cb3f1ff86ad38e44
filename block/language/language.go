// Package language finds out in which of the languages that there are somebody wants to
// read.
package language

import (
	"strconv"
	"strings"
)

// Bounds of an Accept-Language header, in bytes and in ranges: browsers send a
// handful. What is beyond is not read.
const (
	maxAcceptBytes  = 256
	maxAcceptRanges = 16
)

// Find compares the first part of a tag, am of am-ET, with languages such as "am", and
// returns the index of the one that it is.
func Find(tag string, languages []string) (index int, ok bool) {
	tag, _, _ = strings.Cut(tag, "-")
	for i, code := range languages {
		if strings.EqualFold(tag, code) {
			return i, true
		}
	}
	return 0, false
}

// Preferred reads an Accept-Language header (RFC 9110, 12.5.4): ranges with weights from 0
// to 1, the heaviest first named wins. A weight that is not a number counts as 0, which is
// never. It returns the index in languages, 0 if none of them is wanted.
func Preferred[T ~string | ~[]byte](accept T, languages []string) int {
	best, heaviest := 0, 0.0
	rest, more := string(accept[:min(len(accept), maxAcceptBytes)]), true
	for n := 0; n < maxAcceptRanges && more; n++ {
		var element string
		element, rest, more = strings.Cut(rest, ",")
		tag, parameter, weighted := strings.Cut(element, ";")
		weight := 1.0
		if weighted {
			weight = quality(parameter)
		}
		if i, ok := Find(strings.TrimSpace(tag), languages); ok && weight > heaviest {
			best, heaviest = i, weight
		}
	}
	return best
}

// quality reads q=0.8.
func quality(parameter string) float64 {
	name, value, _ := strings.Cut(parameter, "=")
	if !strings.EqualFold(strings.TrimSpace(name), "q") {
		return 0
	}
	q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	if err != nil || !(q >= 0 && q <= 1) { // so written, NaN is refused too
		return 0
	}
	return q
}
