package importer

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"github.com/getkin/kin-openapi/openapi3"
)

// maxDepth bounds what is made of a schema that refers to itself.
const maxDepth = 8

// stated is the value that a schema states by itself: its example, the only or the first
// one that it allows, or its default; nil if it states none.
func stated(s *openapi3.Schema) any {
	for _, given := range slices.Concat([]any{s.Example}, s.Examples, []any{s.Const, s.Default}, s.Enum) {
		if given != nil {
			return given
		}
	}
	return nil
}

// sample makes a value of a schema: what it states, or else the least that it may be.
func (a *api) sample(s *openapi3.Schema, depth int) any {
	if given := stated(s); given != nil || depth > maxDepth {
		return given
	}
	for _, one := range slices.Concat(s.OneOf, s.AnyOf) {
		if one.Value != nil && !one.Value.Type.Is("null") {
			return a.sample(one.Value, depth+1)
		}
	}
	switch {
	case s.Type.Includes("object") || len(s.Properties) > 0 || len(s.AllOf) > 0:
		return a.object(s, depth)
	case s.Type.Includes("array"):
		return a.list(s, depth)
	case s.Type.Includes("integer"), s.Type.Includes("number"):
		if s.Min != nil {
			return *s.Min
		}
		return 1
	case s.Type.Includes("boolean"):
		return true
	default:
		return text(s)
	}
}

// list makes a list of as many items as there must be, and of one at least.
func (a *api) list(s *openapi3.Schema, depth int) []any {
	items := []any{}
	if s.Items != nil && s.Items.Value != nil {
		for range max(1, s.MinItems) {
			items = append(items, a.sample(s.Items.Value, depth+1))
		}
	}
	return items
}

// object makes an object: what it must have, and what states a value by itself.
func (a *api) object(s *openapi3.Schema, depth int) map[string]any {
	out := map[string]any{}
	for _, part := range s.AllOf {
		if part.Value == nil {
			continue
		}
		if fields, ok := a.sample(part.Value, depth+1).(map[string]any); ok {
			maps.Copy(out, fields)
		}
	}
	for _, name := range sortedKeys(s.Properties) {
		p := s.Properties[name].Value
		if p == nil || p.ReadOnly || !slices.Contains(s.Required, name) && stated(p) == nil {
			continue
		}
		out[name] = a.sample(p, depth+1)
	}
	return out
}

// samples are texts of which one may be what a format or a pattern asks for.
var samples = map[string]string{
	"date": "2025-08-14", "date-time": "2025-08-14T08:00:00Z", "time": "08:00:00Z", "duration": "PT1M",
	"email": "ada@example.org", "uuid": "6929bb52-3ab2-448a-9796-d6480ecad36b", "uri": "https://example.org/", "url": "https://example.org/",
	"hostname": "example.org", "ipv4": "192.0.2.1", "ipv6": "2001:db8::1", "byte": "QQ==",
}

// text makes a text of a schema.
func text(s *openapi3.Schema) string {
	if t, ok := samples[s.Format]; ok {
		return t
	}
	const plain = "example"
	candidates := append([]string{plain, "1", "1000", "a", "A", "ab", "AB12", "a-1"}, slices.Sorted(maps.Values(samples))...)
	if pattern, err := regexp.Compile(s.Pattern); err == nil && s.Pattern != "" {
		for _, c := range candidates {
			if pattern.MatchString(c) && fits(s, c) {
				return c
			}
		}
	}
	out := plain
	for uint64(len(out)) < s.MinLength && len(out) < 1000 {
		out += plain
	}
	if s.MaxLength != nil && uint64(len(out)) > *s.MaxLength {
		out = out[:*s.MaxLength]
	}
	return out
}

func fits(s *openapi3.Schema, text string) bool {
	return uint64(len(text)) >= s.MinLength && (s.MaxLength == nil || uint64(len(text)) <= *s.MaxLength)
}

// numbersMatch says whether a pattern is one of numbers.
func numbersMatch(pattern string) bool {
	p, err := regexp.Compile(pattern)
	return pattern != "" && err == nil && p.MatchString("1") && p.MatchString("1000") && !p.MatchString("a")
}

// plain is a value as it stands in a path or a form.
func plain(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case map[string]any, []any:
		if encoded, err := json.Marshal(v); err == nil {
			return string(encoded)
		}
	}
	return fmt.Sprint(v)
}

func sortedKeys[M ~map[K]V, K cmp.Ordered, V any](m M) []K { return slices.Sorted(maps.Keys(m)) }
