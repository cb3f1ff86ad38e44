package result

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// MaxJSONBytes bounds what ReadJSON accepts. A result of twelve variants has
// about one MiB; the bound only keeps a wrong file from filling the memory.
const MaxJSONBytes = 64 << 20

// numberArray finds an array of numbers and nulls that json.Indent spread over lines. A
// string cannot match: JSON strings contain no line breaks.
var numberArray = regexp.MustCompile(`\[\n(?:\s*(?:null|-?[0-9][0-9.eE+-]*),?\n)+\s*\]`)

// WriteJSON writes r as indented JSON. Lists that are nil are written as empty
// lists, so that a reader can iterate over each of them. It fails if r has
// another Schema than this package's, or holds a number that JSON cannot
// carry; the error then names the field.
func WriteJSON(w io.Writer, r *Result) error {
	if r.Schema != Schema {
		return fmt.Errorf("write result: its schema is %q, want %q", r.Schema, Schema)
	}
	if path := notFinite(reflect.ValueOf(r).Elem(), ""); path != "" {
		return fmt.Errorf("write result: %s is not a finite number", path)
	}
	var compact, indented bytes.Buffer
	enc := json.NewEncoder(&compact)
	enc.SetEscapeHTML(false) // "p(95)<200" stays readable; this is a file, not a page
	full := withLists(r)
	if err := enc.Encode(&full); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	if err := json.Indent(&indented, compact.Bytes(), "", "  "); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	if _, err := w.Write(joinNumbers(indented.Bytes())); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}

// ReadJSON reads a Result that WriteJSON wrote. A missing or different schema
// is an error, as is anything after the result. Fields that this version does
// not know are skipped: a field that changes the meaning of others comes with
// a new Schema.
func ReadJSON(r io.Reader) (*Result, error) {
	limited := &io.LimitedReader{R: r, N: MaxJSONBytes + 1}
	data, err := io.ReadAll(limited)
	if err != nil {
		return nil, fmt.Errorf("read result: %w", err)
	}
	if len(data) > MaxJSONBytes {
		return nil, fmt.Errorf("read result: larger than %d MiB, so it is not a result", MaxJSONBytes>>20)
	}
	// The schema first: a stranger's file must not fail on some field's type.
	var head struct {
		Schema *string `json:"schema"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, fmt.Errorf("read result: not a JSON object with a schema: %w", err)
	}
	if head.Schema == nil {
		return nil, fmt.Errorf("read result: it has no schema, want %q", Schema)
	}
	if *head.Schema != Schema {
		return nil, fmt.Errorf("read result: its schema is %q, this version reads %q; derive it again with: loadstone report RUN",
			*head.Schema, Schema)
	}
	var result Result
	if err := json.Unmarshal(data, &result); err != nil {
		if typeError, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return nil, fmt.Errorf("read result: %s holds a %s: %w", typeError.Field, typeError.Value, err)
		}
		return nil, fmt.Errorf("read result: %w", err)
	}
	return &result, nil
}

// joinNumbers puts each array of numbers on one line: a timeline is 200 of
// them per instance, and one per line would bury everything else.
func joinNumbers(data []byte) []byte {
	return numberArray.ReplaceAllFunc(data, func(array []byte) []byte {
		fields := bytes.Fields(array)
		line := bytes.Join(fields[1:len(fields)-1], []byte(" "))
		return append(append([]byte("["), line...), ']')
	})
}

// withLists returns a copy of r in which no list is nil. It shares the
// elements that it need not change.
func withLists(r *Result) Result {
	c := *r
	c.SLO = list(c.SLO)
	c.Comparisons = list(c.Comparisons)
	c.Warnings = list(c.Warnings)
	c.Variants = append([]Variant{}, c.Variants...)
	for i := range c.Variants {
		v := &c.Variants[i]
		v.PerTrial = list(v.PerTrial)
		v.Figures = slices.Clone(v.Figures)
		for j := range v.Figures {
			v.Figures[j].Components = list(v.Figures[j].Components)
		}
		v.Components = list(v.Components)
		v.SLO = list(v.SLO)
		v.Warnings = list(v.Warnings)
		v.Curve = list(v.Curve)
		v.Verdict.Witnesses = list(v.Verdict.Witnesses)
		v.Timeline.Seconds = list(v.Timeline.Seconds)
		v.Timeline.Rate = list(v.Timeline.Rate)
		v.Timeline.Series = append([]TimelineSeries{}, v.Timeline.Series...)
		for j := range v.Timeline.Series {
			v.Timeline.Series[j].CPU = list(v.Timeline.Series[j].CPU)
		}
	}
	return c
}

func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// notFinite returns the JSON path of the first number that is NaN or infinite,
// or "". encoding/json refuses such a number without saying where it is.
func notFinite(v reflect.Value, path string) string {
	switch v.Kind() {
	case reflect.Float64:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			return strings.TrimPrefix(path, ".")
		}
	case reflect.Pointer:
		if !v.IsNil() {
			return notFinite(v.Elem(), path)
		}
	case reflect.Slice:
		for i := range v.Len() {
			if bad := notFinite(v.Index(i), fmt.Sprintf("%s[%d]", path, i)); bad != "" {
				return bad
			}
		}
	case reflect.Struct:
		for field, value := range v.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			switch {
			case name != "":
				name = path + "." + name
			case field.Anonymous:
				name = path // its fields are written beside the others
			default: // not ours: time.Time
				continue
			}
			if bad := notFinite(value, name); bad != "" {
				return bad
			}
		}
	}
	return ""
}
