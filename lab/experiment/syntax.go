package experiment

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

const (
	// maxSize bounds the file, in bytes, and maxTokens its words and signs. The
	// parser's time grows with the square of the keys in one mapping: within
	// these bounds the worst found takes a second. An experiment with every key
	// in it has 300 tokens.
	maxSize   = 128 << 10
	maxTokens = 20_000
	// maxBrackets bounds how deep brackets, and dashes of one line, may nest.
	maxBrackets = 48
)

// parse returns the value that the file holds, or nil after recording why
// there is none.
func (d *decoder) parse(data []byte) *node {
	start := &node{line: 1, col: 1}
	if len(data) > maxSize {
		d.errorf(start, "the file has more than %d KiB; write an experiment file, which has a few", maxSize>>10)
		return nil
	}
	if !utf8.Valid(data) {
		d.errorf(invalidUTF8(data), "the file is not UTF-8 text; save it as UTF-8")
		return nil
	}
	// The line break is for a tag at the end of the file, which the library
	// drops without one.
	tokens, doc, err := read(string(bytes.TrimPrefix(data, []byte("\ufeff"))) + "\n")
	if err != nil {
		n, message := explain(err)
		d.errorf(n, "%s", message)
		return nil
	}
	b := &builder{decoder: d, anchors: make(map[string]*node)}
	b.bareTags(tokens)
	var values []ast.Node
	for _, part := range doc.Docs {
		if _, directive := part.Body.(*ast.DirectiveNode); part.Body != nil && !directive {
			values = append(values, part.Body)
		}
	}
	switch len(values) {
	case 0:
		d.errorf(start, "the file is empty; write an experiment: the keys name, system, entry, variants, load, slo, measure and trials")
		return nil
	case 1:
		return b.build(values[0])
	default:
		d.errorf(b.build(values[1]), "the file holds %d documents; write one experiment to a file, without ---", len(values))
		return nil
	}
}

// read calls the YAML library and turns a panic of its into an error. Fuzzing
// finds none in this version; with the next one, too, a mistyped file must not
// end the program.
func read(source string) (tokens token.Tokens, doc *ast.File, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("parse YAML: %v", p)
		}
	}()
	tokens = lexer.Tokenize(source)
	if len(tokens) > maxTokens {
		return nil, nil, &yaml.SyntaxError{Message: "too much", Token: tokens[maxTokens]}
	}
	if t := tooDeep(tokens); t != nil {
		return nil, nil, &yaml.SyntaxError{Message: "too deep", Token: t}
	}
	doc, err = parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	return tokens, doc, err
}

// tooDeep returns the token at which brackets, or dashes and the like within
// one line, nest deeper than maxBrackets: the parser recurses on them.
func tooDeep(tokens token.Tokens) *token.Token {
	brackets, dashes, line := 0, 0, 0
	for _, t := range tokens {
		if t.Position.Line != line {
			line, dashes = t.Position.Line, 0
		}
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			brackets++
		case token.MappingEndType, token.SequenceEndType:
			brackets--
		case token.SequenceEntryType, token.MappingKeyType, token.AnchorType, token.TagType:
			dashes++
		default:
		}
		if brackets > maxBrackets || brackets == 0 && dashes > maxBrackets {
			return t
		}
	}
	return nil
}

// bareTags refuses a tag without a value, which the library reads as a tag of
// the line below, or drops at the end of the file.
func (b *builder) bareTags(tokens token.Tokens) {
	for i, t := range tokens {
		if t.Type != token.TagType {
			continue
		}
		parent, inList := t, false // what the tag's value has to stand right of
		if t.Prev != nil && t.Prev.Type == token.SequenceEntryType {
			parent, inList = t.Prev, true
		} else if t.Prev != nil && t.Prev.Type == token.MappingValueType && t.Prev.Prev != nil {
			parent = t.Prev.Prev
		}
		if next := following(tokens[i+1:]); next != nil {
			sameLine := next.Position.Line == t.Position.Line
			deeper := next.Position.Column > parent.Position.Column
			below := next.Position.Column == parent.Position.Column && !inList && next.Type == token.SequenceEntryType
			if sameLine || deeper || below {
				continue
			}
		}
		b.errorf(at(t), "the tag %s has no value; write %s null", t.Value, t.Value)
	}
}

// following returns the first token that is no comment, or nil.
func following(tokens token.Tokens) *token.Token {
	for _, t := range tokens {
		if t.Type != token.CommentType {
			return t
		}
	}
	return nil
}

// explain turns the library's error into a place and a sentence.
func explain(err error) (*node, string) {
	var syntax yaml.Error
	if !errors.As(err, &syntax) {
		return &node{line: 1, col: 1}, "this is not YAML; write keys and values as in name: my-experiment"
	}
	place, said := at(syntax.GetToken()), syntax.GetMessage()
	for _, e := range explanations {
		if strings.Contains(said, e.said) {
			return place, e.message
		}
	}
	return place, "this is not YAML (" + said + "); write key: value, and indent what belongs to a key by two spaces"
}

// explanations say what the library's messages mean to somebody who writes an
// experiment.
var explanations = []struct{ said, message string }{
	{"must be specified", `a comma or a closing bracket is missing here, or a value has { } [ ] or a comma in it; write such a value in quotes, as in "GET /student/{id}"`},
	{"mapping value is not allowed", `a key cannot stand here; indent it like the keys beside it, or write text that has ": " in it in quotes`},
	{"value is not allowed in this context", "this does not line up with the lines around it; indent it like the keys beside it"},
	{"found character '\\t'", "a tab cannot indent YAML; write spaces"},
	{"found character '\t'", "a tab cannot indent YAML; write spaces"},
	{"tab character", "a tab cannot stand here in YAML; write spaces"},
	{"end character of double-quoted", `this quote is never closed; write the closing "`},
	{"end character of single-quoted", "this quote is never closed; write the closing '"},
	{"end token '}'", "this bracket is never closed; write the closing }"},
	{"end token ']'", "this bracket is never closed; write the closing ]"},
	{"corresponding to '}'", "this bracket was never opened; remove it, or write the value in quotes"},
	{"corresponding to ']'", "this bracket was never opened; remove it, or write the value in quotes"},
	{"reserved character", "text cannot start with this character; write it in quotes"},
	{"unexpected directive", "text cannot start with %; write it in quotes"},
	{"sequence entries are not allowed", "a list cannot start on the line of its key; write each - on a line of its own"},
	{"undefined alias name", "an alias needs a name; write *name, or the text in quotes"},
	{"invalid key for this map", `a key within { } that has braces itself stands in quotes; write "http_req_duration{step:login}": [p(95)<200]`},
	{"unexpected key name", "this : has no key before it; write key: value"},
	{"too much", "this is more than an experiment takes; write less, or move what belongs to the system into its Compose file"},
	{"too deep", "this nests too deep; write it flatter"},
}

// invalidUTF8 returns the place of the first byte that is not UTF-8.
func invalidUTF8(data []byte) *node {
	n := &node{line: 1, col: 1}
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		if r == utf8.RuneError && size == 1 {
			return n
		}
		n.col++
		if r == '\n' {
			n.line, n.col = n.line+1, 1
		}
		data = data[size:]
	}
	return n
}
