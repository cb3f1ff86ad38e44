package engine

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"loadstone/lab/load"
	"loadstone/lab/load/failure"
	"loadstone/lab/load/httpclient"
	"loadstone/lab/load/rpc"
)

// describedCalls finds out what the messages of the plan's gRPC calls are made of.
func (r *run) describedCalls(ctx context.Context) (map[string]*rpc.Method, error) {
	var paths []string
	for i := range r.plan.Scenarios {
		for k := range r.plan.Scenarios[i].Steps {
			if q := &r.plan.Scenarios[i].Steps[k].Request; q.GRPC {
				paths = append(paths, strings.TrimPrefix(q.Path, "/"))
			}
		}
	}
	slices.Sort(paths)
	if paths = slices.Compact(paths); len(paths) == 0 {
		return nil, nil
	}
	if len(r.plan.Protos) == 0 {
		return rpc.Reflect(ctx, r.targets[0].addresses[0].String(), r.trust(&r.targets[0]), paths)
	}
	services, err := rpc.Compile(r.plan.Protos) //nolint:contextcheck // it waits for nobody
	if err != nil {
		return nil, err
	}
	return services.Methods(paths)
}

// trust is how a target is spoken to by TLS; nil for no TLS.
func (r *run) trust(to *target) *tls.Config {
	if to.base.Scheme != "https" {
		return nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if r.tls != nil {
		config = r.tls.Clone()
	}
	if config.ServerName == "" {
		config.ServerName = to.base.Hostname()
	}
	return config
}

// call compiles what a step has as a call of gRPC; nothing of one that is none.
func (c *script) call(s *step, r *load.Request) {
	if !r.GRPC {
		return
	}
	s.call = c.calls[strings.TrimPrefix(r.Path, "/")]
	s.header = slices.DeleteFunc(s.header, func(h headerField) bool { return strings.EqualFold(h.name, "content-type") })
	for _, h := range [][2]string{{"Content-Type", rpc.ContentType}, {"Te", "trailers"}, {"Grpc-Timeout", rpc.Timeout(c.timeout)}} {
		s.header = append(s.header, headerField{h[0], text{{literal: h[1]}}})
	}
	if slices.ContainsFunc(s.body, func(p part) bool { return p.then != thenNothing }) {
		return
	}
	// The same each time: it is put together once.
	frame, err := s.call.Encode(nil, s.body.append(nil, nil))
	if err != nil {
		c.errs = append(c.errs, fmt.Errorf("step %q: %w", s.name, err))
	}
	s.frame = frame
}

// encodeCall replaces the request's message by what goes over the wire.
func (r *remote) encodeCall() error {
	if r.call == nil || r.framed {
		return nil
	}
	var err error
	r.frame, err = r.call.Encode(r.frame[:0], r.request.Body)
	r.request.Body, r.frame = r.frame, r.request.Body[:0]
	return err
}

// decodeCall makes of an answer what its code stands for, and JSON of its message.
func (r *remote) decodeCall() error {
	a := &r.answer
	if a.Status != http.StatusOK {
		return nil // a proxy's, say, and none of gRPC
	}
	status, err := rpc.Status(a.Status, a.Header, a.Trailer)
	if err != nil {
		return rpc.NewMessageError(err)
	}
	said := rpc.Explain(a.Header, a.Trailer)
	a.Status = status
	for name, values := range a.Trailer { // metadata to extract is in both
		a.Header[name] = append(a.Header[name], values...)
	}
	switch {
	case said != "" || !r.wantsBody:
		a.Body = append(a.Body[:0], said...)
		a.Length = int64(len(a.Body))
		return nil
	case a.Length > int64(len(a.Body)):
		return rpc.NewMessageError(errors.New(tooLong))
	}
	out, err := r.call.Decode(nil, a.Body)
	if err != nil {
		return err
	}
	a.Body, a.Length = out, int64(len(out))
	return nil
}

// failureKind names the kind of an error of a remote's task.
func failureKind(err error) failure.Kind {
	if _, ok := errors.AsType[rpc.MessageError](err); ok {
		return failure.Protocol
	}
	return httpclient.Kind(err)
}
