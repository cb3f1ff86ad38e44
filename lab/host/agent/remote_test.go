package agent

import (
	"encoding/json"
	"io"
	"net/rpc"
	"net/rpc/jsonrpc"
	"strings"
	"sync"
	"testing"
	"time"

	"loadstone/lab/host"
)

// lying is an agent that tells what a test has it tell.
type lying struct {
	ahead   time.Duration
	samples []host.Sample
}

func (*lying) Hello(_ struct{}, to *Hello) error {
	to.Wire = wire
	return nil
}

func (l *lying) Now(_ struct{}, to *time.Time) error {
	*to = time.Now().Add(l.ahead)
	return nil
}

func (*lying) Find(wanted []Wanted, to *[]Found) error {
	*to = make([]Found, len(wanted))
	return nil
}

func (*lying) Watch(time.Duration, *struct{}) error { return nil }

func (l *lying) Next(_ struct{}, to *host.Sample) error {
	if len(l.samples) == 0 {
		return io.EOF
	}
	*to, l.samples = l.samples[0], l.samples[1:]
	return nil
}

// connected is such an agent's other side, and has asked it for api-1.
func connected(t *testing.T, l *lying) *Remote {
	t.Helper()
	in, input := io.Pipe()
	output, out := io.Pipe()
	server := rpc.NewServer()
	if err := server.RegisterName(serviceName, l); err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		server.ServeCodec(jsonrpc.NewServerCodec(&connection{in: in, out: out, onEnd: func(error) {}}))
		_ = out.Close()
	}()
	r, err := Connect(t.Context(), "there", Link{In: input, Out: output, Kill: func() { _ = in.Close() }, Wait: func() error { <-served; return nil }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	if _, err := r.Find(t.Context(), []Wanted{{Name: "api-1"}}); err != nil {
		t.Fatal(err)
	}
	return r
}

// Whatever a node tells is held against what it was asked, so that nothing is kept that it makes up.
func TestSamplesThatCannotBe(t *testing.T) {
	t.Parallel()
	began := time.Now()
	at := func(ms int, names ...string) host.Sample {
		s := host.Sample{At: began.Add(time.Duration(ms) * time.Millisecond)}
		for _, name := range names {
			s.Instances = append(s.Instances, host.Instance{Name: name})
		}
		return s
	}
	short := at(1, "api-1")
	short.Slow = &host.Slow{}
	var many []host.Sample
	for i := range 12 {
		many = append(many, at(i, "api-1"))
	}
	for name, c := range map[string]struct {
		samples []host.Sample
		want    string
	}{
		"another name":       {[]host.Sample{at(0, "api-1"), at(1, "api-1", "api-2")}, `watch there: it tells of "api-2", for which it was not asked`},
		"a name twice":       {[]host.Sample{at(0, "api-1", "api-1")}, `it tells of "api-1", for which it was not asked, or twice`},
		"too few":            {[]host.Sample{at(0, "api-1"), short}, "it tells of 1 instances, and once a second of 0"},
		"a clock set back":   {[]host.Sample{at(0, "api-1"), at(100, "api-1"), at(-3600_000, "api-1")}, "a sample is of 1h0m0.1s before the one before it"},
		"another moment":     {[]host.Sample{at(0, "api-1"), at(3600_000, "api-1")}, "from now; was this machine suspended"},
		"too many":           {many, "it tells 12 samples of 11ms, and was asked for one every 1s"},
		"the same once more": {[]host.Sample{at(0, "api-1"), at(0, "api-1")}, "a sample is of 0s before the one before it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := 0
			err := connected(t, &lying{samples: c.samples}).Watch(t.Context(), time.Second, func(*host.Sample) error { n++; return nil })
			if err == nil || !strings.Contains(err.Error(), c.want) || n != len(c.samples)-1 {
				t.Errorf("got %v after %d samples, want %q", err, n, c.want)
			}
		})
	}
}

// Times of samples are this machine's, by the clock that nobody sets.
func TestTimesAreCountedFromOneMoment(t *testing.T) {
	t.Parallel()
	const ahead = time.Hour
	began := time.Now()
	sample := host.Sample{At: began.Add(ahead + time.Second), Instances: []host.Instance{{Name: "api-1"}}}
	r := connected(t, &lying{ahead: ahead, samples: []host.Sample{sample}})
	var got time.Time
	_ = r.Watch(t.Context(), time.Millisecond, func(s *host.Sample) error {
		got = s.At
		return io.EOF
	})
	if _, uncertain := r.Clock(); got.Sub(began.Add(time.Second)).Abs() > uncertain || !strings.Contains(got.String(), " m=+") {
		t.Errorf("got %v, want %v on the clock that is not set", got, began.Add(time.Second))
	}
	a := &agent{began: began}
	text, err := json.Marshal(a.at(began.Add(time.Minute)))
	want, _ := json.Marshal(began.Add(time.Minute))
	if err != nil || string(text) != string(want) {
		t.Errorf("got %s, %v, want %s", text, err, want)
	}
}

func TestAnAnswerIsBounded(t *testing.T) {
	t.Parallel()
	in, input := io.Pipe()
	output, out := io.Pipe()
	var ends sync.WaitGroup
	ends.Go(func() { _, _ = io.Copy(io.Discard, in) })
	ends.Go(func() { _, _ = io.WriteString(out, strings.Repeat("[", 2*mostInLine)) })
	_, err := Connect(t.Context(), "there", Link{In: input, Out: output, Kill: func() {}, Wait: func() error {
		_ = output.Close()
		ends.Wait()
		return nil
	}})
	if err == nil || !strings.Contains(err.Error(), "what comes is no line of JSON of at most 1048576 bytes") {
		t.Errorf("got %v", err)
	}
}
