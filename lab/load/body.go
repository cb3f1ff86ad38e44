package load

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"mime"
	"net/textproto"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// The content types that bodies have of themselves.
const (
	typeJSON = "application/json"
	typeForm = "application/x-www-form-urlencoded"
)

// FormField is a field of a form that is sent as multipart/form-data: a text, or the
// content of a file.
type FormField struct {
	Name string `json:"name"`
	// Value is a text with placeholders.
	Value string `json:"value,omitempty"`
	// File is the path of a file, in place of Value. What is in it is sent as it is.
	File string `json:"file,omitempty"`
	// FileName is what the server is told the file is called; if it is empty, the last
	// element of File.
	FileName string `json:"file_name,omitempty"`
	// Type is the field's content type; if it is empty, that of a file goes by its name's
	// ending, and a text has none.
	Type string `json:"type,omitempty"`
}

// Piece is a stretch of a body, the placeholder after it, which is empty at the end, and
// how its value is written there.
type Piece struct {
	Placeholder
	Escape Escape
}

// Escape is how a value is written where it stands.
type Escape uint8

// The ways that values are written.
const (
	AsItIs     Escape = iota
	InJSONText        // within a JSON string
	InForm            // within a form: percent-encoded, a space as +
)

// Pieces cuts the body at its placeholders. contentType is what the body is, for a request
// whose header does not say so, and empty if that is not known: a body is JSON if it reads
// as an object or a list whatever its placeholders stand for. read reads a file that a
// field is to be filled from.
func (r *Request) Pieces(read func(path string) ([]byte, error)) (pieces []Piece, contentType string, err error) {
	switch {
	case len(r.Form) > 0:
		return r.formPieces(), typeForm, nil
	case len(r.Multipart) > 0:
		return r.multipart(read)
	}
	given, found := r.ContentType()
	if found && !isJSONType(given) || !found && !readsAsJSON(r.Body) {
		return plainPieces(r.Body), "", nil
	}
	return JSONPieces(r.Body), typeJSON, nil
}

// HasBody says whether the request has a body of its own.
func (r *Request) HasBody() bool { return r.Body != "" || len(r.Form) > 0 || len(r.Multipart) > 0 }

// ContentType is that of the request's header, if it says so.
func (r *Request) ContentType() (value string, found bool) {
	for name, value := range r.Header {
		if strings.EqualFold(name, "content-type") {
			return value, true
		}
	}
	return "", false
}

// isJSONType says whether a content type is JSON, or made of it: application/problem+json.
func isJSONType(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == typeJSON || media == "text/json" || strings.HasSuffix(media, "+json"))
}

// plainPieces are those of a text that values are put into as they are.
func plainPieces(text string) []Piece {
	var out []Piece
	for _, p := range SplitPlaceholders(text) {
		out = append(out, Piece{Placeholder: p})
	}
	return out
}

// JSONPieces are those of a JSON text: within its strings values are escaped, and
// elsewhere put in as they are, such as numbers.
func JSONPieces(text string) []Piece {
	out := plainPieces(text)
	within, escaped := false, false
	for i := range out {
		for _, c := range []byte(out[i].Before) {
			switch {
			case escaped:
				escaped = false
			case within && c == '\\':
				escaped = true
			case c == '"':
				within = !within
			}
		}
		if within && out[i].Name != "" {
			out[i].Escape = InJSONText
		}
	}
	return out
}

// TextPieces are those of a text that has no header, such as a message: as JSON if it
// reads as that.
func TextPieces(text string) []Piece {
	if readsAsJSON(text) {
		return JSONPieces(text)
	}
	return plainPieces(text)
}

// readsAsJSON says whether a text is a JSON object or list whatever its placeholders stand
// for, if what stands outside of strings is a value.
func readsAsJSON(text string) bool {
	var sample strings.Builder
	for _, p := range JSONPieces(text) {
		sample.WriteString(p.Before)
		if p.Name != "" {
			sample.WriteByte('0') // a number, or a digit of a string
		}
	}
	begin := strings.TrimLeft(sample.String(), " \t\r\n")
	return begin != "" && (begin[0] == '{' || begin[0] == '[') && json.Valid([]byte(begin))
}

// formPieces are the fields of a form, in the order of their names.
func (r *Request) formPieces() []Piece {
	var out []Piece
	before := ""
	for i, name := range slices.Sorted(maps.Keys(r.Form)) {
		if i > 0 {
			before += "&"
		}
		before += url.QueryEscape(name) + "="
		for _, p := range SplitPlaceholders(r.Form[name]) {
			before += url.QueryEscape(p.Before)
			if p.Name != "" {
				out = append(out, Piece{Placeholder{before, p.Name}, InForm})
				before = ""
			}
		}
	}
	return append(out, Piece{Placeholder: Placeholder{Before: before}})
}

// multipart are the parts of a form (RFC 7578).
func (r *Request) multipart(read func(path string) ([]byte, error)) (pieces []Piece, contentType string, err error) {
	contents := make([]string, len(r.Multipart))
	var errs []error
	boundary := fnv.New64a()
	for i := range r.Multipart {
		f := &r.Multipart[i]
		contents[i] = f.Value
		if f.File != "" {
			data, err := read(f.File)
			if err != nil {
				errs = append(errs, fmt.Errorf("field %q of the form: %w", f.Name, err))
			}
			contents[i] = string(data)
		}
		boundary.Write([]byte(f.Name + "\x00" + contents[i] + "\x00")) // a hash takes all
	}
	if len(errs) > 0 {
		return nil, "", errors.Join(errs...)
	}
	// By what is sent, so that the same load sends the same bytes, and until it is in none
	// of it. What a feed has is not looked at: it does not know these 64 bits.
	var mark string
	for n := boundary.Sum64(); ; n++ {
		mark = fmt.Sprintf("loadstone-%016x", n)
		if !slices.ContainsFunc(contents, func(c string) bool { return strings.Contains(c, mark) }) {
			break
		}
	}
	before := ""
	for i := range r.Multipart {
		before += "--" + mark + "\r\n" + r.Multipart[i].header()
		if r.Multipart[i].File != "" {
			before += contents[i] + "\r\n"
			continue
		}
		for _, p := range SplitPlaceholders(contents[i]) {
			before += p.Before
			if p.Name != "" {
				pieces = append(pieces, Piece{Placeholder: Placeholder{before, p.Name}})
				before = ""
			}
		}
		before += "\r\n"
	}
	pieces = append(pieces, Piece{Placeholder: Placeholder{Before: before + "--" + mark + "--\r\n"}})
	return pieces, "multipart/form-data; boundary=" + mark, nil
}

// header is what stands before a field's content.
func (f *FormField) header() string {
	quote := strings.NewReplacer(`"`, "%22", "\r", "%0D", "\n", "%0A").Replace // as browsers do
	line := `Content-Disposition: form-data; name="` + quote(f.Name) + `"`
	media := f.Type
	if f.File != "" {
		name := f.FileName
		if name == "" {
			name = filepath.Base(f.File)
		}
		line += `; filename="` + quote(name) + `"`
		if media == "" {
			media = mime.TypeByExtension(filepath.Ext(name))
		}
		if media == "" {
			media = "application/octet-stream"
		}
	}
	if media != "" {
		line += "\r\nContent-Type: " + textproto.TrimString(media)
	}
	return line + "\r\n\r\n"
}

// Append appends a value as it is written there.
func (e Escape) Append(dst, value []byte) []byte {
	switch e {
	case InJSONText:
		return appendJSON(dst, value)
	case InForm:
		return appendForm(dst, value)
	default:
		return append(dst, value...)
	}
}

// Length is how many bytes Append appends.
func (e Escape) Length(value []byte) int {
	n := len(value)
	switch e {
	case InJSONText:
		for _, c := range value {
			switch {
			case shortEscapes[c] != 0:
				n++
			case c < ' ':
				n += len(`\u0000`) - 1
			}
		}
	case InForm:
		for _, c := range value {
			if !unreserved(c) && c != ' ' {
				n += 2
			}
		}
	case AsItIs:
	}
	return n
}

// shortEscapes are the letters of JSON's escapes of two bytes, by what they stand for.
var shortEscapes = [256]byte{'"': '"', '\\': '\\', '\n': 'n', '\r': 'r', '\t': 't', '\b': 'b', '\f': 'f'}

const (
	lowerDigits = "0123456789abcdef"
	upperDigits = "0123456789ABCDEF"
)

// appendJSON appends a value to a JSON string. Bytes that are not UTF-8 stay as they are: a
// server is to see what the file has.
func appendJSON(dst, value []byte) []byte {
	for _, c := range value {
		switch {
		case shortEscapes[c] != 0:
			dst = append(dst, '\\', shortEscapes[c])
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', lowerDigits[c>>4], lowerDigits[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// appendForm appends a value to a form.
func appendForm(dst, value []byte) []byte {
	for _, c := range value {
		switch {
		case unreserved(c):
			dst = append(dst, c)
		case c == ' ':
			dst = append(dst, '+')
		default:
			dst = append(dst, '%', upperDigits[c>>4], upperDigits[c&15])
		}
	}
	return dst
}

// unreserved says whether a byte stands for itself in a form, as url.QueryEscape has it.
func unreserved(c byte) bool {
	return c < utf8.RuneSelf && ('a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || strings.IndexByte("-_.~", c) >= 0)
}
