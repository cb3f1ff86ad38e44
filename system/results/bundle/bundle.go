// Package bundle writes what a school hands out: the access codes of its
// students, as a CSV file and as a page to print and cut, one slip for each
// student.
//
// Both files are as secret as the codes in them, and only their owner may read
// them. Students are written as the source gives them, so memory does not grow
// with the school. Each file is replaced wholly or not at all.
//
// Where results are published as a static tree, see package export, each slip and
// row also holds the student's link.
package bundle

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"loadstone/block/atomicfile"
	"loadstone/block/dataset"
	"loadstone/system/results"
)

// Config says whose bundle to write and where.
type Config struct {
	// School is the school's name as the data has it. Small and capital letters
	// and the number of spaces do not matter.
	School string
	// Region is needed if several regions have a school of that name.
	Region string
	// Directory receives the files. It must exist.
	Directory string
	// Address is where students look their result up, as printed on the slips.
	Address string
	// Link returns a student's own link. Nil if there are none.
	Link func(*results.Student) (string, error)
	// Progress is told how many students of the source have been read. It may
	// be nil.
	Progress dataset.Progress
}

// Validate returns all problems of the configuration, joined, or nil.
func (c Config) Validate() error {
	var errs []error
	if fold(c.School) == "" {
		errs = append(errs, errors.New("the school's name is missing"))
	}
	if c.Directory == "" {
		errs = append(errs, errors.New("the directory for the bundle is missing"))
	}
	if c.Address == "" {
		errs = append(errs, errors.New("the address to print on the slips is missing"))
	}
	return errors.Join(errs...)
}

// Bundle says what was written.
type Bundle struct {
	School, Region string
	Students       int64
	CSV, HTML      string // paths
}

// Write writes the bundle of one school. On any error no file has changed, but
// for a disk that fails while the second of the two is put in place. An unknown
// school is an *UnknownSchoolError.
func Write(ctx context.Context, cfg Config, source dataset.Source[results.Student]) (Bundle, error) {
	if err := cfg.Validate(); err != nil {
		return Bundle{}, fmt.Errorf("bundle: %w", err)
	}
	bundle, err := writeFrom(ctx, cfg, source)
	if err != nil {
		return Bundle{}, fmt.Errorf("bundle of %q: %w", cfg.School, err)
	}
	return bundle, nil
}

func writeFrom(ctx context.Context, cfg Config, source dataset.Source[results.Student]) (Bundle, error) {
	if indexed, ok := source.(Indexed); ok {
		part, err := narrow(ctx, cfg, indexed)
		if err != nil {
			return Bundle{}, err
		}
		source = part
	}
	bundle, err := write(ctx, cfg, source)
	if err == nil && bundle.Students == 0 {
		err = unknown(ctx, cfg, source)
	}
	return bundle, err
}

// write makes both files and puts them in place if there are students.
func write(ctx context.Context, cfg Config, source dataset.Source[results.Student]) (bundle Bundle, err error) {
	base := filepath.Join(cfg.Directory, FileName(cfg.School, cfg.Region))
	bundle = Bundle{CSV: base + ".csv", HTML: base + ".html"}
	table, err := atomicfile.Create(bundle.CSV)
	if err != nil {
		return bundle, err
	}
	defer func() { err = errors.Join(err, table.Discard()) }()
	slips, err := atomicfile.Create(bundle.HTML)
	if err != nil {
		return bundle, err
	}
	defer func() { err = errors.Join(err, slips.Discard()) }()

	w := newWriter(cfg, table.File(), slips.File())
	err = results.Each(ctx, source, cfg.Progress, w.put)
	if err == nil && w.students > 0 {
		err = w.finish()
	}
	bundle.School, bundle.Region, bundle.Students = w.school, w.region, w.students
	if err != nil || w.students == 0 {
		return bundle, err
	}
	if err := table.Commit(); err != nil {
		return bundle, err
	}
	return bundle, slips.Commit()
}

// writer writes the students of one school.
type writer struct {
	cfg            Config
	wantName       string // folded, as wantRegion is
	wantRegion     string
	school, region string // of the first student
	students       int64

	table *csv.Writer
	html  *bufio.Writer
}

func newWriter(cfg Config, table, slips *os.File) *writer {
	return &writer{
		cfg: cfg, wantName: fold(cfg.School), wantRegion: fold(cfg.Region),
		table: csv.NewWriter(table), html: bufio.NewWriterSize(slips, 64<<10),
	}
}

// put writes the student if the school is the one.
func (w *writer) put(s *results.Student) error {
	if !w.wants(s) {
		return nil
	}
	switch {
	case w.students == 0:
		w.school, w.region = s.School, s.Region
		if err := w.begin(); err != nil {
			return err
		}
	case s.Region != w.region:
		return fmt.Errorf("%s and %s both have a school of this name: name the region as well", w.region, s.Region)
	}
	slip := slip{ID: s.ID, Name: s.Name, Stream: s.Stream.String(), School: s.School, Code: Spaced(s.Code), Address: w.cfg.Address}
	if w.cfg.Link != nil {
		link, err := w.cfg.Link(s)
		if err != nil {
			return fmt.Errorf("make the link of student %d: %w", s.ID, err)
		}
		slip.Link = link
	}
	w.students++
	if err := w.table.Write(slip.record(w.cfg.Link != nil)); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	if err := slipTemplate.Execute(w.html, slip); err != nil {
		return fmt.Errorf("write the slips: %w", err)
	}
	return nil
}

func (w *writer) wants(s *results.Student) bool {
	if fold(s.School) != w.wantName {
		return false
	}
	return w.wantRegion == "" || fold(s.Region) == w.wantRegion
}

func (w *writer) begin() error {
	header := []string{"id", "name", "stream", "code"}
	if w.cfg.Link != nil {
		header = append(header, "link")
	}
	if err := w.table.Write(header); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	if err := headTemplate.Execute(w.html, w.school); err != nil {
		return fmt.Errorf("write the slips: %w", err)
	}
	return nil
}

func (w *writer) finish() error {
	w.table.Flush()
	if err := w.table.Error(); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	_, err := io.WriteString(w.html, tail)
	if err = errors.Join(err, w.html.Flush()); err != nil {
		return fmt.Errorf("write the slips: %w", err)
	}
	return nil
}

// record is the slip's row.
func (s slip) record(link bool) []string {
	record := []string{strconv.FormatInt(s.ID, 10), cell(s.Name), s.Stream, s.Code}
	if link {
		record = append(record, s.Link)
	}
	return record
}

// formula is where a spreadsheet would begin a formula: at the start of a cell, and behind
// what separates cells in some countries, with these characters or their full width. A tab
// or line break is in no student's text.
var formula = regexp.MustCompile(`(^|[;|])([=+@＝＋－＠-])`)

// cell keeps spreadsheets from taking a text for a formula. They show the apostrophe to
// nobody.
func cell(text string) string { return formula.ReplaceAllString(text, "$1'$2") }

// Spaced returns a code in groups of four with hyphens between them: easier to
// copy from paper, and nothing that a spreadsheet would read as a number. Hyphens
// in a code do not count.
func Spaced(code string) string {
	const group = 4
	code = strings.ReplaceAll(code, "-", "")
	var out strings.Builder
	for len(code) > group {
		out.WriteString(code[:group])
		out.WriteByte('-')
		code = code[group:]
	}
	out.WriteString(code)
	return out.String()
}

// FileName returns the name of a school's files without its ending: letters,
// digits and hyphens, whatever the school is called, and another one for each
// school.
func FileName(school, region string) string {
	var name strings.Builder
	for _, char := range fold(school) {
		switch {
		case 'a' <= char && char <= 'z' || '0' <= char && char <= '9':
			name.WriteRune(char)
		case name.Len() > 0 && !strings.HasSuffix(name.String(), "-"):
			name.WriteByte('-')
		}
		const most = 60 // of the 255 that file systems allow
		if name.Len() >= most {
			break
		}
	}
	// The hash tells apart what letters and digits alone do not.
	sum := sha256.Sum256([]byte(fold(school) + "\x00" + fold(region)))
	return strings.TrimPrefix(strings.TrimSuffix(name.String(), "-")+"-"+hex.EncodeToString(sum[:4]), "-")
}
