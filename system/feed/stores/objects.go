package stores

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"loadstone/block/objects"
	"loadstone/block/redact"
	"loadstone/system/feed/snapshot"
)

// ObjectForms are the names of all stores of objects, for people.
const ObjectForms = "directory:DIR or s3:https://HOST/BUCKET"

// Keys are those of the account in S3, and the region that requests are signed for. Of a directory there are none.
type Keys struct{ Access, Secret, Region string }

// Objects is the name of a store of objects, in which snapshots are.
type Objects struct {
	dir string
	url string // of a bucket in S3
}

// ObjectStore is what a name of objects names; it must be closed.
type ObjectStore interface {
	objects.Store
	Close() error
}

// ParseObjects reads the name of a store of objects. Its error shows no password.
func ParseObjects(text string) (Objects, error) {
	switch kind, rest, _ := strings.Cut(text, ":"); {
	case kind == "directory" && rest != "":
		return Objects{dir: rest}, nil
	case kind == "s3":
		cfg := objects.DefaultS3Config()
		cfg.URL, cfg.AccessKey, cfg.SecretKey = rest, "-", "-" // they are known when it is opened
		if err := cfg.Validate(); err == nil {
			return Objects{url: rest}, nil
		}
		return Objects{}, errors.New("the address of objects in S3 is none: write s3:https://HOST/BUCKET, without keys")
	}
	return Objects{}, fmt.Errorf("the store of objects is %q; write %s", redact.Address(text), ObjectForms)
}

// String is the name as it is written.
func (o Objects) String() string {
	if o.dir != "" {
		return "directory:" + o.dir
	}
	return "s3:" + o.url
}

// CheckKeys reports whether the keys are there that the store needs.
func (o Objects) CheckKeys(k Keys) error {
	if o.url != "" && (k.Access == "" || k.Secret == "") {
		return errors.New("the objects are in S3, and its keys are missing: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a file that has them with --keys")
	}
	return nil
}

// Open opens the store to read it. It does not make a directory that is not there, whose name may be misspelt; in S3 it
// asks for nothing yet.
func (o Objects) Open(k Keys) (ObjectStore, error) {
	if _, err := os.Stat(o.dir); o.dir != "" && errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w: `loadstone feed publish` makes one", o, snapshot.ErrNone)
	}
	return o.open(k)
}

// Make opens the store to write to it, and makes its directory or bucket if there is none. An S3 that does not answer yet is
// waited for.
func (o Objects) Make(ctx context.Context, k Keys) (ObjectStore, error) {
	store, err := o.open(k)
	if err != nil {
		return nil, err
	}
	if s3, ok := store.(*objects.S3); ok {
		within, cancel := context.WithTimeout(ctx, openTimeout)
		defer cancel()
		if err := s3.MakeBucket(within); err != nil {
			return nil, errors.Join(err, store.Close())
		}
	}
	return store, nil
}

func (o Objects) open(k Keys) (ObjectStore, error) {
	if o.dir != "" {
		store, err := objects.OpenDirectory(o.dir)
		if err != nil {
			return nil, err
		}
		return store, nil
	}
	cfg := objects.DefaultS3Config()
	cfg.URL, cfg.AccessKey, cfg.SecretKey = o.url, k.Access, k.Secret
	if k.Region != "" {
		cfg.Region = k.Region
	}
	store, err := objects.OpenS3(cfg)
	if err != nil {
		return nil, err
	}
	return store, nil
}
