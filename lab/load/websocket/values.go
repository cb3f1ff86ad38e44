package websocket

import (
	"bytes"
	"fmt"

	"loadstone/lab/load"
	"loadstone/lab/load/feed"
)

// template is a text with placeholders.
type template []piece

// piece is literal text and the placeholder that follows it.
type piece struct {
	literal string
	then    source
	column  feed.Column
	name    string
	seen    int // of what is recovered, which
	escape  load.Escape
	given   []byte
}

// source is where a placeholder's value comes from.
type source uint8

const (
	nothing source = iota
	ofFeed
	ofLogin
	ofRecovery
	ofSetup
	theID
)

// template compiles a text. own is the placeholder that is the message's id; "" for none.
func (g *Group) template(text, own string) (template, error) {
	var pieces []load.Piece
	for _, found := range load.SplitPlaceholders(text) {
		pieces = append(pieces, load.Piece{Placeholder: found})
	}
	return g.pieces(pieces, own)
}

// pieces compiles the pieces of a text.
func (g *Group) pieces(pieces []load.Piece, own string) (template, error) {
	var out template
	for _, found := range pieces {
		p := piece{literal: found.Before, name: found.Name, escape: found.Escape}
		switch column, fed := g.lookup(found.Name); {
		case found.Name == "":
		case found.Name == own:
			p.then = theID
		case fed:
			p.then, p.column = ofFeed, column
		case g.isGiven(found.Name):
			p.then, p.given = ofSetup, []byte(g.config.Given[found.Name])
		case g.extracts(found.Name):
			p.then = ofLogin
		case g.recovery.index(found.Name) >= 0:
			// It was cut out of the server's own text and is as it has to be.
			p.then, p.seen, p.escape = ofRecovery, g.recovery.index(found.Name), load.AsItIs
		case g.config.Feeds != nil:
			_, err := g.config.Feeds.Find(found.Name)
			return nil, err
		default:
			return nil, fmt.Errorf("the placeholder {%s} has no feed", found.Name)
		}
		out = append(out, p)
	}
	return out, nil
}

func (g *Group) lookup(name string) (feed.Column, bool) {
	if g.config.Feeds == nil || name == "" {
		return 0, false
	}
	return g.config.Feeds.Lookup(name)
}

func (g *Group) isGiven(name string) bool {
	_, ok := g.config.Given[name]
	return ok
}

func (g *Group) extracts(name string) bool {
	if g.config.Login == nil {
		return false
	}
	_, ok := g.config.Login.Extract[name]
	return ok
}

// values are what placeholders stand for while a client stays. They do not change.
type values struct {
	feeds *feed.Set
	at    feed.Position
	login map[string]string
	seen  [][]byte // when it connected; nil for nothing
}

// recovered are the same values for who comes back and has seen something.
func (v *values) recovered(seen [][]byte) *values {
	if seen == nil {
		return v
	}
	after := *v
	after.seen = make([][]byte, len(seen))
	for i := range seen {
		after.seen[i] = bytes.Clone(seen[i])
	}
	return &after
}

// valuesOf are a client's for its stay of a number, from 0. The first stay of each client has
// the values of the feeds' first rounds, in the order of the clients.
func (g *Group) valuesOf(client int, stay uint64, login map[string]string) *values {
	return &values{feeds: g.config.Feeds, login: login, at: feed.Position{
		Iteration: stay*uint64(g.config.Clients) + uint64(client), VU: client, Own: stay,
	}}
}

// append appends the value of a placeholder, escaped as the text that it is in requires.
func (v *values) append(dst []byte, p *piece) []byte {
	if p.escape == load.AsItIs {
		return v.raw(dst, p)
	}
	return p.escape.Append(dst, v.raw(nil, p))
}

// raw appends the value of a placeholder, as it is.
func (v *values) raw(dst []byte, p *piece) []byte {
	switch p.then {
	case ofFeed:
		return v.feeds.Append(dst, p.column, v.at)
	case ofSetup:
		return append(dst, p.given...)
	case ofLogin:
		return append(dst, v.login[p.name]...)
	case ofRecovery:
		if v.seen == nil {
			return dst
		}
		return append(dst, v.seen[p.seen]...)
	default:
		return dst
	}
}

// text is a template with its values, each escaped as its place in a request's head
// requires; nil for a body or a message.
func (v *values) text(t template, escape func(dst, value []byte) []byte) []byte {
	var out, value []byte
	for i := range t {
		out = append(out, t[i].literal...)
		if escape == nil {
			out = v.append(out, &t[i])
			continue
		}
		value = v.append(value[:0], &t[i])
		out = escape(out, value)
	}
	return out
}

// escapePath appends a value to a path or query, of which it stays one piece.
func escapePath(dst, value []byte) []byte {
	const digits = "0123456789ABCDEF"
	for _, c := range value {
		switch {
		case 'a' <= c|0x20 && c|0x20 <= 'z', '0' <= c && c <= '9', c == '-', c == '.', c == '_', c == '~', c == '/':
			dst = append(dst, c)
		default:
			dst = append(dst, '%', digits[c>>4], digits[c&15])
		}
	}
	return dst
}

// escapeHeader appends a value to a header, with a space for every control character: a
// value must not begin another header.
func escapeHeader(dst, value []byte) []byte {
	for _, c := range value {
		if c < ' ' && c != '\t' || c == 0x7f {
			c = ' '
		}
		dst = append(dst, c)
	}
	return dst
}
