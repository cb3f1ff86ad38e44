package experiment

import (
	"reflect"
	"slices"
	"testing"
)

// TestTableIsSound reads what every key tells people to write, and every default:
// nothing of that may be wrong. Tags that nobody knows are mistyped ones.
func TestTableIsSound(t *testing.T) {
	t.Parallel()
	seen, known := 0, map[reflect.Type]bool{}
	var walk func(typ reflect.Type)
	walk = func(typ reflect.Type) {
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			walk(typ.Elem())
			return
		case reflect.Struct:
		default:
			return
		}
		if known[typ] {
			return // a group's steps are steps
		}
		known[typ] = true
		for _, k := range keysOf(typ) {
			seen++
			checkKey(t, typ.Name(), k)
			walk(k.typ)
		}
	}
	walk(reflect.TypeFor[Experiment]())
	walk(reflect.TypeFor[longThreshold]())
	if seen < 100 {
		t.Errorf("the table has %d keys, want all of the format", seen)
	}
}

func checkKey(t *testing.T, in string, k key) {
	t.Helper()
	for _, name := range []string{k.tag.Get("form"), k.tag.Get("names")} {
		if _, ok := forms[name]; name != "" && !ok {
			t.Errorf("%s.%s has the form %q, which there is not", in, k.goName, name)
		}
	}
	d := &decoder{shape: shape{rated: true}}
	root := d.parse([]byte(k.example))
	if root == nil || len(root.pairs) != 1 {
		t.Errorf("%s.%s has the example %q, which is no YAML: %v", in, k.goName, k.example, d.errs)
		return
	}
	f := field{decoder: d, key: k.name, example: k.example, tag: k.tag, n: root.pairs[0].value, place: root.pairs[0].key}
	f.into(reflect.New(k.typ).Elem())
	if without, ok := k.tag.Lookup("default"); ok {
		f.n = &node{kind: kindOf(without), text: without}
		f.into(reflect.New(k.typ).Elem())
	}
	if words := k.tag.words(); words != nil && k.tag.Get("default") != "" && !slices.Contains(words, k.tag.Get("default")) {
		t.Errorf("%s.%s has the default %q, which is none of %v", in, k.goName, k.tag.Get("default"), words)
	}
	if len(d.errs) > 0 {
		t.Errorf("%s.%s: what it tells to write is refused: %v", in, k.goName, d.errs)
	}
}
