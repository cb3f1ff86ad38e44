package moderation

import (
	"slices"
	"strings"
	"unicode/utf8"

	"loadstone/system/chat"
)

// maxNames bounds the names of a room that can be mentioned: those of who spoke last.
const maxNames = 1000

// Meet remembers whom a name means in the room: its first bearer who has spoken, and is not forgotten yet.
func (r *Room) Meet(name, user string) {
	folded := string(Fold(name))
	r.counting.Lock()
	defer r.counting.Unlock()
	if folded != "" {
		r.names.add(folded, user, maxNames)
	}
}

// Mentions are the users whom a text mentions, as @name: chat.MaxMentions at most, each once. Of
// names of which one begins with the other, the longer one is meant.
func (r *Room) Mentions(text string) []string {
	var found []string
	for tries := 0; tries < 2*chat.MaxMentions && len(found) < chat.MaxMentions; tries++ {
		at := strings.IndexByte(text, '@')
		if at < 0 {
			break
		}
		before, _ := utf8.DecodeLastRuneInString(text[:at])
		text = text[at+1:]
		if at > 0 && joined(before, 'a') { // an address
			continue
		}
		if user := r.named(text); user != "" && !slices.Contains(found, user) {
			found = append(found, user)
		}
	}
	return found
}

// named is whose name a text begins with, or nobody's.
func (r *Room) named(text string) string {
	end, runes := 0, 0
	for i := range text {
		if end = i; runes > chat.MaxName {
			break
		}
		runes++
	}
	if runes <= chat.MaxName {
		end = len(text)
	}
	folded := Fold(text[:end])
	r.counting.Lock()
	defer r.counting.Unlock()
	for n := min(len(folded), chat.MaxName); n > 0; n-- {
		if n < len(folded) && joined(folded[n-1], folded[n]) {
			continue
		}
		if user, ok := r.names.values[string(folded[:n])]; ok {
			return user
		}
	}
	return ""
}
