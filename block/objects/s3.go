package objects

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"loadstone/block/pause"
)

// S3Config says which bucket a store is in.
type S3Config struct {
	// URL is the server's with the bucket as the first word of the path, and what stands before all names
	// as the others: https://s3.example.org/bucket/feed.
	URL string
	// Region is the one that requests are signed for.
	Region string
	// AccessKey and SecretKey are the account's.
	AccessKey, SecretKey string
	// Timeout bounds one attempt; a request has at most Attempts.
	Timeout time.Duration
	// Attempts is how often a request is sent that nobody answers, or whose answer says that another attempt may
	// help.
	Attempts int
}

// DefaultS3Config has all but the URL and the keys. 20 seconds are enough for MaxSize at 30 Mbit/s, and four
// attempts outlast a restart.
func DefaultS3Config() S3Config {
	return S3Config{Region: "us-east-1", Timeout: 20 * time.Second, Attempts: 4}
}

// Validate returns every problem, joined.
func (c S3Config) Validate() error {
	_, _, err := c.place()
	problems := []error{err}
	if c.Region == "" || c.AccessKey == "" || c.SecretKey == "" {
		problems = append(problems, errors.New("the region, the access key or the secret key is missing"))
	}
	if c.Timeout <= 0 {
		problems = append(problems, fmt.Errorf("timeout is %v: write a duration above 0", c.Timeout))
	}
	if c.Attempts < 1 {
		problems = append(problems, fmt.Errorf("attempts is %d: write at least 1", c.Attempts))
	}
	return errors.Join(problems...)
}

// ReadKeys reads an account's keys from a file as AWS's tools have it, whose path is not empty: below the line [default],
// aws_access_key_id = KEY and aws_secret_access_key = SECRET.
func ReadKeys(path string) (access, secret string, err error) {
	if _, err := os.Stat(path); err != nil {
		return "", "", fmt.Errorf("read keys: %w", err)
	}
	keys, err := credentials.NewFileAWSCredentials(path, "default").GetWithContext(nil)
	if err != nil || keys.AccessKeyID == "" || keys.SecretAccessKey == "" { // which may show a line of the file
		return "", "", fmt.Errorf("read keys: %s has none: write a line [default], and below it aws_access_key_id = KEY and aws_secret_access_key = SECRET", path)
	}
	return keys.AccessKeyID, keys.SecretAccessKey, nil
}

// place takes the URL apart: the bucket, and what stands before names.
func (c S3Config) place() (server *url.URL, path []string, err error) {
	server, err = url.Parse(c.URL)
	if err == nil {
		path = strings.Split(strings.Trim(server.Path, "/"), "/")
	}
	if err != nil || server.Scheme != "http" && server.Scheme != "https" || server.Host == "" || server.User != nil ||
		server.RawQuery != "" || !names.MatchString(strings.Join(path, "/")) {
		return nil, nil, errors.New("the URL of the objects is none: write https://HOST/BUCKET, without keys")
	}
	return server, path, nil
}

// S3 is a Store in a bucket. The server must know conditional writes (If-None-Match: *, If-Match). The tag is the
// server's ETag.
//
// What was not answered, or answered with a server's error, is sent again. A write whose first attempt took place
// unheard finds itself there: that is told from another writer's by the content. So what is there is read before the second:
// a server may refuse a large write and close before it has read it, of which the client hears only that it was cut.
type S3 struct {
	cfg       S3Config
	client    *minio.Core
	transport *http.Transport
	bucket    string
	prefix    string        // of all keys, with a slash behind it, or empty
	place     string        // for messages
	pause     time.Duration // before the second attempt
}

// OpenS3 returns the store. It sends nothing yet.
func OpenS3(cfg S3Config) (*S3, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("open objects: %w", err)
	}
	server, path, err := cfg.place()
	if err != nil {
		return nil, err
	}
	s := &S3{cfg: cfg, bucket: path[0], place: cfg.URL, pause: 100 * time.Millisecond}
	if len(path) > 1 {
		s.prefix = strings.Join(path[1:], "/") + "/"
	}
	s.transport, err = minio.DefaultTransport(server.Scheme == "https")
	if err != nil {
		return nil, fmt.Errorf("open objects: %w", err)
	}
	s.client, err = minio.NewCore(server.Host, &minio.Options{
		Creds: credentials.NewStaticV4(cfg.AccessKey, cfg.SecretKey, ""), Secure: server.Scheme == "https",
		Region: cfg.Region, Transport: s.transport,
		MaxRetries: 1, // none: a second attempt of a write has to be known of, see Put
	})
	if err != nil {
		return nil, fmt.Errorf("open objects: %w", err)
	}
	return s, nil
}

// MakeBucket makes the bucket if there is none. It waits for a server that does not answer yet, until the context ends.
func (s *S3) MakeBucket(ctx context.Context) error {
	for {
		err := s.try(ctx, func(ctx context.Context, _ bool) error {
			found, err := s.client.BucketExists(ctx, s.bucket) // who may not make one need not
			if err == nil && !found {
				err = s.client.MakeBucket(ctx, s.bucket, minio.MakeBucketOptions{Region: s.cfg.Region})
			}
			if code := minio.ToErrorResponse(err).Code; code == minio.BucketAlreadyOwnedByYou || code == minio.BucketAlreadyExists {
				return nil // somebody else has, meanwhile
			}
			return answered(err)
		})
		if _, last := errors.AsType[final](err); err == nil || last || !pause.For(ctx, s.pause) {
			return wrap("make", "the bucket", s.place, err)
		}
	}
}

// Close closes idle connections.
func (s *S3) Close() error {
	s.transport.CloseIdleConnections()
	return nil
}

// Get implements Store.
func (s *S3) Get(ctx context.Context, name string) (body []byte, tag Tag, err error) {
	if err = check(name, nil); err == nil {
		err = s.try(ctx, func(ctx context.Context, _ bool) error {
			body, tag, err = s.get(ctx, name)
			return err
		})
	}
	return body, tag, wrap("read", name, s.place, err)
}

func (s *S3) get(ctx context.Context, name string) ([]byte, Tag, error) {
	reader, info, _, err := s.client.GetObject(ctx, s.bucket, s.prefix+name, minio.GetObjectOptions{})
	if err != nil {
		return nil, Absent, answered(err)
	}
	body, err := io.ReadAll(io.LimitReader(reader, MaxSize+1))
	if err := errors.Join(err, reader.Close()); err != nil {
		return nil, Absent, err
	}
	if len(body) > MaxSize {
		return nil, Absent, final{fmt.Errorf("the object has more than %d bytes", MaxSize)}
	}
	return body, Tag(info.ETag), nil
}

// Put implements Store.
func (s *S3) Put(ctx context.Context, name string, body []byte, was Tag) (tag Tag, err error) {
	if err = check(name, body); err == nil {
		err = s.try(ctx, func(ctx context.Context, again bool) error {
			if !again {
				tag, err = s.put(ctx, name, body, was)
				return err
			}
			now, written, err := s.look(ctx, name, body, was)
			if err == nil && !written && now == was {
				if tag, err = s.put(ctx, name, body, was); !errors.Is(err, ErrChanged) {
					return err
				}
				now, written, err = s.look(ctx, name, body, was) // the first may have been on its way still
			}
			if err == nil && !written {
				err = ErrChanged
			}
			tag = now
			return err
		})
	}
	return tag, wrap("write", name, s.place, err)
}

// look returns the tag of what is there, or Absent, and whether it is body, unless it still is what it was.
func (s *S3) look(ctx context.Context, name string, body []byte, was Tag) (now Tag, written bool, err error) {
	info, err := s.client.StatObject(ctx, s.bucket, s.prefix+name, minio.StatObjectOptions{})
	if err == nil && Tag(info.ETag) == was {
		return was, false, nil
	}
	var there []byte
	if err = answered(err); err == nil {
		there, now, err = s.get(ctx, name)
	}
	if errors.Is(err, ErrNotFound) {
		return Absent, false, nil
	}
	return now, err == nil && bytes.Equal(there, body), err
}

func (s *S3) put(ctx context.Context, name string, body []byte, was Tag) (Tag, error) {
	// The server refuses what does not arrive as it was sent.
	opts := minio.PutObjectOptions{ContentType: "application/octet-stream", DisableMultipart: true, SendContentMd5: true}
	if was == Absent {
		opts.SetMatchETagExcept("*")
	} else {
		opts.SetMatchETag(string(was))
	}
	info, err := s.client.Client.PutObject(ctx, s.bucket, s.prefix+name, bytes.NewReader(body), int64(len(body)), opts)
	if err = answered(err); was != Absent && errors.Is(err, ErrNotFound) {
		err = ErrChanged
	}
	return Tag(info.ETag), err
}

// List implements Store.
func (s *S3) List(ctx context.Context, prefix string) (found []string, err error) {
	err = s.try(ctx, func(ctx context.Context, _ bool) error {
		found = nil
		ctx, cancel := context.WithCancel(ctx) // ends the listing when it is left early
		defer cancel()
		for object := range s.client.Client.ListObjects(ctx, s.bucket, minio.ListObjectsOptions{Prefix: s.prefix + prefix, Recursive: true}) {
			if object.Err != nil {
				return answered(object.Err)
			}
			found = append(found, strings.TrimPrefix(object.Key, s.prefix))
		}
		return ctx.Err()
	})
	slices.Sort(found)
	return found, wrap("list", prefix, s.place, err)
}

// Delete implements Store.
func (s *S3) Delete(ctx context.Context, name string) error {
	err := check(name, nil)
	if err == nil {
		err = s.try(ctx, func(ctx context.Context, _ bool) error {
			err := answered(s.client.RemoveObject(ctx, s.bucket, s.prefix+name, minio.RemoveObjectOptions{}))
			if errors.Is(err, ErrNotFound) {
				return nil
			}
			return err
		})
	}
	return wrap("delete", name, s.place, err)
}

// final is an error that another attempt does not help.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// answered says what a server's answer means.
func answered(err error) error {
	response, ok := errors.AsType[minio.ErrorResponse](err)
	if !ok {
		return err // nobody answered
	}
	switch {
	case response.StatusCode == http.StatusPreconditionFailed:
		return final{ErrChanged}
	case response.Code == minio.NoSuchKey:
		return final{ErrNotFound}
	case response.StatusCode >= 500, slices.Contains([]int{
		http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests,
	}, response.StatusCode):
		return err
	}
	return final{err}
}

// try makes attempts until one succeeds or is final; again is true for all but the first. Attempts are
// further and further apart, and not those of all clients at once.
func (s *S3) try(ctx context.Context, attempt func(ctx context.Context, again bool) error) error {
	for n := 0; ; n++ {
		err := s.once(ctx, n > 0, attempt)
		var last final
		if err == nil || errors.As(err, &last) || errors.Is(err, ErrChanged) {
			return err
		}
		if n+1 == s.cfg.Attempts {
			return fmt.Errorf("%d attempts failed, the last: %w", n+1, err)
		}
		if !pause.For(ctx, s.pause<<n/2+rand.N(s.pause<<n)) {
			return fmt.Errorf("%w after: %w", ctx.Err(), err)
		}
	}
}

func (s *S3) once(ctx context.Context, again bool, attempt func(ctx context.Context, again bool) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.Timeout, fmt.Errorf("no answer for %v", s.cfg.Timeout))
	defer cancel()
	err := attempt(ctx, again)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return err
}
