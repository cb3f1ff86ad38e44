package predict

import (
	"fmt"
	"slices"
	"strings"

	"loadstone/lab/experiment"
	"loadstone/lab/result"
)

// relatives are the variants of a run that differ from v in nothing but the
// replicas and CPU shares of services, v first. One with the same overlay as another is
// the same system again, and is left out.
func relatives(r *result.Result, v *result.Variant, name string) ([]*result.Variant, error) {
	exp, err := experiment.Parse(name, []byte(r.Source))
	if err != nil {
		return nil, fmt.Errorf("the experiment of run %s: %w", name, err)
	}
	out := []*result.Variant{v}
	own, err := variantOf(exp, v.Name)
	if err != nil {
		return nil, fmt.Errorf("the experiment of run %s: %w", name, err)
	}
	kept := []experiment.Variant{own}
	for i := range r.Variants {
		o := &r.Variants[i]
		other, err := variantOf(exp, o.Name)
		if err != nil {
			return nil, fmt.Errorf("the experiment of run %s: %w", name, err)
		}
		again := func(k experiment.Variant) bool { return same(k, other, func([]string) bool { return false }) }
		if same(own, other, isSize) && !slices.ContainsFunc(kept, again) {
			out, kept = append(out, o), append(kept, other)
		}
	}
	return out, nil
}

// same says whether two variants set the same, but for what leaveOut says of a path.
func same(a, b experiment.Variant, leaveOut func(path []string) bool) bool {
	sorted := func(v experiment.Variant) []string {
		var out []string
		for _, s := range v.Settings() {
			if !leaveOut(s.Path) {
				out = append(out, strings.Join(s.Path, "\x00")+"\x00"+s.Value)
			}
		}
		slices.Sort(out)
		return out
	}
	return slices.Equal(sorted(a), sorted(b))
}

// isSize says whether a path leads to a service's size.
func isSize(path []string) bool {
	if len(path) < 4 || path[0] != "services" || path[2] != "deploy" {
		return false
	}
	at := strings.Join(path[3:], ".")
	return at == "replicas" || at == "resources.limits.cpus"
}
