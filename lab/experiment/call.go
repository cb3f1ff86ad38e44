package experiment

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"loadstone/lab/load"
	"loadstone/lab/load/rpc"
)

// Call is a unary call of gRPC.
type Call struct {
	// The full name of the method: package.Service/Method.
	Method string `key:"method,need" eg:"shop.v1.Catalogue/GetItem" form:"rpc"`
	// The message as JSON, in protobuf's mapping; without it, one without fields.
	Message string `key:"message" eg:"'{\"id\": {id}}'" form:"body"`
	// Metadata by name, sent as header fields.
	Metadata map[string]string `key:"metadata" eg:"{authorization: 'Bearer {token}'}" list:"a mapping" names:"header"`
}

const rpcPattern = `^([A-Za-z_][A-Za-z0-9_]*\.)*[A-Za-z_][A-Za-z0-9_]*/[A-Za-z_][A-Za-z0-9_]*$`

// short reads the name of a method.
func (c *Call) short(f field) bool {
	if f.n.kind == mapping {
		return false
	}
	f.tag = tag{`form:"rpc"`}
	c.Method = f.string()
	f.calls = append(f.calls, callUse{method: c.Method, n: f.n})
	return true
}

func (c *Call) check(s *section) {
	if method := s.fields["method"]; method.given() {
		s.calls = append(s.calls, callUse{method: c.Method, n: method.n, message: s.fields["message"].n})
	}
	f := s.fields["metadata"]
	f.checkHeaders()
	if !f.given() {
		return
	}
	for _, p := range f.n.pairs {
		if name := strings.ToLower(p.key.text); strings.HasPrefix(name, "grpc-") || name == "content-type" {
			s.errorf(p.key, "the load generator writes %s itself; remove it", p.key.text)
		}
	}
}

func (*Call) shortSchema() *schema { return &schema{Type: "string", Pattern: rpcPattern} }

// resolve returns the call as the load generator takes it.
func (c *Call) resolve() load.Request {
	return load.Request{Method: http.MethodPost, Path: "/" + c.Method, Header: c.Metadata, Body: c.Message, GRPC: true}
}

// callUse is a call of a method, and where it is written.
type callUse struct {
	method     string
	n, message *node // message may be nil
}

// describedCalls looks whether .proto files describe the calls of a load. Messages with
// placeholders are looked at when they are made.
func (d *document) describedCalls(found *decoder, protos []string) {
	if len(protos) == 0 {
		return
	}
	services, err := rpc.Compile(protos)
	if err != nil {
		found.errs = append(found.errs, d.ErrorAt(fmt.Sprintf("the .proto files cannot be used: %s; mend what is wrong there", oneLine(err.Error())), "load", "proto"))
		return
	}
	for _, call := range d.calls {
		m, err := services.Method(call.method)
		if err != nil {
			found.errorf(call.n, "%s", oneLine(err.Error()))
			continue
		}
		if call.message == nil || placeholderForm.MatchString(call.message.text) {
			continue
		}
		if _, err := m.Encode(nil, []byte(call.message.text)); err != nil {
			found.errorf(call.message, "%s", oneLine(err.Error()))
		}
	}
}

// checkCalls checks that calls go over HTTP/2, and that .proto files are of use.
func (l *Offer) checkCalls(s *section) {
	calls := false
	for i := range l.Scenarios {
		calls = calls || slices.ContainsFunc(requests(l.Scenarios[i].Steps), func(step Step) bool { return step.GRPC != nil })
	}
	calls = calls || slices.ContainsFunc(requests(l.Setup), func(step Step) bool { return step.GRPC != nil })
	calls = calls || slices.ContainsFunc(requests(l.Teardown), func(step Step) bool { return step.GRPC != nil })
	switch proto := s.fields["proto"]; {
	case calls && l.Protocol != load.HTTP2:
		s.errorf(s.place, "gRPC goes over HTTP/2, and the load over %s; write protocol: h2 under load", l.Protocol)
	case !calls && proto.given():
		s.errorf(proto.place, "proto describes calls of gRPC, and no step makes one; write grpc: package.Service/Method in a step, or remove it")
	}
}
