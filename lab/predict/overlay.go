package predict

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"loadstone/lab/experiment"
)

// Experiment returns the text of an experiment that measures topologies beside
// the variants of exp that they change, each of these once, and the topologies'
// names in it. Everything else stays as it is in the file.
func Experiment(exp *experiment.Experiment, ts []Topology) (text string, names []string, err error) {
	var b strings.Builder
	b.WriteString("variants:\n")
	for _, base := range bases(ts) {
		own, err := variantOf(exp, base)
		if err != nil {
			return "", nil, err
		}
		fmt.Fprintf(&b, "  %q:%s", base, nested(own.Overlay))
	}
	for i, t := range ts {
		v, err := variantOf(exp, t.Variant)
		if err != nil {
			return "", nil, err
		}
		for _, c := range t.Changes {
			if v, err = c.apply(v); err != nil {
				return "", nil, fmt.Errorf("%s: in the overlay of %s, %w", c, t.Variant, err)
			}
		}
		name := t.Variant + ".predicted"
		if len(ts) > 1 {
			name += "-" + strconv.Itoa(i+1)
		}
		names = append(names, name)
		fmt.Fprintf(&b, "  %q:%s", name, nested(v.Overlay))
	}
	text, err = replaceVariants(string(exp.Source()), b.String())
	return text, names, err
}

func variantOf(exp *experiment.Experiment, name string) (experiment.Variant, error) {
	i := slices.IndexFunc(exp.Variants, func(v experiment.Variant) bool { return v.Name == name })
	if i < 0 {
		return experiment.Variant{}, fmt.Errorf("the experiment has no variant %q", name)
	}
	return exp.Variants[i], nil
}

// apply returns the variant after the change.
func (c Change) apply(v experiment.Variant) (experiment.Variant, error) {
	if c.Replicas != nil {
		return v.Sized(c.Service, experiment.Replicas, float64(*c.Replicas))
	}
	return v.Sized(c.Service, experiment.CPUs, *c.CPUs)
}

// nested is an overlay below the name of its variant.
func nested(overlay []byte) string {
	text := strings.TrimSuffix(string(overlay), "\n")
	if text == "{}" {
		return " {}\n"
	}
	return "\n    " + strings.ReplaceAll(text, "\n", "\n    ") + "\n"
}

// replaceVariants puts other variants into the text of an experiment file: in
// place of the first block that says which there are. A block is the lines from
// its key to the next key at the left margin.
func replaceVariants(source, variants string) (string, error) {
	var out strings.Builder
	within, done := false, false
	for _, line := range strings.SplitAfter(source, "\n") {
		if isTopKey(line) {
			within = strings.HasPrefix(line, "variants:") || strings.HasPrefix(line, "sweep:")
			if within && !done {
				out.WriteString(variants)
				done = true
			}
		}
		if !within {
			out.WriteString(line)
		}
	}
	if !done {
		return "", errors.New("the experiment file has no line that begins with variants: or sweep: write it in block form, a key to a line")
	}
	return out.String(), nil
}

// isTopKey says whether a line begins a key of the file's first level.
func isTopKey(line string) bool {
	if line == "" {
		return false
	}
	c := line[0] | 0x20
	return (c >= 'a' && c <= 'z' || line[0] == '"' || line[0] == '\'') && strings.Contains(line, ":")
}

// Alike returns the variants that differ in nothing but the replicas of one
// service, the largest such group, in the order of the file. The error is one
// sentence.
func Alike(exp *experiment.Experiment, service string) ([]string, error) {
	groups := make(map[string][]string)
	var best []string
	for _, v := range exp.Variants {
		same, err := v.Sized(service, experiment.Replicas, 1)
		if err != nil {
			return nil, fmt.Errorf("the overlay of %s: %w", v.Name, err)
		}
		key := string(same.Overlay)
		groups[key] = append(groups[key], v.Name)
		if len(groups[key]) > len(best) {
			best = groups[key]
		}
	}
	if len(best) < 2 {
		return nil, fmt.Errorf("no two variants differ in nothing but the replicas of %s", service)
	}
	return best, nil
}
