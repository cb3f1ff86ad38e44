package agent

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"reflect"
	"strings"
	"time"

	"loadstone/lab/host"
	"loadstone/lab/host/cgroup"
)

// wire stands for the form of calls and answers. Of another one fields would be missing,
// which in JSON are as good as 0, and a lab would believe that.
var wire = wireOf(Hello{}, Wanted{}, Found{}, Change{}, Signal{}, cgroup.Signalled{}, host.Sample{}, time.Time{})

// mostInLine bounds what is sent at once: a thousand instances are half of it.
const mostInLine = 1 << 20

// errLine is something on the wire that is no call and no answer.
var errLine = errors.New("what comes is no line of JSON")

// lines hands on whole lines of JSON, each of which is a value. Whoever decodes values from a
// stream holds as much of one as comes, which is for the other side to say; and the other side is a node, or
// whoever is attached to a pod.
type lines struct {
	from *bufio.Scanner
	rest []byte // of the present one
}

func newLines(from io.Reader) *lines {
	s := bufio.NewScanner(from)
	s.Buffer(nil, mostInLine)
	return &lines{from: s}
}

func (l *lines) Read(p []byte) (int, error) {
	if len(l.rest) == 0 {
		switch ok := l.from.Scan(); {
		case errors.Is(l.from.Err(), bufio.ErrTooLong):
			return 0, fmt.Errorf("%w of at most %d bytes", errLine, mostInLine)
		case !ok && l.from.Err() != nil:
			return 0, l.from.Err()
		case !ok:
			return 0, io.EOF
		case !json.Valid(l.from.Bytes()):
			return 0, fmt.Errorf("%w: %.80q", errLine, l.from.Bytes())
		}
		l.rest = append(append(l.rest[:0], l.from.Bytes()...), '\n')
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// mostCalls bounds the calls that are under way. A lab waits for the next sample, beats, and asks of a few
// instances at a time; who writes more has to wait.
const mostCalls = 16

// bounded reads no more calls while mostCalls are under way: each of them takes memory, of which the pod
// of an agent has no limit.
type bounded struct {
	rpc.ServerCodec

	underWay chan struct{}
	over     <-chan struct{} // closed when no call is read any more
}

// ReadRequestHeader begins a call, to which there is one answer.
func (b *bounded) ReadRequestHeader(r *rpc.Request) error {
	select {
	case b.underWay <- struct{}{}:
		return b.ServerCodec.ReadRequestHeader(r)
	case <-b.over:
		return io.EOF
	}
}

// WriteResponse ends a call.
func (b *bounded) WriteResponse(r *rpc.Response, body any) error {
	defer func() { <-b.underWay }()
	return b.ServerCodec.WriteResponse(r, body)
}

func wireOf(all ...any) string {
	var b strings.Builder
	for _, v := range all {
		form(&b, reflect.TypeOf(v))
	}
	const enough = 8
	sum := sha256.Sum256([]byte(b.String()))
	return hex.EncodeToString(sum[:enough])
}

// form writes down a type by its fields. None of those on the wire contains itself.
func form(b *strings.Builder, t reflect.Type) {
	b.WriteString(t.Kind().String())
	switch t.Kind() {
	case reflect.Slice, reflect.Pointer, reflect.Array:
		form(b, t.Elem())
	case reflect.Map:
		form(b, t.Key())
		form(b, t.Elem())
	case reflect.Struct:
		for f := range t.Fields() {
			if f.IsExported() {
				b.WriteString(" " + f.Name + " " + f.Tag.Get("json") + " ")
				form(b, f.Type)
			}
		}
	default: // nothing is in it
	}
}
