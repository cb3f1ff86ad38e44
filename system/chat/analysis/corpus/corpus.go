// Package corpus has messages with their labels, in English and Korean, written for this
// project: one a line in LABEL.LANGUAGE.txt. Those in test are for testing alone: nothing is
// learned from them, and nothing is chosen by them.
package corpus

import (
	"embed"
	"fmt"
	"strings"

	"loadstone/system/chat/analysis"
)

//go:embed *.txt test/*.txt
var files embed.FS

// Languages of the messages.
var Languages = []string{"en", "ko"}

// Message has a label by hand.
type Message struct {
	Text  string
	Label analysis.Label
}

// Training returns the messages of a language to learn from, in the order of the files.
func Training(language string) []Message { return read("", language) }

// Test returns the messages of a language to test with.
func Test(language string) []Message { return read("test/", language) }

func read(dir, language string) (all []Message) {
	for l := range analysis.Label(analysis.Labels) {
		text, err := files.ReadFile(fmt.Sprintf("%s%s.%s.txt", dir, l, language))
		if err != nil {
			panic(err) // it is a part of the program
		}
		for line := range strings.Lines(string(text)) {
			all = append(all, Message{strings.TrimSuffix(line, "\n"), l})
		}
	}
	return all
}
