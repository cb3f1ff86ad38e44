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
		own, err := overlayOf(exp, base)
		if err != nil {
			return "", nil, err
		}
		fmt.Fprintf(&b, "  %q:%s", base, nested(own))
	}
	for i, t := range ts {
		document, err := overlayOf(exp, t.Variant)
		if err != nil {
			return "", nil, err
		}
		for _, c := range t.Changes {
			path, value := c.key()
			if document, err = document.set(path, value, 0); err != nil {
				return "", nil, fmt.Errorf("%s: in the overlay of %s, %w", c, t.Variant, err)
			}
		}
		name := t.Variant + ".predicted"
		if len(ts) > 1 {
			name += "-" + strconv.Itoa(i+1)
		}
		names = append(names, name)
		fmt.Fprintf(&b, "  %q:%s", name, nested(document))
	}
	text, err = replaceVariants(string(exp.Source()), b.String())
	return text, names, err
}

func overlayOf(exp *experiment.Experiment, variant string) (overlay, error) {
	i := slices.IndexFunc(exp.Variants, func(v experiment.Variant) bool { return v.Name == variant })
	if i < 0 {
		return nil, fmt.Errorf("the experiment has no variant %q", variant)
	}
	return parseOverlay(string(exp.Variants[i].Overlay)), nil
}

// key is where a Compose file says what the change sets, and how.
func (c Change) key() (path []string, value string) {
	if c.Replicas != nil {
		return []string{"services", c.Service, "deploy", "replicas"}, strconv.Itoa(*c.Replicas)
	}
	return []string{"services", c.Service, "deploy", "resources", "limits", "cpus"}, strconv.Quote(strconv.FormatFloat(*c.CPUs, 'f', -1, 64))
}

// overlay is the lines of an override in the form that package experiment
// writes: a key to a line, two spaces to a level, "{}" for nothing.
type overlay []string

func parseOverlay(text string) overlay {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(lines) == 1 && strings.TrimSpace(lines[0]) == "{}" {
		return nil
	}
	return lines
}

// nested is an override as the value of a key of the second level.
func nested(o overlay) string {
	if len(o) == 0 {
		return " {}\n"
	}
	var b strings.Builder
	b.WriteByte('\n')
	for _, line := range o {
		b.WriteString("    " + line + "\n")
	}
	return b.String()
}

// set returns the override with a value at a path below level.
func (o overlay) set(path []string, value string, level int) (overlay, error) {
	indent := strings.Repeat("  ", level)
	at := slices.IndexFunc(o, func(line string) bool { return isKey(line, indent, path[0]) })
	if at < 0 {
		return append(slices.Clone(o), newKeys(path, value, level)...), nil
	}
	end := at + 1
	for end < len(o) && strings.HasPrefix(o[end], indent+" ") {
		end++
	}
	var inner overlay
	if len(path) == 1 {
		inner = overlay{indent + path[0] + ": " + value}
		return slices.Concat(o[:at], inner, o[end:]), nil
	}
	key, own := splitKey(o[at])
	if own != "" && own != "{}" {
		return nil, fmt.Errorf("%s is %s, which leaves no room for %s", path[0], own, strings.Join(path[1:], "."))
	}
	inner, err := o[at+1:end].set(path[1:], value, level+1)
	if err != nil {
		return nil, err
	}
	return slices.Concat(o[:at], overlay{key + ":"}, inner, o[end:]), nil
}

func newKeys(path []string, value string, level int) overlay {
	var out overlay
	for i, key := range path {
		line := strings.Repeat("  ", level+i) + key + ":"
		if i == len(path)-1 {
			line += " " + value
		}
		out = append(out, line)
	}
	return out
}

// isKey says whether a line has that key at that indentation, plain or in quotes.
func isKey(line, indent, key string) bool {
	text, ok := strings.CutPrefix(line, indent)
	return ok && (strings.HasPrefix(text, key+":") || strings.HasPrefix(text, strconv.Quote(key)+":"))
}

// splitKey takes a line apart into its key, with the indentation, and what
// follows on the line.
func splitKey(line string) (key, value string) {
	i := strings.LastIndex(line, ": ")
	if i < 0 {
		return strings.TrimSuffix(line, ":"), ""
	}
	return line[:i], strings.TrimSpace(line[i+2:])
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
		same, err := parseOverlay(string(v.Overlay)).set([]string{"services", service, "deploy", "replicas"}, "1", 0)
		if err != nil {
			return nil, fmt.Errorf("the overlay of %s: %w", v.Name, err)
		}
		key := strings.Join(same, "\n")
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
