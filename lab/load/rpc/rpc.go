// Package rpc turns the messages of gRPC's unary calls from JSON to what goes over the wire,
// and back. What they are made of is in .proto files, or is what a server says by
// reflection. So are those within a google.protobuf.Any, which names its message ("@type").
//
// It makes no calls but those of reflection, before a load: a call is an HTTP/2 request with
// a framed message, which the load generator sends like any other. JSON is protobuf's
// mapping (proto3 JSON): names in camel case, 64-bit numbers as texts.
package rpc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// ContentType is that of calls.
const ContentType = "application/grpc"

// Method is one unary method.
type Method struct {
	descriptor protoreflect.MethodDescriptor
	known      *types
}

// Method returns the method of a path such as shop.v1.Catalogue/GetItem.
func (s *Services) Method(path string) (*Method, error) {
	service, name, _ := strings.Cut(path, "/")
	found, known, err := s.find(protoreflect.FullName(service))
	if err != nil {
		return nil, fmt.Errorf("there is no service %s: %w", service, err)
	}
	described, ok := found.(protoreflect.ServiceDescriptor)
	if !ok {
		return nil, fmt.Errorf("%s is no service", service)
	}
	m := described.Methods().ByName(protoreflect.Name(name))
	switch {
	case m == nil:
		var known []string
		for i := range described.Methods().Len() {
			known = append(known, string(described.Methods().Get(i).Name()))
		}
		return nil, fmt.Errorf("the service %s has no method %q: it has %s", service, name, strings.Join(known, ", "))
	case m.IsStreamingClient() || m.IsStreamingServer():
		return nil, fmt.Errorf("%s is a stream, and a load makes unary calls", path)
	}
	return &Method{m, known}, nil
}

// prefix is how long the frame's head is: a flag, and the length.
const prefix = 5

// Encode appends a message, which is JSON, as it goes over the wire. Empty is the message
// without fields.
func (m *Method) Encode(dst, json []byte) ([]byte, error) {
	message := dynamicpb.NewMessage(m.descriptor.Input())
	if len(json) > 0 {
		if err := (protojson.UnmarshalOptions{Resolver: m.known}).Unmarshal(json, message); err != nil {
			return dst, MessageError{fmt.Errorf("the message of %s is not a %s: %w", m.descriptor.Name(), m.descriptor.Input().FullName(), err)}
		}
	}
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0, 0)
	dst, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(dst, message)
	if err != nil {
		return dst, MessageError{fmt.Errorf("the message of %s: %w", m.descriptor.Name(), err)}
	}
	binary.BigEndian.PutUint32(dst[at+1:], uint32(len(dst)-at-prefix))
	return dst, nil
}

// MessageError is a message that cannot be sent, or cannot be read.
type MessageError struct{ error }

// NewMessageError returns an error as one of a message.
func NewMessageError(err error) MessageError { return MessageError{err} }

// Unwrap returns what is wrong.
func (e MessageError) Unwrap() error { return e.error }

// Decode appends an answer's message as JSON.
func (m *Method) Decode(dst, frame []byte) ([]byte, error) {
	return m.decode(dst, frame, "answer", m.descriptor.Output())
}

// DecodeRequest appends a request's message as JSON.
func (m *Method) DecodeRequest(dst, frame []byte) ([]byte, error) {
	return m.decode(dst, frame, "request", m.descriptor.Input())
}

func (m *Method) decode(dst, frame []byte, what string, of protoreflect.MessageDescriptor) ([]byte, error) {
	switch {
	case len(frame) < prefix:
		return dst, MessageError{fmt.Errorf("the %s of %s has no message", what, m.descriptor.Name())}
	case frame[0] != 0:
		return dst, MessageError{fmt.Errorf("the %s of %s is compressed, which was not offered", what, m.descriptor.Name())}
	}
	length := binary.BigEndian.Uint32(frame[1:])
	if uint64(length) != uint64(len(frame)-prefix) {
		return dst, MessageError{fmt.Errorf("the %s of %s is %d bytes, and says it is %d", what, m.descriptor.Name(), len(frame)-prefix, length)}
	}
	message := dynamicpb.NewMessage(of)
	if err := proto.Unmarshal(frame[prefix:], message); err != nil {
		return dst, MessageError{fmt.Errorf("the %s of %s is no %s: %w", what, m.descriptor.Name(), of.FullName(), err)}
	}
	// Fields without a value too: 0 is a value to extract.
	out, err := protojson.MarshalOptions{EmitDefaultValues: true, Resolver: m.known}.MarshalAppend(dst, message)
	if err != nil {
		return dst, MessageError{fmt.Errorf("the %s of %s: %w", what, m.descriptor.Name(), err)}
	}
	return out, nil
}

// codes are gRPC's codes in their order, each with the HTTP status that it stands for, as
// google.rpc.Code has them.
var codes = [...]struct {
	name   string
	status int
}{
	{"OK", 200}, {"CANCELLED", 499}, {"UNKNOWN", 500}, {"INVALID_ARGUMENT", 400}, {"DEADLINE_EXCEEDED", 504}, {"NOT_FOUND", 404},
	{"ALREADY_EXISTS", 409}, {"PERMISSION_DENIED", 403}, {"RESOURCE_EXHAUSTED", 429}, {"FAILED_PRECONDITION", 400}, {"ABORTED", 409},
	{"OUT_OF_RANGE", 400}, {"UNIMPLEMENTED", 501}, {"INTERNAL", 500}, {"UNAVAILABLE", 503}, {"DATA_LOSS", 500}, {"UNAUTHENTICATED", 401},
}

// Status is the HTTP status that an answer stands for: that of its code if the server
// answered in gRPC. header and trailer are those of the answer, and status its own.
func Status(status int, header, trailer http.Header) (int, error) {
	if status != http.StatusOK {
		return status, nil // of a proxy, say
	}
	text := trailer.Get("Grpc-Status")
	if text == "" {
		text = header.Get("Grpc-Status") // an answer that is nothing but trailers
	}
	code, err := strconv.Atoi(text)
	if err != nil {
		return 0, errors.New("the answer has no grpc-status: it is not gRPC, or ended before its end")
	}
	if code < 0 || code >= len(codes) {
		return http.StatusInternalServerError, nil
	}
	return codes[code].status, nil
}

// Explain is what a server says of a call that failed, such as "NOT_FOUND: no such item";
// empty if it says nothing.
func Explain(header, trailer http.Header) string {
	for _, h := range []http.Header{trailer, header} {
		text := h.Get("Grpc-Status")
		if text == "" || text == "0" {
			continue
		}
		if code, err := strconv.Atoi(text); err == nil && code > 0 && code < len(codes) {
			text = codes[code].name
		}
		message := h.Get("Grpc-Message")
		if plain, err := url.PathUnescape(message); err == nil {
			message = plain
		}
		return strings.TrimSuffix(text+": "+message, ": ")
	}
	return ""
}

// Timeout writes how long a call may take as the header grpc-timeout has it: at most eight
// digits and a unit.
func Timeout(d time.Duration) string {
	const most = 1e8
	if us := d.Microseconds(); us < most {
		return strconv.FormatInt(max(us, 1), 10) + "u"
	}
	return strconv.FormatInt(min(d.Milliseconds(), most-1), 10) + "m"
}
