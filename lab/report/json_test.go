package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"loadstone/lab/loadpage/pagetest"
)

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
	infinite.Variants[2].Curve[5].P99 = math.Inf(1)
	absent := sampleResult()
	absent.Variants[1].Capacity.High = math.NaN()
	for name, c := range map[string]struct {
		result *Result
		want   string
	}{
		"no schema":       {unnamed, `its schema is "", want "loadstone.result/1"`},
		"infinite number": {infinite, "variants[2].curve[5].p99 is not a finite number"},
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

type brokenWriter struct{ err error }

func (b brokenWriter) Write([]byte) (int, error) { return 0, b.err }

func TestWritersPassTheErrorOn(t *testing.T) {
	t.Parallel()
	full := errors.New("disk full")
	w := brokenWriter{full}
	for name, err := range map[string]error{
		"WriteJSON": WriteJSON(w, sampleResult()),
		"Text":      Text(w, sampleResult(), Options{Width: 80}),
		"HTML":      HTML(w, sampleResult()),
	} {
		if !errors.Is(err, full) {
			t.Errorf("%s: got %v, want %v", name, err, full)
		}
	}
}

// FuzzReadJSON also shows each result that is read: whatever a result.json
// holds, showing it must neither panic nor break the page.
func FuzzReadJSON(f *testing.F) {
	var b bytes.Buffer
	small := sampleResult()
	small.Variants = small.Variants[:1]
	small.Variants[0].Curve = small.Variants[0].Curve[:3]
	small.Variants[0].Timeline = Timeline{Seconds: []float64{0, 1}, Rate: []float64{1, 2}, Series: []TimelineSeries{{Name: "api-1", CPU: []float64{1, 2}}}}
	if err := WriteJSON(&b, small); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte(`{"schema":"loadstone.result/1"}`))
	f.Add([]byte(`{"schema":"loadstone.result/1","variants":[{"name":"a\u0000<b>","capacity":{"value":1e308,"low":-1e308,"high":5e-324,"confidence":1},"curve":[{"rate":-1,"p50":1e-300}],"timeline":{"seconds":[1e308,-1e308,0],"rate":[1],"series":[{"cpu":[1e308,-5]}]}}],"comparisons":[{"variant":"a","ratio":1e300,"low":0.1,"high":2,"confidence":0.5}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := ReadJSON(bytes.NewReader(data))
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := WriteJSON(&out, r); err != nil {
			t.Fatalf("a result that was read cannot be written: %v", err)
		}
		if !json.Valid(out.Bytes()) {
			t.Fatal("wrote invalid JSON")
		}
		if err := Text(&bytes.Buffer{}, r, Options{Width: 80}); err != nil {
			t.Fatalf("Text: %v", err)
		}
		var page bytes.Buffer
		if err := HTML(&page, r); err != nil {
			t.Fatalf("HTML: %v", err)
		}
		pagetest.Parse(t, page.String())
	})
}
