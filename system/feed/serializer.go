package feed

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	goccy "github.com/goccy/go-json"
)

// Serializer is how values become JSON. All give the same bytes; they differ in what that
// costs.
type Serializer string

// The serializers, the fastest first.
const (
	// Append is generated from the types, see AppendJSON.
	Append Serializer = "append"
	// Goccy is github.com/goccy/go-json, the fastest library of docs/adr/019-a-library-for-json.md.
	Goccy Serializer = "goccy"
	// Standard is encoding/json.
	Standard Serializer = "json"
	// Maps makes maps of everything by reflection, and gives those to encoding/json: what
	// views made of partials do, which hold no types.
	Maps Serializer = "maps"
)

// Serializers are all, for people.
const Serializers = "append, goccy, json or maps"

// Check reports whether there is such a serializer.
func (s Serializer) Check() error {
	switch s {
	case Append, Goccy, Standard, Maps:
		return nil
	}
	return fmt.Errorf("serializer is %q: write %s", string(s), Serializers)
}

// Append appends the JSON of a value.
func (s Serializer) Append(dst []byte, v Value) ([]byte, error) {
	if s == Append {
		return v.AppendJSON(dst), nil
	}
	var text []byte
	var err error
	switch s {
	case Goccy:
		to := bytes.NewBuffer(dst)
		err = goccy.NewEncoder(to).Encode(v)
		dst = bytes.TrimSuffix(to.Bytes(), []byte{'\n'})
	case Maps:
		text, err = json.Marshal(mapped(reflect.ValueOf(v)))
	default:
		text, err = json.Marshal(v)
	}
	if err != nil {
		return dst, fmt.Errorf("write %T as JSON: %w", v, err)
	}
	return append(dst, text...), nil
}

// mapped is a value with maps in place of its structs.
func mapped(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Pointer:
		return mapped(v.Elem())
	case reflect.Struct:
		fields := make(map[string]any, v.NumField())
		for i := range v.NumField() {
			fields[v.Type().Field(i).Tag.Get("json")] = mapped(v.Field(i))
		}
		return fields
	case reflect.Slice:
		if v.IsNil() {
			return nil
		}
		list := make([]any, v.Len())
		for i := range list {
			list[i] = mapped(v.Index(i))
		}
		return list
	}
	return v.Interface()
}
