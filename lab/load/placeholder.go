package load

// Placeholder is a stretch of text and the name of the placeholder after it,
// empty at the end of the text.
type Placeholder struct{ Before, Name string }

// SplitPlaceholders cuts text at its placeholders. A placeholder is a name of
// letters, digits, _ and dots in braces, not beginning with a digit; any other
// brace is text, so JSON bodies need no escapes.
func SplitPlaceholders(text string) []Placeholder {
	var pieces []Placeholder
	begin := 0
	for i := 0; i < len(text); i++ {
		if text[i] != '{' {
			continue
		}
		end := i + 1
		for end < len(text) && isNameByte(text[end], end > i+1) {
			end++
		}
		if end == i+1 || end == len(text) || text[end] != '}' {
			continue
		}
		pieces = append(pieces, Placeholder{Before: text[begin:i], Name: text[i+1 : end]})
		begin, i = end+1, end
	}
	return append(pieces, Placeholder{Before: text[begin:]})
}

// isNameByte says whether c may stand in a placeholder's name; digits and dots
// only after its first byte.
func isNameByte(c byte, later bool) bool {
	return c == '_' || 'a' <= c|0x20 && c|0x20 <= 'z' || later && (c == '.' || '0' <= c && c <= '9')
}
