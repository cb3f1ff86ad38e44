package engine

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// contentDecoder undoes content codings (RFC 9110, 8.4) of what was kept of answers.
// Each event loop has one: its decoders are made when the first answer needs them,
// and used again, so their memory does not grow with users or requests. A bomb
// costs no more than maxBody bytes of each coding.
type contentDecoder struct {
	gzip   *gzip.Reader
	brotli *brotli.Reader
	zstd   *zstd.Decoder
	zlib   io.ReadCloser // also a zlib.Resetter

	in, out bytes.Buffer
}

// maxWindow is how far back a zstd answer may refer: what RFC 9659 allows in HTTP.
const maxWindow = 8 << 20

// maxCodings bounds the codings of one answer, one within the other.
const maxCodings = 3

// decode replaces k's body by what it stands for. What is wrong with it is k.problem:
// then the body is as much of it as could be decoded, and that of an unknown coding as it
// came, which may be all that a check or an extraction needs.
func (d *contentDecoder) decode(k *captured) {
	if k.coding == "" || len(k.body) == 0 {
		return
	}
	codings := strings.Split(strings.ToLower(k.coding), ",")
	if len(codings) > maxCodings {
		k.problem = fmt.Sprintf("it has %d content codings, more than %d", len(codings), maxCodings)
		return
	}
	for _, coding := range slices.Backward(codings) {
		coding = strings.TrimSpace(coding)
		if coding == "identity" || coding == "" {
			continue
		}
		d.in.Reset()
		d.in.Write(k.body)
		d.out.Reset()
		r, err := d.reader(coding)
		if errors.Is(err, errCoding) {
			k.problem = fmt.Sprintf("its Content-Encoding is %.40q, and only gzip, deflate, br and zstd are decoded", coding)
			return
		}
		if err == nil {
			_, err = io.Copy(&d.out, io.LimitReader(r, maxBody+1))
		}
		k.body = append(k.body[:0], d.out.Bytes()[:min(d.out.Len(), maxBody)]...)
		switch {
		case k.cut || d.out.Len() > maxBody:
			k.problem = tooLong
		case err != nil:
			k.problem = fmt.Sprintf("it is not what its Content-Encoding %s says: %v", coding, err)
		default:
			continue
		}
		return
	}
}

// tooLong is what is wrong with an answer that is not kept whole.
const tooLong = "it is longer than 1 MiB"

var errCoding = errors.New("unknown coding")

// reader returns what reads d.in decoded.
func (d *contentDecoder) reader(coding string) (io.Reader, error) {
	var err error
	switch coding {
	case "gzip", "x-gzip":
		if d.gzip == nil {
			d.gzip = new(gzip.Reader)
		}
		return d.gzip, d.gzip.Reset(&d.in)
	case "deflate":
		if d.zlib != nil {
			return d.zlib, d.zlib.(zlib.Resetter).Reset(&d.in, nil)
		}
		d.zlib, err = zlib.NewReader(&d.in)
		return d.zlib, err
	case "br":
		if d.brotli == nil {
			d.brotli = brotli.NewReader(nil)
		}
		return d.brotli, d.brotli.Reset(&d.in)
	case "zstd":
		if d.zstd == nil {
			// One at a time, and without goroutines: it is the event loop's.
			d.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true))
			if err != nil {
				return nil, err
			}
		}
		return d.zstd, d.zstd.Reset(&d.in)
	}
	return nil, errCoding
}

// close frees what was made.
func (d *contentDecoder) close() {
	if d.zstd != nil {
		d.zstd.Close()
	}
}
