package analysis

import "slices"

// What a summary is made of.
const (
	// SummaryOf is how many messages a summary is of, the newest.
	SummaryOf = 200
	// SummaryEvery is after how many messages there is another one.
	SummaryEvery = 100
	// fewest is the length of the shortest message that is considered, in characters of its
	// normal form.
	fewest = 5
	// most is how many messages stand for all.
	most = 3
)

// gram is three characters that follow each other, 21 bits each.
type gram uint64

func gramOf(a, b, c rune) gram { return gram(a)<<42 | gram(b)<<21 | gram(c) }

// candidate is a message that may stand for others.
type candidate struct {
	index int
	grams map[gram]bool
	score int
}

// Summarise returns the indexes of the messages that stand for all, three at most, in order.
//
// Those of five characters or more are considered, in their normal form (Normalise), of equal
// ones the first. The grams of a message are the different triples of characters that follow
// each other in it; a gram is worth as many points as other messages have it. A message's
// score is a thousand times the points of its grams, divided by how many they are and eight
// more, rounded down: so what is said by many, and not in passing. The greatest score is
// taken, of equal ones the first; then the next, leaving out who shares half or more of the
// fewer grams with one that was taken.
func Summarise(texts []string) []int {
	var all []candidate
	points := map[gram]int{}
	seen := map[string]bool{}
	var normal []rune
	for i, text := range texts {
		normal = Normalise(normal, text)
		if len(normal) < fewest+2 || seen[string(normal)] { // it has a space at both ends
			continue
		}
		seen[string(normal)] = true
		c := candidate{index: i, grams: map[gram]bool{}}
		for at := range len(normal) - 2 {
			g := gramOf(normal[at], normal[at+1], normal[at+2])
			if !c.grams[g] {
				c.grams[g] = true
				points[g]++
			}
		}
		all = append(all, c)
	}
	for i := range all {
		c := &all[i]
		for g := range c.grams {
			c.score += points[g] - 1
		}
		c.score = 1000 * c.score / (len(c.grams) + 8)
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return b.score - a.score })
	var taken []candidate
	for _, c := range all {
		if len(taken) < most && !slices.ContainsFunc(taken, func(t candidate) bool { return alike(t.grams, c.grams) }) {
			taken = append(taken, c)
		}
	}
	indexes := make([]int, len(taken))
	for i, c := range taken {
		indexes[i] = c.index
	}
	slices.Sort(indexes)
	return indexes
}

func alike(a, b map[gram]bool) bool {
	shared := 0
	for g := range a {
		if b[g] {
			shared++
		}
	}
	return 2*shared >= min(len(a), len(b))
}
