package experiment

import (
	"slices"
	"strings"

	"loadstone/block/spelling"
)

// section is one mapping of the file while it is read into a struct (see read).
type section struct {
	*decoder
	n     *node
	place *node  // where a missing key is reported
	what  string // "the experiment"
	known []string
	// fields are the values of the keys that were read.
	fields map[string]field

	// skipped keys are known and not read.
	skipped func(key string) bool
	// needs are keys that must be there beside those whose tag says so.
	needs []string
	// refuses says why a key cannot stand here; "" for a key that nobody knows.
	refuses func(key string) string
	hints   map[string]hint // by key that is not ours
	// examples replaces what suits the section better in the examples of its keys.
	examples *strings.Replacer

	missing map[string]string // what to write for a key that must be there
	meant   map[string]bool   // keys that a wrong one was meant to be
}

// hint says what to write instead of a key, and for which key of ours it stands.
type hint struct{ instead, means string }

// section returns nil, after recording an error, if n is no mapping. example
// is what to write instead.
func (d *decoder) section(n, place *node, what, example string) *section {
	if !d.plain(n) {
		return nil
	}
	if n.kind != mapping {
		d.errorf(n, "%s must have keys, not %s; write %s", what, describe(n), example)
		return nil
	}
	return &section{
		decoder: d, n: n, place: place, what: what,
		fields: make(map[string]field), missing: make(map[string]string), meant: make(map[string]bool),
	}
}

// field returns the value of a key; without a value if it is not there.
func (s *section) field(k key) field {
	f := field{decoder: s.decoder, key: k.name, example: k.example, tag: k.tag}
	if s.examples != nil {
		f.example = s.examples.Replace(f.example)
	}
	if p, ok := s.n.pair(k.name); ok {
		f.n, f.place, f.broken = p.value, p.key, !s.plain(p.value)
	}
	return f
}

// has says whether a key is there.
func (s *section) has(key string) bool {
	_, ok := s.n.pair(key)
	return ok
}

// given returns those of some keys that are there.
func (s *section) given(keys ...string) []field {
	var out []field
	for _, key := range keys {
		if f := s.fields[key]; f.n != nil {
			out = append(out, f)
		}
	}
	return out
}

// lack reports a key as missing, unless a misspelt form of it was reported.
func (s *section) lack(key, example string) { s.missing[key] = example }

// refuseUnknown refuses every key that is not known.
func (s *section) refuseUnknown() {
	for _, p := range s.n.pairs {
		key := p.key.text
		if slices.Contains(s.known, key) {
			continue
		}
		if s.refuses != nil {
			if why := s.refuses(key); why != "" {
				s.errorf(p.key, "%s", why)
				continue
			}
		}
		instead := spelling.Choose(key, s.known)
		if h, ok := s.hints[key]; ok {
			instead = h.instead
			s.meant[h.means] = true
		} else if near, ok := spelling.Nearest(key, s.known); ok {
			s.meant[near] = true
		}
		s.errorf(p.key, "%s has no key %s; %s", s.what, spelling.Quote(key), instead)
	}
}

// reportMissing reports the keys that are missing in the order of the format, but
// for those of which a misspelt form was reported.
func (s *section) reportMissing(keys []key) {
	for _, k := range keys {
		if example, ok := s.missing[k.name]; ok && !s.meant[k.name] {
			s.errorf(s.place, "%s has no %s; write %s", s.what, k.name, example)
		}
	}
}

// field is one value of the file while it is read: that of a key, or an item of
// a list. Without a value (n is nil) or with a broken one its methods return
// zero and report nothing: somebody has.
type field struct {
	*decoder
	key     string
	example string
	tag     tag
	n       *node
	place   *node // of the key
	broken  bool
	sound   bool // it was read without an error
}

// given says whether there is a value to read.
func (f field) given() bool { return f.n != nil && !f.broken }

// wrong reports that the value is not what it must be.
func (f field) wrong(want string) {
	f.errorf(f.n, "%s must be %s, not %s; write %s", f.key, want, describe(f.n), f.example)
}

// item is the field of one item of a list, with the same tags.
func (f field) item(key string, n *node) field {
	f.key, f.n, f.broken = key, n, !f.plain(n)
	return f
}
