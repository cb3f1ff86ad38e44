package result

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// sampleResult has a value in each field, two elements in each list, and a
// timeline as long as they get.
func sampleResult() *Result {
	r := &Result{}
	n := 0
	fill(reflect.ValueOf(r).Elem(), &n)
	r.Schema = Schema
	r.SLO[0].Threshold = "p(95)<200"
	for i := range r.Variants {
		t := &r.Variants[i].Timeline
		t.Seconds = slices.Repeat([]float64{0.25}, 1000)
		t.Rate = t.Seconds
		for j := range t.Series {
			t.Series[j].CPU = t.Seconds
		}
	}
	return r
}

func fill(v reflect.Value, n *int) {
	*n++
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Date(2026, 5, 9, 7, 29, 33, *n, time.UTC)))
			return
		}
		for _, field := range v.Fields() {
			fill(field, n)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		value := reflect.New(v.Type().Elem()).Elem()
		fill(value, n)
		v.SetMapIndex(reflect.ValueOf("timeout"), value)
	case reflect.String:
		v.SetString(fmt.Sprintf("text %d", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(400 + float64(*n)/64)
	case reflect.Int:
		v.SetInt(int64(*n))
	case reflect.Uint64:
		v.SetUint(uint64(*n))
	default:
		panic("no value for a " + v.Kind().String())
	}
}

func TestJSONComesBackAsItWas(t *testing.T) {
	t.Parallel()
	want := sampleResult()
	var b bytes.Buffer
	if err := WriteJSON(&b, want); err != nil {
		t.Fatalf("WriteJSON: %v", err)
	}
	got, err := ReadJSON(&b)
	if err != nil {
		t.Fatalf("ReadJSON: %v", err)
	}
	full := withLists(want)
	if !reflect.DeepEqual(*got, full) {
		t.Errorf("got a different result:\n%+v\nwant\n%+v", *got, full)
	}
}

func TestJSONIsReadable(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := WriteJSON(&b, sampleResult()); err != nil {
		t.Fatalf("WriteJSON: %v", err)
	}
	text := b.String()
	for _, want := range []string{`"threshold": "p(95)<200"`, `"per_trial": [4`, `"schema": "loadstone.result/1"`} {
		if !strings.Contains(text, want) {
			t.Errorf("result.json does not contain %s", want)
		}
	}
	if lines := strings.Count(text, "\n"); lines > 3000 {
		t.Errorf("got %d lines, want the timelines on one line each", lines)
	}
}

// A program that iterates over a list must not have to ask whether it is null.
func TestJSONHasNoNullLists(t *testing.T) {
	t.Parallel()
	r := &Result{Schema: Schema, Variants: []Variant{{Timeline: Timeline{Series: []TimelineSeries{{}}}}}}
	var b bytes.Buffer
	if err := WriteJSON(&b, r); err != nil {
		t.Fatalf("WriteJSON: %v", err)
	}
	if strings.Contains(b.String(), "null") {
		t.Errorf("got a null in\n%s", b.String())
	}
	if r.Variants[0].SLO != nil {
		t.Error("WriteJSON changed the caller's result")
	}
}

func TestWriteJSONRefuses(t *testing.T) {
	t.Parallel()
	unnamed := sampleResult()
	unnamed.Schema = ""
	infinite := sampleResult()
	infinite.Variants[1].Curve[1].P99 = math.Inf(1)
	absent := sampleResult()
	absent.Variants[1].Capacity.High = math.NaN()
	for name, c := range map[string]struct {
		result *Result
		want   string
	}{
		"no schema":       {unnamed, `its schema is "", want "loadstone.result/1"`},
		"infinite number": {infinite, "variants[1].curve[1].p99 is not a finite number"},
		"NaN by pointer":  {absent, "variants[1].capacity.high is not a finite number"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := WriteJSON(&bytes.Buffer{}, c.result)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

func TestReadJSONRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"nothing":          {"", "not a JSON object"},
		"a list":           {"[]", "not a JSON object"},
		"no schema":        {"{}", `it has no schema, want "loadstone.result/1"`},
		"another schema":   {`{"schema":"loadstone.result/2"}`, "loadstone report RUN"},
		"a wrong type":     {`{"schema":"loadstone.result/1","variants":[{"trials":"six"}]}`, "variants"},
		"a cut-off file":   {`{"schema":"loadstone.result/1","variants":[`, "read result"},
		"something behind": {`{"schema":"loadstone.result/1"} {}`, "read result"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := ReadJSON(strings.NewReader(c.text))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

func TestReadJSONSkipsUnknownFields(t *testing.T) {
	t.Parallel()
	got, err := ReadJSON(strings.NewReader(`{"schema":"loadstone.result/1","seed":7,"later":[1]}`))
	if err != nil {
		t.Fatalf("ReadJSON: %v", err)
	}
	if got.Seed != 7 {
		t.Errorf("got seed %d, want 7", got.Seed)
	}
}
