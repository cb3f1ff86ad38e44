package remotewrite

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/HdrHistogram/hdrhistogram-go"

	"loadstone/lab/load"
)

// receiver is a remote write server that keeps what it is sent.
type receiver struct {
	*httptest.Server

	// before is asked for each push, in order from 0. What is not 200 is
	// answered, and what was sent is forgotten.
	before func(push int, r *http.Request) int

	mu     sync.Mutex
	pushes int
	series map[string][]sample // by labels as Prometheus writes them
	faults []string            // in what was sent
}

func newReceiver(t *testing.T, before func(push int, r *http.Request) int) *receiver {
	t.Helper()
	r := &receiver{before: before, series: make(map[string][]sample)}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	r.mu.Lock()
	push := r.pushes
	r.pushes++
	r.mu.Unlock()
	if r.before != nil {
		if status := r.before(push, request); status != http.StatusOK {
			http.Error(w, "not now\x1b[2J", status)
			return
		}
	}
	body, err := io.ReadAll(request.Body)
	if err == nil {
		body, err = snappy.Decode(nil, body)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seef(err == nil, "a push cannot be read: %v", err)
	for name, want := range map[string]string{
		"Content-Type": "application/x-protobuf", "Content-Encoding": "snappy",
		"X-Prometheus-Remote-Write-Version": "0.1.0", "User-Agent": "loadstone",
	} {
		r.seef(request.Header.Get(name) == want, "%s is %q", name, request.Header.Get(name))
	}
	r.decode(body)
}

func (r *receiver) seef(good bool, format string, args ...any) {
	if !good {
		r.faults = append(r.faults, fmt.Sprintf(format, args...))
	}
}

// fields calls f for each field of a protobuf message, with the value as bytes
// or as a number.
func (r *receiver) fields(message []byte, f func(number protowire.Number, text []byte, value uint64)) {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n <= 0 {
			r.seef(false, "a broken tag")
			return
		}
		message = message[n:]
		var text []byte
		var value uint64
		switch kind {
		case protowire.BytesType:
			text, n = protowire.ConsumeBytes(message)
		case protowire.Fixed64Type:
			value, n = protowire.ConsumeFixed64(message)
		case protowire.VarintType:
			value, n = protowire.ConsumeVarint(message)
		default:
			n = -1
		}
		if n <= 0 {
			r.seef(false, "a broken field of type %d", kind)
			return
		}
		f(number, text, value)
		message = message[n:]
	}
}

// decode takes a prometheus.WriteRequest apart and looks whether it keeps the
// protocol's rules: sorted labels, samples in order and none twice.
func (r *receiver) decode(message []byte) {
	r.fields(message, func(_ protowire.Number, one []byte, _ uint64) {
		var labels, names []string
		var samples []sample
		r.fields(one, func(number protowire.Number, part []byte, _ uint64) {
			if number == 1 {
				var name, value string
				r.fields(part, func(number protowire.Number, text []byte, _ uint64) {
					if number == 1 {
						name = string(text)
					} else {
						value = string(text)
					}
				})
				names = append(names, name)
				labels = append(labels, fmt.Sprintf("%s=%q", name, value))
				return
			}
			var s sample
			r.fields(part, func(number protowire.Number, _ []byte, v uint64) {
				if number == 1 {
					s.value = math.Float64frombits(v)
				} else {
					s.at = int64(v)
				}
			})
			samples = append(samples, s)
		})
		key := strings.Join(labels, ",")
		r.seef(slices.IsSorted(names), "the labels are not sorted: %s", key)
		r.series[key] = append(r.series[key], samples...)
		for i, s := range r.series[key] {
			r.seef(i == 0 || r.series[key][i-1].at < s.at, "the samples of %s are not in order", key)
		}
	})
}

// values are a series' values in the order of arrival. A stale marker is -1.
func (r *receiver) values(t *testing.T, name string, more ...string) []float64 {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []float64
	matches := 0
	for key, samples := range r.series {
		if !strings.HasPrefix(key, fmt.Sprintf("__name__=%q,", name)) ||
			slices.ContainsFunc(more, func(m string) bool { return !strings.Contains(key, m) }) {
			continue
		}
		matches++
		for _, s := range samples {
			if math.Float64bits(s.value) == math.Float64bits(staleNaN) {
				s.value = -1
			}
			found = append(found, s.value)
		}
	}
	if matches > 1 {
		t.Errorf("%s %v: got %d series, want one", name, more, matches)
	}
	return found
}

func (r *receiver) wantNoFaults(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, fault := range r.faults {
		t.Error(fault)
	}
}

// windowAt is the second of a load with that number, from 0.
func windowAt(t *testing.T, second int, milliseconds ...int64) load.Window {
	t.Helper()
	h := load.NewHistogram()
	for _, ms := range milliseconds {
		if err := h.RecordValue(ms * 1000); err != nil {
			t.Fatal(err)
		}
	}
	text, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		t.Fatal(err)
	}
	return load.Window{
		Start: time.Date(2026, 5, 9, 7, 29, second, 0, time.UTC), Seconds: 1, Warmup: second == 0,
		Requests: uint64(len(milliseconds)), Failed: 1, Late: 2, Dropped: 3, InFlight: 4, Iterations: 5,
		Checks: 6, CheckFails: 1, Sent: 100, Received: 200, Busy: 0.25,
		Errors: map[string]uint64{"timeout": 1}, Response: string(text), Service: string(text),
	}
}
