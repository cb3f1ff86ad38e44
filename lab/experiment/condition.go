package experiment

import "loadstone/lab/load"

// Conditions are conditions in the order of the file. All of them must hold.
type Conditions []Condition

// Condition is what a value must be: a text, number or boolean, one of a list of them, or
// not one of them.
type Condition struct {
	Name string
	// What the value must not be: one, or a list.
	Not []string `key:"not,need" eg:"''" least:"1" lone:"" scalar:"a text or a number"`

	is []string
}

// short reads what the value must be: one, or a list.
func (c *Condition) short(f field) bool {
	if f.n.kind == mapping {
		return false
	}
	values := []*node{f.n}
	if f.n.kind == list && len(f.n.items) > 0 {
		values = f.n.items
	}
	f.example = f.key + ": admin"
	f.key = f.nameOf(f.key)
	for _, n := range values {
		item := f.item(f.key, n)
		if item.given() {
			c.is = append(c.is, item.scalar("a text, a number, a list of some, or {not: …}"))
		}
	}
	return true
}

func (*Condition) shortSchema() *schema {
	return either(scalars(), &schema{Type: "array", Items: scalars(), MinItems: count64(1)})
}

// resolve returns the conditions as the load generator takes them.
func (all Conditions) resolve() []load.Condition {
	var out []load.Condition
	for i := range all {
		out = append(out, load.Condition{Value: all[i].Name, Is: all[i].is, Not: all[i].Not})
	}
	return out
}

func (c *Condition) prepare(s *section) {
	itself := hint{"write the value itself, as in {" + c.Name + ": admin}", "not"}
	s.hints = map[string]hint{"is": itself, "equals": itself, "eq": itself}
}
