package results

import (
	"strconv"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"
)

// NewPage encodes the student's finished answer. Body and Code share one
// allocation on the heap, so Owner is nil.
func NewPage(s *Student) Page {
	// A typical body has 330 bytes; a longer one makes append grow once.
	const typical = 448
	buf := s.AppendJSON(make([]byte, 0, typical))
	body := len(buf)
	buf = append(buf, s.Code...)
	return Page{Body: buf[:body:body], Code: buf[body:], Tag: Tag(buf[:body])}
}

// Tag identifies a body: the XXH64 hash of its bytes. It is the same in every
// store and every process, so replicas agree on a page's ETag.
func Tag(body []byte) uint64 { return xxhash.Sum64(body) }

// subjectKeys holds `"english":` and so on, by subject.
var subjectKeys = func() (keys [len(subjectNames)]string) {
	for i, name := range subjectNames {
		keys[i] = `"` + name + `":`
	}
	return keys
}()

// AppendJSON appends the response body: one JSON object, about 330 bytes,
// without the access code.
//
// It is written out by hand because the query store encodes on every request:
// it costs about a seventh of encoding/json and allocates nothing. Strings come out
// byte for byte as encoding/json writes them.
//
// A change to the bytes makes published snapshots differ from fresh ones under
// the same fingerprint: raise snapshot.Version with it.
func (s *Student) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"id":`...)
	dst = strconv.AppendInt(dst, s.ID, 10)
	dst = append(dst, `,"name":`...)
	dst = appendString(dst, s.Name)
	dst = append(dst, `,"sex":"`...)
	dst = append(dst, s.Sex.String()...)
	dst = append(dst, `","school":`...)
	dst = appendString(dst, s.School)
	dst = append(dst, `,"region":`...)
	dst = appendString(dst, s.Region)
	dst = append(dst, `,"birth_date":"`...)
	dst = s.BirthDate.Append(dst)
	dst = append(dst, `","stream":"`...)
	dst = append(dst, s.Stream.String()...)
	dst = append(dst, `","marks":{`...)
	for i, subject := range s.Stream.Subjects() {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, subjectKeys[subject]...)
		dst = strconv.AppendInt(dst, int64(s.Marks[i]), 10)
	}
	dst = append(dst, `},"total":`...)
	dst = strconv.AppendInt(dst, int64(s.Total()), 10)
	dst = append(dst, `,"average":`...)
	dst = s.Average().Append(dst)
	dst = append(dst, `,"pass_mark":`...)
	dst = strconv.AppendInt(dst, int64(s.PassMark), 10)
	dst = append(dst, `,"passed":`...)
	dst = strconv.AppendBool(dst, s.Passed())
	return append(dst, '}')
}

const hexDigits = "0123456789abcdef"

// appendString appends a JSON string. Like encoding/json it escapes what would
// be dangerous inside HTML (<, >, &, U+2028, U+2029) and replaces invalid UTF-8.
func appendString(dst []byte, text string) []byte {
	dst = append(dst, '"')
	start := 0 // text[start:i] needs no escape
	for i := 0; i < len(text); {
		char := text[i]
		if char < utf8.RuneSelf {
			if plain(char) {
				i++
				continue
			}
			dst = append(dst, text[start:i]...)
			dst = appendEscape(dst, char)
			i++
			start = i
			continue
		}
		wide, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case wide == utf8.RuneError && size == 1:
			dst = append(dst, text[start:i]...)
			dst = append(dst, `\ufffd`...)
			start = i + size
		case wide == '\u2028' || wide == '\u2029':
			dst = append(dst, text[start:i]...)
			dst = append(dst, `\u202`...)
			dst = append(dst, hexDigits[wide&0xf])
			start = i + size
		}
		i += size
	}
	dst = append(dst, text[start:]...)
	return append(dst, '"')
}

// plain reports whether an ASCII character stands for itself in a JSON string.
func plain(char byte) bool {
	return char >= ' ' && char != '"' && char != '\\' && char != '<' && char != '>' && char != '&'
}

func appendEscape(dst []byte, char byte) []byte {
	switch char {
	case '"', '\\':
		return append(dst, '\\', char)
	case '\b':
		return append(dst, `\b`...)
	case '\f':
		return append(dst, `\f`...)
	case '\n':
		return append(dst, `\n`...)
	case '\r':
		return append(dst, `\r`...)
	case '\t':
		return append(dst, `\t`...)
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[char>>4], hexDigits[char&0xf])
}
