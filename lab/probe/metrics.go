package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Scrape is what one instance's Prometheus endpoint, or a Source, said at one moment.
type Scrape struct {
	At       time.Time `json:"t"`
	Instance string    `json:"n"`
	// Took is, of a Source, for how long it was asked until At, in nanoseconds: the
	// values are of a moment of that time.
	Took time.Duration `json:"d,omitempty"`
	// Whole says that the values are those of all instances of the service together: of a
	// Source that knows of them all, the others tell nothing.
	Whole bool `json:"w,omitempty"`
	// Values are counters and gauges by their name with labels, as in the
	// exposition format; of histograms and summaries the sum and count. NaN is what was
	// told and is no number, such as a gauge of something that has not happened yet: it
	// says nothing, but that a sum without it is not the whole.
	Values map[string]float64 `json:"v"`
}

// record is a Scrape as JSON, which has no NaN: Unknown are the names of what is.
type record struct {
	bare

	Unknown []string `json:"u,omitempty"`
}

// bare is a Scrape as JSON if all its values are numbers.
type bare Scrape

// MarshalJSON implements json.Marshaler.
func (s *Scrape) MarshalJSON() ([]byte, error) {
	r := record{bare: bare(*s)}
	for name, v := range s.Values {
		if math.IsNaN(v) {
			r.Unknown = append(r.Unknown, name)
		}
	}
	if len(r.Unknown) > 0 {
		slices.Sort(r.Unknown)
		r.Values = maps.Clone(s.Values)
		maps.DeleteFunc(r.Values, func(_ string, v float64) bool { return math.IsNaN(v) })
	}
	return json.Marshal(r)
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *Scrape) UnmarshalJSON(text []byte) error {
	var r record
	if err := json.Unmarshal(text, &r); err != nil {
		return err
	}
	if r.Values == nil && len(r.Unknown) > 0 {
		r.Values = make(map[string]float64, len(r.Unknown))
	}
	for _, name := range r.Unknown {
		r.Values[name] = math.NaN()
	}
	*s = Scrape(r.bare)
	return nil
}

// maxExposition bounds what is read of one scrape, in bytes. An endpoint that
// says more is cut off there and counts as a failure.
const maxExposition = 4 << 20

// scrapeTimeout bounds one scrape. An instance at its CPU limit answers late,
// but one that takes a second is of no use at four scrapes a second.
const scrapeTimeout = time.Second

// Fetch reads url, an endpoint in the Prometheus text format, once and within
// scrapeTimeout. Its values are as those of a Scrape.
func Fetch(ctx context.Context, client *http.Client, url string) (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, scrapeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // read only
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("scrape %s: status %d, want 200", url, resp.StatusCode)
	}
	return parse(io.LimitReader(resp.Body, maxExposition))
}

// parse reads the Prometheus text format.
func parse(r io.Reader) (map[string]float64, error) {
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(r)
	if err != nil {
		return nil, err
	}
	out := make(map[string]float64)
	for name, f := range families {
		for _, m := range f.GetMetric() {
			addMetric(out, name, m)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("no metrics in the answer")
	}
	return out, nil
}

// addMetric adds the values of a metric. Infinite is no number either.
func addMetric(out map[string]float64, name string, m *dto.Metric) {
	labels := labelText(m.GetLabel())
	put := func(name string, v float64) {
		if math.IsInf(v, 0) {
			v = math.NaN()
		}
		out[name+labels] = v
	}
	switch {
	case m.GetCounter() != nil:
		put(name, m.GetCounter().GetValue())
	case m.GetGauge() != nil:
		put(name, m.GetGauge().GetValue())
	case m.GetUntyped() != nil:
		put(name, m.GetUntyped().GetValue())
	case m.GetHistogram() != nil:
		put(name+"_sum", m.GetHistogram().GetSampleSum())
		put(name+"_count", float64(m.GetHistogram().GetSampleCount()))
	case m.GetSummary() != nil:
		put(name+"_sum", m.GetSummary().GetSampleSum())
		put(name+"_count", float64(m.GetSummary().GetSampleCount()))
	}
}

func labelText(labels []*dto.LabelPair) string {
	if len(labels) == 0 {
		return ""
	}
	parts := make([]string, len(labels))
	for i, l := range labels {
		parts[i] = fmt.Sprintf("%s=%q", l.GetName(), l.GetValue())
	}
	return "{" + strings.Join(parts, ",") + "}"
}
