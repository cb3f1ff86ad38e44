package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"loadstone/lab/loadpage/pagetest"
	"loadstone/lab/result"
)

type brokenWriter struct{ err error }

func (b brokenWriter) Write([]byte) (int, error) { return 0, b.err }

func TestWritersPassTheErrorOn(t *testing.T) {
	t.Parallel()
	full := errors.New("disk full")
	w := brokenWriter{full}
	for name, err := range map[string]error{
		"WriteJSON": result.WriteJSON(w, sampleResult()),
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
	small.Variants[0].Timeline = result.Timeline{Seconds: []float64{0, 1}, Rate: []float64{1, 2}, Series: []result.TimelineSeries{{Name: "api-1", CPU: []float64{1, 2}}}}
	if err := result.WriteJSON(&b, small); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte(`{"schema":"loadstone.result/1"}`))
	f.Add([]byte(`{"schema":"loadstone.result/1","variants":[{"name":"a\u0000<b>","capacity":{"value":1e308,"low":-1e308,"high":5e-324,"confidence":1},"curve":[{"rate":-1,"p50":1e-300}],"timeline":{"seconds":[1e308,-1e308,0],"rate":[1],"series":[{"cpu":[1e308,-5]}]}}],"comparisons":[{"variant":"a","ratio":1e300,"low":0.1,"high":2,"confidence":0.5}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := result.ReadJSON(bytes.NewReader(data))
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := result.WriteJSON(&out, r); err != nil {
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
