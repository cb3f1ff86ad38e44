package rpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	reflection "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

// odd describes itself as a test says, by the number of the question; nil is no answer.
type odd struct {
	reflection.UnimplementedServerReflectionServer
	answer func(i int) *descriptorpb.FileDescriptorProto
}

func (o odd) ServerReflectionInfo(stream grpc.BidiStreamingServer[reflection.ServerReflectionRequest, reflection.ServerReflectionResponse]) error {
	for i := 0; ; i++ {
		if _, err := stream.Recv(); err != nil {
			return err
		}
		file := o.answer(i)
		if file == nil {
			<-stream.Context().Done()
			return stream.Context().Err()
		}
		raw, err := proto.Marshal(file)
		if err != nil {
			return err
		}
		err = stream.Send(&reflection.ServerReflectionResponse{MessageResponse: &reflection.ServerReflectionResponse_FileDescriptorResponse{
			FileDescriptorResponse: &reflection.FileDescriptorResponse{FileDescriptorProto: [][]byte{raw}},
		}})
		if err != nil {
			return err
		}
	}
}

func serveOdd(t *testing.T, o odd) string {
	t.Helper()
	s := grpc.NewServer()
	reflection.RegisterServerReflectionServer(s, o)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := s.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
	})
	t.Cleanup(func() { s.Stop(); serving.Wait() })
	return l.Addr().String()
}

// A server that describes itself without end, in circles or not at all is an error, soon.
func TestServersThatDescribeThemselvesOddly(t *testing.T) {
	t.Parallel()
	var most atomic.Int64 // the last of the large files that was asked for
	name := func(i int) *string { return new(fmt.Sprintf("%d.proto", i)) }
	for want, c := range map[string]struct {
		within time.Duration
		answer func(i int) *descriptorpb.FileDescriptorProto
	}{
		"in more than 32 MB": {time.Minute, func(i int) *descriptorpb.FileDescriptorProto {
			most.Store(int64(i))
			return &descriptorpb.FileDescriptorProto{Name: name(i), Dependency: []string{*name(i + 1)}, Package: new(strings.Repeat("x", 1<<20))}
		}},
		`could not resolve import "1.proto"`: {time.Minute, func(int) *descriptorpb.FileDescriptorProto {
			return &descriptorpb.FileDescriptorProto{Name: name(0), Dependency: []string{*name(1)}}
		}},
		"import cycle": {time.Minute, func(i int) *descriptorpb.FileDescriptorProto {
			return &descriptorpb.FileDescriptorProto{Name: name(i % 2), Dependency: []string{*name((i + 1) % 2)}}
		}},
		"deadline exceeded": {100 * time.Millisecond, func(int) *descriptorpb.FileDescriptorProto { return nil }},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), c.within)
		_, err := Reflect(ctx, serveOdd(t, odd{answer: c.answer}), nil, []string{"shop.v1.Catalogue/Get"})
		cancel()
		late := err != nil && strings.Contains(err.Error(), "deadline exceeded") // 32 MB may take that long on a busy machine
		if err == nil || !strings.Contains(err.Error(), want) && !late {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if got := most.Load(); got > 34 {
		t.Errorf("%d files of a megabyte were asked for, want 32", got)
	}
}

// late is a context whose timer has not fired, although its deadline is over.
type late struct {
	context.Context
	deadline time.Time
}

func (c late) Deadline() (time.Time, bool) { return c.deadline, true }

// The server's timer of a deadline may fire before the client's: it is the deadline all the same.
func TestADeadlineThatTheServerSeesFirst(t *testing.T) {
	t.Parallel()
	silent := serveOdd(t, odd{answer: func(int) *descriptorpb.FileDescriptorProto { return nil }})
	_, err := Reflect(late{t.Context(), time.Now().Add(100 * time.Millisecond)}, silent, nil, []string{"shop.v1.Catalogue/Get"})
	if err == nil || !strings.Contains(err.Error(), "deadline exceeded") {
		t.Errorf("got %v, want that the deadline is exceeded", err)
	}
}
