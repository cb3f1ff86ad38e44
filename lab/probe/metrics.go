package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Scrape is what one instance's Prometheus endpoint said at one moment.
type Scrape struct {
	At       time.Time `json:"t"`
	Instance string    `json:"n"`
	// Values are counters and gauges by their name with labels, as in the
	// exposition format; of histograms and summaries the sum and count.
	Values map[string]float64 `json:"v"`
}

// maxExposition bounds what is read of one scrape, in bytes. An endpoint that
// says more is cut off there and counts as a failure.
const maxExposition = 4 << 20

// scrapeTimeout bounds one scrape. An instance at its CPU limit answers late,
// but one that takes a second is of no use at four scrapes a second.
const scrapeTimeout = time.Second

// scrape reads url, an endpoint in the Prometheus text format.
func scrape(ctx context.Context, client *http.Client, url string) (map[string]float64, error) {
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

func addMetric(out map[string]float64, name string, m *dto.Metric) {
	labels := labelText(m.GetLabel())
	switch {
	case m.GetCounter() != nil:
		out[name+labels] = m.GetCounter().GetValue()
	case m.GetGauge() != nil:
		out[name+labels] = m.GetGauge().GetValue()
	case m.GetUntyped() != nil:
		out[name+labels] = m.GetUntyped().GetValue()
	case m.GetHistogram() != nil:
		out[name+"_sum"+labels] = m.GetHistogram().GetSampleSum()
		out[name+"_count"+labels] = float64(m.GetHistogram().GetSampleCount())
	case m.GetSummary() != nil:
		out[name+"_sum"+labels] = m.GetSummary().GetSampleSum()
		out[name+"_count"+labels] = float64(m.GetSummary().GetSampleCount())
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
