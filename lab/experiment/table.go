package experiment

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"loadstone/block/spelling"
	"loadstone/lab/format"
)

// The format is written once, as Go structs. A field with a key is a key of the
// file: its doc comment is the description that an editor shows, its type says
// what is written, and its tags say the rest.
//
//	key      the name; with ",need" it must be there
//	eg       what to write, for errors
//	default  what is filled in where the key is not given
//	min max  the bounds of a number, a duration or a share
//	enum     the words that it can be, separated by |
//	form     the form of a text (see forms)
//	path     that it is the path of a file, and what that file holds
//	bare     that a rate can be without its unit, beside timeUnit
//	beside   the key without which it means nothing
//	scalar   that numbers and booleans are text here, as they are written
//	unit     what a number counts
//
// A list has in least and most how many items it takes, in list what it must be
// and in few why more are needed, in each what an item is called; with unique no
// two items are the same, and with lone one item can stand for the list. So has
// a mapping from names, with the form of the names in names; item is what to write
// for one, where that is not as in eg.
//
// Both the decoder (read) and the JSON Schema (generator) follow this table.
// What it cannot say is in methods of the types: see reader, shorthand, checker,
// describer and ruler.
type key struct {
	name    string
	example string // "name: my-experiment"
	goName  string
	need    bool
	tag     tag
	index   int
	typ     reflect.Type
}

// tag is what a field of the format says about itself.
type tag struct{ reflect.StructTag }

// words are the alternatives of an enum.
func (t tag) words() []string {
	if t.Get("enum") == "" {
		return nil
	}
	return strings.Split(t.Get("enum"), "|")
}

// has says whether something is there, be it empty.
func (t tag) has(name string) bool {
	_, ok := t.Lookup(name)
	return ok
}

// whole is a bound that is a whole number, or what holds without it.
func (t tag) whole(name string, otherwise int64) int64 {
	if n, err := strconv.ParseInt(t.Get(name), 10, 64); err == nil {
		return n
	}
	return otherwise
}

// number is a bound that is a number.
func (t tag) number(name string) float64 {
	n, _ := strconv.ParseFloat(t.Get(name), 64)
	return n
}

// shortest is the bound of a duration: 0s without one.
func (t tag) shortest() time.Duration {
	d, _ := time.ParseDuration(t.Get("min"))
	return d
}

// keysOf returns the keys of a struct.
func keysOf(t reflect.Type) []key {
	var keys []key
	for i := range t.NumField() {
		field := t.Field(i)
		name, option, _ := strings.Cut(field.Tag.Get("key"), ",")
		if name == "" {
			continue
		}
		keys = append(keys, key{
			name: name, example: name + ": " + field.Tag.Get("eg"), goName: field.Name,
			need: option == "need", tag: tag{field.Tag}, index: i, typ: field.Type,
		})
	}
	return keys
}

// reader is a type that reads its form in the file itself.
type reader interface{ read(f field) }

// shorthand is a struct that can be written in a shorter form. short says whether
// it was, and has read it or said what is wrong with it then; shortSchema is nil if
// every such form is wrong.
type shorthand interface {
	short(f field) bool
	shortSchema() *schema
}

// preparer is a struct of which not every key is read, or which says what to
// write instead of keys that it has not.
type preparer interface{ prepare(s *section) }

// checker is a struct that checks what its keys say together.
type checker interface{ check(s *section) }

// read reads the keys of a section into the struct that to points to.
func (s *section) read(to any) {
	v := reflect.ValueOf(to).Elem()
	keys := keysOf(v.Type())
	if p, ok := to.(preparer); ok {
		p.prepare(s)
	}
	if s.known == nil {
		s.known = s.names(keys)
	}
	for _, k := range keys {
		if s.skipped == nil || !s.skipped(k.name) {
			s.readKey(k, v.Field(k.index))
		}
	}
	s.refuseUnknown()
	if c, ok := to.(checker); ok {
		c.check(s)
	}
	s.reportMissing(keys)
}

// names returns the names of keys, those first that are read.
func (s *section) names(keys []key) []string {
	var read, skipped []string
	for _, k := range keys {
		if s.skipped != nil && s.skipped(k.name) {
			skipped = append(skipped, k.name)
		} else {
			read = append(read, k.name)
		}
	}
	return append(read, skipped...)
}

// readKey reads one key, or fills in its default.
func (s *section) readKey(k key, to reflect.Value) {
	f := s.field(k)
	_, asked := s.n.pair(k.tag.Get("beside"))
	if without, ok := k.tag.Lookup("default"); ok && (asked || !k.tag.has("beside")) {
		filled := f
		filled.n, filled.broken = &node{kind: kindOf(without), text: without}, false
		filled.into(to)
	}
	if f.n == nil && (k.need || slices.Contains(s.needs, k.name)) {
		s.lack(k.name, f.example)
	}
	before := len(s.errs)
	if f.given() {
		f.into(to)
	}
	f.sound = f.given() && len(s.errs) == before
	s.fields[k.name] = f
}

// fillIn fills in the defaults of a struct of which no key is given.
func fillIn(to any) {
	new(decoder).section(&node{kind: mapping}, &node{}, "", "").read(to)
}

// kindOf is what a default is as a YAML value.
func kindOf(scalar string) kind {
	switch {
	case scalar == "true" || scalar == "false":
		return boolean
	case wholeForm.MatchString(scalar):
		return integer
	case amountForm.MatchString(scalar):
		return number
	default:
		return text
	}
}

// into reads the value into one of a type that the format has.
func (f field) into(v reflect.Value) {
	switch to := v.Addr().Interface().(type) {
	case reader:
		to.read(f)
	case *time.Duration:
		*to = f.duration(f.tag.shortest())
	case *Rate:
		*to = f.rate()
	case *Share:
		*to = f.share()
	case *string:
		*to = f.string()
	case *bool:
		*to = f.boolean()
	case *float64:
		*to = f.factor()
	case *uint64:
		*to = f.unsigned()
	default:
		f.intoKind(v)
	}
}

// intoKind is into for what is made of other types.
func (f field) intoKind(v reflect.Value) {
	switch v.Kind() {
	case reflect.Int, reflect.Int64:
		v.SetInt(f.whole())
	case reflect.Pointer:
		to := reflect.New(v.Type().Elem())
		before := len(f.errs)
		if f.into(to.Elem()); len(f.errs) == before || f.n.kind == mapping {
			v.Set(to)
		}
	case reflect.Struct:
		f.structure(v.Addr().Interface(), cmp.Or(f.tag.Get("each"), f.key))
	case reflect.Slice:
		if f.tag.has("names") {
			f.named(v)
		} else {
			f.list(v)
		}
	case reflect.Map:
		f.named(v)
	default:
		panic("experiment: the format has no " + v.Type().String())
	}
}

// structure reads a mapping into the struct that to points to. what is what the
// mapping is called.
func (f field) structure(to any, what string) {
	if short, ok := to.(shorthand); f.broken || ok && short.short(f) {
		return
	}
	if s := f.section(f.n, f.place, what, f.example); s != nil {
		s.read(to)
	}
}

// list reads a list, or the one value that stands for it.
func (f field) list(v reflect.Value) {
	items := f.n.items
	if f.n.kind != list && f.tag.has("lone") {
		items = []*node{f.n}
	} else if !f.isList() {
		return
	}
	for i, n := range items {
		before := len(f.errs)
		item := f.item(f.key, n)
		if each := f.tag.Get("each"); each != "" {
			item.key = fmt.Sprintf(each, i+1)
		}
		to := reflect.New(v.Type().Elem()).Elem()
		if to.Kind() == reflect.Struct {
			item.place, item.example = n, strings.TrimSuffix(strings.TrimPrefix(f.example, f.key+": ["), "]")
			item.structure(to.Addr().Interface(), item.key)
			v.Set(reflect.Append(v, to)) // be it broken: items keep their numbers
			continue
		}
		if item.given() {
			item.into(to)
		}
		switch {
		case len(f.errs) > before:
		case f.tag.has("unique") && contains(v, to):
			f.errorf(n, "%s %s is written twice; write each %s once", f.noun(), n.text, f.noun())
		default:
			v.Set(reflect.Append(v, to))
		}
	}
}

// isList says whether the value is a list of as many items as it takes, and reports
// it if not.
func (f field) isList() bool {
	items, must := f.n.items, f.tag.Get("list")
	least, most := int(f.tag.whole("least", 0)), int(f.tag.whole("most", math.MaxInt))
	switch few := len(items) < least; {
	case f.n.kind == list && few && f.tag.has("few"):
		f.errorf(f.n, "%s has %s, and %s; write at least %d, such as %s", f.key, format.Plural(len(items), f.noun()), f.tag.Get("few"), least, f.example)
	case f.n.kind != list, few && must != "":
		f.wrong(cmp.Or(must, "a list"))
	case few:
		f.errorf(f.n, "%s is an empty list; write %s", f.key, f.example)
	case len(items) > most:
		f.errorf(items[most], "these are more than %d %ss; write fewer", most, f.noun())
	default:
		return true
	}
	return false
}

// contains says whether a list of scalars has one of them.
func contains(items, v reflect.Value) bool {
	for i := range items.Len() {
		if items.Index(i).Equal(v) {
			return true
		}
	}
	return false
}

// noun is what one item of a list is called: "fault" if each is "fault %d".
func (f field) noun() string {
	before, _, _ := strings.Cut(f.tag.Get("each"), " %")
	return before[strings.LastIndexByte(before, ' ')+1:]
}

// named reads a mapping from names: into a map, or into a list that keeps the
// order, whose items have their names in the field Name.
func (f field) named(v reflect.Value) {
	pairs, most := f.n.pairs, int(f.tag.whole("most", math.MaxInt))
	switch {
	case f.n.kind != mapping || len(pairs) == 0 && f.tag.has("least"):
		f.wrong(f.tag.Get("list"))
		return
	case len(pairs) > most:
		f.errorf(pairs[most].key, "these are more than %d %ss; write fewer", most, f.noun())
		return
	}
	if v.Kind() == reflect.Map {
		v.Set(reflect.MakeMap(v.Type()))
	}
	for _, p := range pairs {
		name := p.key.text
		forms[f.tag.Get("names")].check(f.decoder, p.key)
		item := f.item(name, p.value)
		item.place, item.example = p.key, f.exampleOf(name)
		to := reflect.New(v.Type().Elem()).Elem()
		if v.Kind() != reflect.Map {
			to.FieldByName("Name").SetString(name)
		}
		switch {
		case to.Kind() == reflect.Struct:
			item.structure(to.Addr().Interface(), f.nameOf(name))
		case item.given():
			item.into(to)
		}
		if v.Kind() == reflect.Map {
			v.SetMapIndex(reflect.ValueOf(name), to)
		} else {
			v.Set(reflect.Append(v, to))
		}
	}
}

// nameOf is what the value of a name is called: check "found".
func (f field) nameOf(name string) string {
	each := f.tag.Get("each")
	if strings.Contains(each, "%s") {
		return fmt.Sprintf(each, spelling.Quote(name))
	}
	return each
}

// exampleOf is what to write for a name: the example's first, by that name.
func (f field) exampleOf(name string) string {
	if item := f.tag.Get("item"); item != "" {
		return name + ": " + item
	}
	_, inner, _ := strings.Cut(f.example, "{")
	_, value, _ := strings.Cut(strings.TrimSuffix(inner, "}"), ": ")
	return name + ": " + value
}
