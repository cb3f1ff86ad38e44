package rpc

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"
)

// types are the messages that a google.protobuf.Any may hold: those of the files that
// describe a service and of all that these import, and the well-known ones.
type types struct {
	*dynamicpb.Types

	files  *protoregistry.Files
	remedy string // for one that is not among them
}

func newTypes(remedy string) *types {
	files := &protoregistry.Files{}
	return &types{dynamicpb.NewTypes(files), files, remedy}
}

// add adds a file and what it imports. One that is there already stays.
func (t *types) add(f protoreflect.FileDescriptor) {
	if _, err := t.files.FindFileByPath(f.Path()); err == nil || t.files.RegisterFile(f) != nil {
		return
	}
	for i := range f.Imports().Len() {
		t.add(f.Imports().Get(i).FileDescriptor)
	}
}

// FindMessageByURL is for protojson, which asks for the message of an Any.
func (t *types) FindMessageByURL(url string) (protoreflect.MessageType, error) {
	found, err := t.Types.FindMessageByURL(url)
	if errors.Is(err, protoregistry.NotFound) {
		found, err = protoregistry.GlobalTypes.FindMessageByURL(url)
	}
	if err != nil {
		return nil, fmt.Errorf("no message of that name is described; %s", t.remedy)
	}
	return found, nil
}
