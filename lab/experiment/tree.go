package experiment

import (
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"loadstone/block/spelling"
)

// Bounds on what aliases may expand to: an alias of aliases of aliases grows
// by powers, and every value is visited and indented.
const (
	maxValues = 50_000
	maxDepth  = 64
)

// kind is what a YAML value is.
type kind uint8

const (
	null kind = iota
	boolean
	integer
	number // with a fraction, infinite or not a number
	text
	list
	mapping
)

// node is one value of the file with its place: what the YAML library parsed,
// with aliases and merge keys resolved, so that nothing after it has to know
// about them. A node is shared where the file uses an alias, and never changed
// once built.
type node struct {
	kind      kind
	line, col int    // of the value, from 1
	text      string // a scalar as written, without its quotes
	quoted    bool
	tag       string // such as !reset; empty if there is none
	pairs     []pair // of a mapping, in order
	items     []*node

	size  int // values in it, itself and what aliases stand for included
	depth int // levels of nesting in it, 1 for a scalar
}

// pair is one key of a mapping, a scalar, and its value.
type pair struct{ key, value *node }

// pair returns the last of a path of keys and its value; ok is false if the path
// leads nowhere.
func (n *node) pair(path ...string) (last pair, ok bool) {
	for _, key := range path {
		i := slices.IndexFunc(n.pairs, func(p pair) bool { return p.key.text == key })
		if i < 0 {
			return pair{}, false
		}
		last, n = n.pairs[i], n.pairs[i].value
	}
	return last, len(path) > 0
}

// builder turns the library's tree into nodes. What cannot be used is recorded
// as an error and stands as null.
type builder struct {
	*decoder
	anchors map[string]*node
	tooBig  bool // said so already
}

func (b *builder) build(v ast.Node) *node {
	switch v := v.(type) {
	case *ast.MappingNode:
		return b.mapping(v.Values, v.GetToken(), v.IsFlowStyle)
	case *ast.MappingValueNode:
		return b.mapping([]*ast.MappingValueNode{v}, v.GetToken(), false)
	case *ast.SequenceNode:
		n := at(v.GetToken())
		n.kind = list
		for _, item := range v.Values {
			child := b.build(item)
			n.items = append(n.items, child)
			b.grow(n, child)
		}
		return n
	case *ast.TagNode:
		tagged := *b.build(v.Value) // a copy, because an alias may share it
		place := at(v.Start)
		tagged.tag, tagged.line, tagged.col = v.Start.Value, place.line, place.col
		return &tagged
	case *ast.AnchorNode:
		n := b.build(v.Value)
		b.anchors[v.Name.GetToken().Value] = n
		return n
	case *ast.AliasNode:
		name := v.Value.GetToken().Value
		if n, ok := b.anchors[name]; ok {
			return n
		}
		n := at(v.Start)
		b.errorf(n, "the alias *%s refers to nothing above it; write &%s before the value that it stands for", name, name)
		return n
	default:
		n := scalar(v)
		if n.kind == text && !n.quoted {
			b.plainText(n, v.GetToken())
		}
		return n
	}
}

// plainText refuses forms of unquoted text that the library reads as something
// else than they look like, or than other readers of YAML do.
func (b *builder) plainText(n *node, t *token.Token) {
	_, below, _ := strings.Cut(strings.TrimSpace(t.Origin), "\n")
	runsOver := false // into a list
	for line := range strings.Lines(below) {
		runsOver = runsOver || strings.HasPrefix(strings.TrimSpace(line)+" ", "- ")
	}
	if runsOver || strings.Contains(n.text, ": ") || strings.HasSuffix(n.text, ":") || strings.Contains(n.text, " #") {
		b.errorf(n, `the text %s runs on into what looks like a key or a list; indent that like the keys around it, or write the text in quotes`, spelling.Quote(n.text))
	}
	if strings.Contains(strings.TrimSpace(t.Origin), "\t") {
		b.errorf(n, "the text %s has a tab in it; write a space, or the text in quotes", spelling.Quote(n.text))
	}
}

// at returns an empty node in the place of a token.
func at(t *token.Token) *node {
	n := &node{size: 1, depth: 1, line: 1, col: 1}
	if t != nil && t.Position != nil {
		n.line, n.col = t.Position.Line, t.Position.Column
	}
	return n
}

func scalar(v ast.Node) *node {
	if v == nil {
		return at(nil)
	}
	n := at(v.GetToken())
	switch v := v.(type) {
	case *ast.NullNode:
		n.kind = null
	case *ast.BoolNode:
		n.kind, n.text = boolean, v.Token.Value
	case *ast.IntegerNode:
		n.kind, n.text = integer, v.Token.Value
	case *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		n.kind, n.text = number, v.GetToken().Value
	case *ast.StringNode:
		n.kind, n.text = text, v.Value
		n.quoted = v.Token.Type == token.SingleQuoteType || v.Token.Type == token.DoubleQuoteType
	case *ast.LiteralNode:
		n.kind, n.quoted = text, true
		if v.Value != nil {
			n.text = v.Value.Value
		}
	}
	return n
}

// grow counts child into n, and says so once where that is too much.
func (b *builder) grow(n, child *node) {
	n.size = min(n.size+child.size, maxValues+1)
	n.depth = min(max(n.depth, child.depth+1), maxDepth+1)
	if b.tooBig || n.size <= maxValues && n.depth <= maxDepth {
		return
	}
	b.tooBig = true
	b.errorf(child, "the file holds more than %d values or %d levels, aliases counted in full; write it flatter, with fewer aliases of aliases", maxValues, maxDepth)
}

// mapping builds a mapping from its entries. start is the place of its brace,
// if it is written in braces.
func (b *builder) mapping(entries []*ast.MappingValueNode, start *token.Token, flow bool) *node {
	n := at(start)
	n.kind = mapping
	if !flow && len(entries) > 0 {
		first := at(entries[0].Key.GetToken())
		n.line, n.col = first.line, first.col
	}
	var merged []pair // from merge keys: they yield to every key written here
	seen := make(map[string]int)
	for _, e := range entries {
		switch e.Key.(type) {
		case *ast.MergeKeyNode:
			merged = append(merged, b.mergeable(b.build(e.Value))...)
			continue
		case *ast.MappingKeyNode, *ast.AnchorNode, *ast.AliasNode, *ast.TagNode, *ast.LiteralNode:
			b.errorf(at(e.Key.GetToken()), "a key must be a plain word; write key: value")
			continue
		}
		key, value := scalar(e.Key), b.build(e.Value)
		if key.kind == null {
			key.text = "null"
		}
		if line, twice := seen[key.text]; twice {
			b.errorf(key, "the key %q is written twice, first in line %d; write it once", key.text, line)
			continue
		}
		seen[key.text] = key.line
		n.pairs = append(n.pairs, pair{key, value})
		b.grow(n, value)
	}
	for _, p := range merged {
		if _, own := seen[p.key.text]; own {
			continue
		}
		seen[p.key.text] = p.key.line
		n.pairs = append(n.pairs, p)
		b.grow(n, p.value)
	}
	return n
}

// mergeable returns the pairs that a merge key brings in: those of one
// mapping, or of several, of which the first that has a key wins.
func (b *builder) mergeable(n *node) []pair {
	switch n.kind {
	case mapping:
		return n.pairs
	case list:
		var pairs []pair
		for _, item := range n.items {
			if item.kind != mapping {
				b.errorf(item, "<< merges mappings, not %s; write <<: *name of a mapping", describe(item))
				return nil
			}
			pairs = append(pairs, item.pairs...)
		}
		return pairs
	default:
		b.errorf(n, "<< merges mappings, not %s; write <<: *name of a mapping", describe(n))
		return nil
	}
}
