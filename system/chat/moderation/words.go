package moderation

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Bounds of a list of words.
const (
	MaxWords  = 500
	MaxLetter = 40 // of a word, in characters
)

// Words finds the words of a list in a text: an automaton of Aho and Corasick over folded
// characters, which reads the text once, however many words there are. Nobody changes it.
//
// A word is found where it stands alone, and with an asterisk before or behind it also at the
// end or the beginning of others: *word*. Where words are not separated it is found everywhere,
// see joined.
type Words struct {
	next map[step]int32
	node []node
	word []word
}

// step is a way out of a node.
type step struct {
	node int32
	r    rune
}

// node is what has been read of words: a beginning of one.
type node struct {
	fail  int32   // the longest proper end of it that is a beginning, too
	found int32   // the nearest of those, itself included, that has words; -1 for none
	words []int32 // that end here
}

// word is an entry of the list.
type word struct {
	length              int
	openLeft, openRight bool
}

// NewWords makes the automaton of a list. An entry that cannot be one is an error.
func NewWords(list []string) (*Words, error) {
	if len(list) > MaxWords {
		return nil, fmt.Errorf("%d words: write %d at most", len(list), MaxWords)
	}
	w := &Words{next: map[step]int32{}, node: []node{{found: -1}}}
	for _, entry := range list {
		if err := w.add(entry); err != nil {
			return nil, err
		}
	}
	w.link()
	return w, nil
}

func (w *Words) add(entry string) error {
	text := strings.TrimSpace(entry)
	left, right := strings.HasPrefix(text, "*"), strings.HasSuffix(text, "*")
	runes := Fold(strings.Trim(text, "* "))
	switch {
	case utf8.RuneCountInString(entry) > MaxLetter:
		return fmt.Errorf("word %q: write %d characters at most", entry, MaxLetter)
	case len(runes) == 0 || !slices.ContainsFunc(runes, inWord) && !onlyEmoji(string(runes)):
		return fmt.Errorf("word %q has nothing to look for: write letters", entry)
	}
	at := int32(0)
	for _, r := range runes {
		to, ok := w.next[step{at, r}]
		if !ok {
			to = int32(len(w.node))
			w.next[step{at, r}] = to
			w.node = append(w.node, node{found: -1})
		}
		at = to
	}
	w.node[at].words = append(w.node[at].words, int32(len(w.word)))
	w.word = append(w.word, word{len(runes), left, right})
	return nil
}

// link finds where to go on where a word does not, the shorter beginnings first.
func (w *Words) link() {
	edges := make([][]step, len(w.node)) // to the node, and by which character
	for s, to := range w.next {
		edges[s.node] = append(edges[s.node], step{to, s.r})
	}
	queue := []int32{0}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		n := &w.node[at]
		if len(n.words) > 0 {
			n.found = at
		} else if at != 0 {
			n.found = w.node[n.fail].found
		}
		for _, e := range edges[at] {
			if at != 0 {
				w.node[e.node].fail = w.follow(n.fail, e.r)
			}
			queue = append(queue, e.node)
		}
	}
}

// follow is where a character leads.
func (w *Words) follow(at int32, r rune) int32 {
	for {
		if to, ok := w.next[step{at, r}]; ok {
			return to
		}
		if at == 0 {
			return 0
		}
		at = w.node[at].fail
	}
}

// In reports whether one of the words is in a folded text.
func (w *Words) In(text []rune) bool {
	at := int32(0)
	for i, r := range text {
		at = w.follow(at, r)
		for n := w.node[at].found; n > 0; n = w.node[w.node[n].fail].found {
			if w.ends(n, text, i+1) {
				return true
			}
		}
	}
	return false
}

// ends reports whether a word of a node, which ends before a place of the text, stands alone there.
func (w *Words) ends(n int32, text []rune, end int) bool {
	return slices.ContainsFunc(w.node[n].words, func(i int32) bool { return w.word[i].alone(text, end) })
}

func (w word) alone(text []rune, end int) bool {
	begin := end - w.length
	return (w.openLeft || begin == 0 || !joined(text[begin-1], text[begin])) &&
		(w.openRight || end == len(text) || !joined(text[end-1], text[end]))
}
