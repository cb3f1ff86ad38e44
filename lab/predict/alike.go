package predict

import (
	"fmt"
	"slices"
	"strings"

	"loadstone/lab/experiment"
	"loadstone/lab/result"
)

// relatives are the variants of a run that differ from v in nothing but the
// replicas and CPU shares of services, v first. One with the same overlay is the
// same system again, and is left out.
func relatives(r *result.Result, v *result.Variant, name string) ([]*result.Variant, error) {
	exp, err := experiment.Parse(name, []byte(r.Source))
	if err != nil {
		return nil, fmt.Errorf("the experiment of run %s: %w", name, err)
	}
	out := []*result.Variant{v}
	own, err := overlayOf(exp, v.Name)
	if err != nil {
		return nil, fmt.Errorf("the experiment of run %s: %w", name, err)
	}
	for i := range r.Variants {
		o := &r.Variants[i]
		other, err := overlayOf(exp, o.Name)
		if err != nil {
			return nil, fmt.Errorf("the experiment of run %s: %w", name, err)
		}
		if !slices.Equal(own.leaves(always), other.leaves(always)) && slices.Equal(own.leaves(notSize), other.leaves(notSize)) {
			out = append(out, o)
		}
	}
	return out, nil
}

func always([]string) bool { return true }

// notSize says whether a path leads to something other than a service's size.
func notSize(path []string) bool {
	if len(path) < 4 || path[0] != "services" || path[2] != "deploy" {
		return true
	}
	at := strings.Join(path[3:], ".")
	return at != "replicas" && at != "resources.limits.cpus"
}

// leaves are the values of an override with their paths, as far as a path is to
// be kept, in an order that does not depend on that of the keys. A list's items
// are numbered.
func (o overlay) leaves(keep func(path []string) bool) []string {
	var out, path []string
	var indents []int
	for i, line := range o {
		text := strings.TrimLeft(line, " ")
		indent := len(line) - len(text)
		for len(indents) > 0 && indents[len(indents)-1] >= indent {
			indents, path = indents[:len(indents)-1], path[:len(path)-1]
		}
		key, value := splitKey(text)
		if strings.HasPrefix(text, "-") {
			key, value = fmt.Sprintf("#%d", i-o.begin(i, indent)), text
		}
		indents, path = append(indents, indent), append(path, strings.Trim(key, `"`))
		if value != "" && value != "{}" && keep(path) {
			out = append(out, strings.Join(path, "\x00")+"\x00"+value)
		}
	}
	slices.Sort(out)
	return out
}

// begin is the line of the list that the item at i is in.
func (o overlay) begin(i, indent int) int {
	for i > 0 && len(o[i-1])-len(strings.TrimLeft(o[i-1], " ")) >= indent {
		i--
	}
	return i
}
