package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	codesOf "google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	reflection "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"loadstone/block/pause"
)

// Services are what .proto files describe, or a server.
type Services struct {
	find func(protoreflect.FullName) (protoreflect.Descriptor, *types, error)
}

// Compile reads .proto files. A file imports others by their paths from its own directory or
// from one above, since most are laid out by their packages; the well-known types are there. Its
// error has file, line and column of what is wrong.
func Compile(files []string) (*Services, error) {
	compiled, err := compile(files)
	if err != nil {
		return nil, err
	}
	known := newTypes("add the .proto file that describes it under proto")
	for _, f := range compiled {
		known.add(f)
	}
	return &Services{func(name protoreflect.FullName) (protoreflect.Descriptor, *types, error) {
		for _, f := range compiled {
			if d := f.FindDescriptorByName(name); d != nil {
				return d, known, nil
			}
		}
		return nil, nil, fmt.Errorf("%s has none of that name", strings.Join(files, ", "))
	}}, nil
}

// Methods returns methods by their paths, such as shop.v1.Catalogue/GetItem.
func (s *Services) Methods(paths []string) (map[string]*Method, error) {
	out := map[string]*Method{}
	var errs []error
	for _, path := range paths {
		m, err := s.Method(path)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out[path] = m
	}
	return out, errors.Join(errs...)
}

const (
	// reflectWithin is how long a server may take to describe itself.
	reflectWithin = 10 * time.Second
	reflectPause  = 100 * time.Millisecond
	// mostDescribed bounds what it says of itself, in bytes: all of Google's own services
	// together take less.
	mostDescribed = 32 << 20
)

// Reflect asks a server at an address for methods, by gRPC server reflection (v1). trust is
// for TLS; nil for none.
func Reflect(ctx context.Context, address string, trust *tls.Config, methods []string) (map[string]*Method, error) {
	ctx, cancel := context.WithTimeout(ctx, reflectWithin)
	defer cancel()
	secure := insecure.NewCredentials()
	if trust != nil {
		secure = credentials.NewTLS(trust.Clone())
	}
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(secure), grpc.WithUserAgent("loadstone"))
	if err != nil {
		return nil, err
	}
	defer conn.Close() //nolint:errcheck // nothing is under way
	client := reflection.NewServerReflectionClient(conn)
	services := Services{func(name protoreflect.FullName) (protoreflect.Descriptor, *types, error) {
		for {
			found, err := describe(ctx, client, name)
			if err == nil {
				known := newTypes("write proto: with the .proto files, that of this message too")
				known.add(found.ParentFile())
				return found, known, nil
			}
			if over := ended(ctx); over != nil {
				err = over // a server is told the deadline, and may be the first to act on it
			}
			// It may have just started, or what stands before it has.
			if status.Code(err) != codesOf.Unavailable || !pause.For(ctx, reflectPause) {
				return nil, nil, fmt.Errorf("%s does not describe it by server reflection (%s): write proto: with the .proto files", address, status.Convert(err).Message())
			}
		}
	}}
	return services.Methods(methods)
}

// ended is why a context is over. A deadline is one by the clock, since its timer may be late.
func ended(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

// describe asks for one service over a stream of its own.
func describe(ctx context.Context, client reflection.ServerReflectionClient, name protoreflect.FullName) (protoreflect.Descriptor, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := client.ServerReflectionInfo(ctx, grpc.WaitForReady(true))
	if err != nil {
		return nil, err
	}
	return (&reflected{stream: stream, files: map[string]*descriptorpb.FileDescriptorProto{}}).find(name)
}

// reflected is what a server has described so far.
type reflected struct {
	stream reflection.ServerReflection_ServerReflectionInfoClient
	files  map[string]*descriptorpb.FileDescriptorProto
}

// find asks for the file of a symbol, and for those that it imports.
func (r *reflected) find(name protoreflect.FullName) (protoreflect.Descriptor, error) {
	wanted := []*reflection.ServerReflectionRequest{{
		MessageRequest: &reflection.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: string(name)},
	}}
	asked, size := map[string]bool{}, 0
	for len(wanted) > 0 {
		if err := r.stream.Send(wanted[0]); err != nil {
			return nil, err
		}
		wanted = wanted[1:]
		answer, err := r.stream.Recv()
		if err != nil {
			return nil, err
		}
		if e := answer.GetErrorResponse(); e != nil {
			return nil, errors.New(e.GetErrorMessage())
		}
		for _, raw := range answer.GetFileDescriptorResponse().GetFileDescriptorProto() {
			if size += len(raw); size > mostDescribed {
				return nil, fmt.Errorf("it describes itself in more than %d MB", mostDescribed>>20)
			}
			file := &descriptorpb.FileDescriptorProto{}
			if err := proto.Unmarshal(raw, file); err != nil {
				return nil, err
			}
			r.files[file.GetName()] = file
		}
		wanted = append(wanted, r.missing(asked)...)
	}
	all := &descriptorpb.FileDescriptorSet{}
	for _, file := range r.files {
		all.File = append(all.File, file)
	}
	files, err := protodesc.NewFiles(all)
	if err != nil {
		return nil, err
	}
	return files.FindDescriptorByName(name)
}

// missing are requests for the files that others import, and nobody has asked for. A server
// may answer with another one: none is asked for twice.
func (r *reflected) missing(asked map[string]bool) (out []*reflection.ServerReflectionRequest) {
	for _, file := range r.files {
		for _, name := range file.GetDependency() {
			if r.files[name] == nil && !asked[name] {
				asked[name] = true
				out = append(out, &reflection.ServerReflectionRequest{
					MessageRequest: &reflection.ServerReflectionRequest_FileByFilename{FileByFilename: name},
				})
			}
		}
	}
	return out
}
