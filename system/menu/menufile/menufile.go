// Package menufile reads and writes files of menus, in four formats:
//
//   - csv: a dish a row, under a header of id, dishType, subType, dish, price, ingredients, link,
//     currency and photo, in any order; the last four may be left out. The rows of a menu follow each
//     other. A menu that is a link is one row with link and without a dish. Ingredients have
//     ; or | between them; those within a name are written \; and \|. Where the currency is
//     empty, it is that of the menu's first row
//   - jsonl: a menu a line, as menu.ParseJSON reads it
//   - jsonld: Menus of schema.org, one document, an array of them, or one after the other;
//     read only
//   - psv: id|dishes|link a line, the predecessor's: dishes are a JSON array or null, link an
//     address or null
//
// Files are UTF-8 with or without byte order mark, with LF or CRLF, and may be compressed by gzip.
//
// Open reads the whole file once and lists what is wrong with file, line, column and what to
// write instead, so that a bad file is known before anything is stored. Only then is the file
// a dataset.Source[menu.Menu], in ascending order of id, which reads it again and makes sure
// that the menus are still the same. Memory holds one menu, and 16 bytes for each to find
// repeated ids and to sort.
package menufile

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"strings"

	"loadstone/block/dataset"
	"loadstone/system/menu"
)

// Format is how menus are written in a file.
type Format string

// The formats, by the names that Open, Write and people use.
const (
	CSV       Format = "csv"
	JSONLines Format = "jsonl"
	SchemaOrg Format = "jsonld"
	PSV       Format = "psv"
)

// FormatOf returns the format of a file by the end of its name, in which .gz does not count.
func FormatOf(path string) (Format, error) {
	switch name := strings.ToLower(path); filepath.Ext(strings.TrimSuffix(name, ".gz")) {
	case ".csv":
		return CSV, nil
	case ".jsonl", ".ndjson":
		return JSONLines, nil
	case ".jsonld", ".json":
		return SchemaOrg, nil
	case ".psv", ".txt":
		return PSV, nil
	}
	return "", fmt.Errorf("%w: the name of %s does not tell its format: name it csv, jsonl, jsonld or psv", menu.ErrInput, path)
}

// Options say how a file is to be read.
type Options struct {
	// Format of the file; if it is empty, FormatOf says.
	Format Format
	// Currency of prices where the file does not say; menu.DefaultCurrency if it is empty.
	Currency string
}

// File is a checked file of menus: a dataset.Source[menu.Menu].
type File struct {
	path    string
	options Options
	meta    dataset.Meta
	layout  *layout // of CSV
	sum     uint64  // of the tags of all menus
	sorted  []place // where menus are, by id; nil if the file has that order
}

// place is where a menu starts.
type place struct{ id, at int64 }

// Open checks the whole file. The error of a file with mistakes wraps menu.ErrInput, and is an
// *InputError if they are in its menus.
func Open(ctx context.Context, path string, options Options) (*File, error) {
	f := &File{path: path, options: options}
	if err := f.complete(); err != nil {
		return nil, err
	}
	in, err := openInput(path)
	if err != nil {
		return nil, err
	}
	defer in.close()
	checked := checker{path: path}
	if err := f.check(ctx, in, &checked); err != nil {
		return nil, in.explain(err)
	}
	f.sum, f.sorted = checked.sum, checked.order()
	if err := checked.mistakes(); err != nil {
		return nil, err
	}
	if f.sorted != nil && in.zipped {
		return nil, fmt.Errorf("%w: %s is not in ascending order of id: sort it, or uncompress it, for compressed menus cannot be read in another order", menu.ErrInput, path)
	}
	digits := hex.EncodeToString(in.hash.Sum(nil))
	f.meta = dataset.Meta{
		Origin:      fmt.Sprintf("%.200s, sha256 %s", strings.ToValidUTF8(filepath.Base(path), "?"), digits[:12]),
		Fingerprint: fmt.Sprintf("menus as %s 1, %s, sha256 %s", f.options.Format, f.options.Currency, digits),
		Count:       checked.count,
	}
	return f, nil
}

// complete fills in what the options leave open.
func (f *File) complete() (err error) {
	o := &f.options
	if o.Format == "" {
		if o.Format, err = FormatOf(f.path); err != nil {
			return err
		}
	}
	o.Currency = cmp.Or(o.Currency, menu.DefaultCurrency)
	if _, err := menu.ParsePrice("1", o.Currency); err != nil {
		return fmt.Errorf("%w: %w", menu.ErrInput, err)
	}
	return nil
}

func (f *File) check(ctx context.Context, in *input, checked *checker) error {
	d, err := f.decoder(in.content, 0)
	if bad, ok := errors.AsType[*menuError](err); ok {
		checked.list = bad.list[:min(len(bad.list), MaxMistakes)]
		return nil
	}
	if err != nil {
		return err
	}
	if d, ok := d.(*csvDecoder); ok {
		f.layout = d.layout
	}
	return checked.run(ctx, d)
}

// decoder reads menus, one after the other.
type decoder interface {
	// next returns a menu that is valid and where it starts, in bytes; or io.EOF; or a
	// *menuError, after which it can go on. A bad menu has its id, if that is known.
	next() (m menu.Menu, at int64, err error)
}

// decoder returns one for content that starts at a byte of the file. At 0 it reads the
// header of CSV.
func (f *File) decoder(content io.Reader, at int64) (decoder, error) {
	switch f.options.Format {
	case CSV:
		d := newCSVDecoder(newLines(content, at), f.layout, f.options.Currency)
		if at > 0 {
			return d, nil
		}
		return d, d.readHeader()
	case JSONLines:
		return &lineDecoder{lines: newLines(content, at), currency: f.options.Currency, parse: parseJSONLine}, nil
	case PSV:
		return &lineDecoder{lines: newLines(content, at), currency: f.options.Currency, parse: parsePSV, header: psvHeader}, nil
	case SchemaOrg:
		return newSchemaDecoder(content, at, f.options.Currency), nil
	}
	return nil, fmt.Errorf("%w: format is %q: write csv, jsonl, jsonld or psv", menu.ErrInput, f.options.Format)
}

// Meta describes the data set. Its fingerprint is that of the file's content, format and
// currency.
func (f *File) Meta() dataset.Meta { return f.meta }

var (
	errStopped = errors.New("the consumer has had enough")
	errChanged = errors.New("the file has changed")
)

// All yields the menus in ascending order of id. It ends with an error if they are no longer
// those that were checked.
func (f *File) All(ctx context.Context) iter.Seq2[menu.Menu, error] {
	return func(yield func(menu.Menu, error) bool) {
		sum, last, body := uint64(0), int64(0), []byte(nil)
		err := f.read(func(m menu.Menu) error {
			if m.ID <= last {
				return errChanged
			}
			last, body = m.ID, m.AppendJSON(body[:0])
			if sum += menu.Tag(body); !yield(m, nil) {
				return errStopped
			}
			return ctx.Err()
		})
		if err == nil && sum != f.sum {
			err = errChanged
		}
		if _, bad := errors.AsType[*menuError](err); bad || errors.Is(err, errChanged) {
			err = fmt.Errorf("%s has changed since it was checked: import it again", f.path)
		}
		if err != nil && !errors.Is(err, errStopped) {
			yield(menu.Menu{}, err)
		}
	}
}

// read gives every menu to use, in ascending order.
func (f *File) read(use func(menu.Menu) error) error {
	in, err := openInput(f.path)
	if err != nil {
		return err
	}
	defer in.close()
	d, err := f.decoder(in.content, 0)
	for i := 0; err == nil; i++ {
		if f.sorted != nil {
			if i == len(f.sorted) {
				return nil
			}
			at := f.sorted[i].at
			if d, err = f.decoder(in.from(at), at); err != nil {
				return err
			}
		}
		var m menu.Menu
		if m, _, err = d.next(); err == nil {
			err = use(m)
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return in.explain(err)
}
