package remotewrite

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// series is a time series with samples of it, the oldest first.
type series struct {
	labels  []label // sorted by name, as the protocol wants
	samples []sample
}

type label struct{ name, value string }

type sample struct {
	at    int64 // Unix time in milliseconds
	value float64
}

// staleNaN is the value that ends a series: Prometheus draws no line from the
// last sample on, where it would for another five minutes. It is the bits that
// count, as there are many numbers that are none.
//
// https://prometheus.io/docs/specs/prw/remote_write_spec/#stale-markers
var staleNaN = math.Float64frombits(0x7ff0000000000002)

// message is an encoded prometheus.WriteRequest. Its methods are those by which
// the client asks a message for its bytes.
type message []byte

// Size is the encoded length.
func (m message) Size() int { return len(m) }

// MarshalToSizedBuffer copies the encoded message to b, which has its size.
func (m message) MarshalToSizedBuffer(b []byte) (int, error) { return copy(b, m), nil }

// The field numbers of prometheus.WriteRequest and what it consists of.
//
// https://prometheus.io/docs/specs/prw/remote_write_spec/#protocol
const (
	requestSeries   = 1
	seriesLabels    = 1
	seriesSamples   = 2
	labelNameField  = 1
	labelValueField = 2
	sampleValue     = 1
	sampleTimestamp = 2
)

// encode makes a message of series. Series without samples are left out.
func encode(all []series) message {
	var m, one, part []byte
	for _, s := range all {
		if len(s.samples) == 0 {
			continue
		}
		one = one[:0]
		for _, l := range s.labels {
			part = protowire.AppendTag(part[:0], labelNameField, protowire.BytesType)
			part = protowire.AppendString(part, l.name)
			part = protowire.AppendTag(part, labelValueField, protowire.BytesType)
			part = protowire.AppendString(part, l.value)
			one = protowire.AppendTag(one, seriesLabels, protowire.BytesType)
			one = protowire.AppendBytes(one, part)
		}
		for _, v := range s.samples {
			part = protowire.AppendTag(part[:0], sampleValue, protowire.Fixed64Type)
			part = protowire.AppendFixed64(part, math.Float64bits(v.value))
			part = protowire.AppendTag(part, sampleTimestamp, protowire.VarintType)
			part = protowire.AppendVarint(part, uint64(v.at))
			one = protowire.AppendTag(one, seriesSamples, protowire.BytesType)
			one = protowire.AppendBytes(one, part)
		}
		m = protowire.AppendTag(m, requestSeries, protowire.BytesType)
		m = protowire.AppendBytes(m, one)
	}
	return m
}
