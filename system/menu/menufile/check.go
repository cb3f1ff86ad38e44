package menufile

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"loadstone/system/menu"
)

// MaxMistakes is how many mistakes of a file are listed; the others are counted.
const MaxMistakes = 20

// maxMistakeBytes bounds the text of a mistake: one menu may have hundreds.
const maxMistakeBytes = 1000

// Mistake is what is wrong at one place of a file. Line and Column count from 1; Column is in
// bytes.
type Mistake struct {
	Line, Column int
	Text         string

	at   int64 // byte
	also int64 // byte of the place that Text names by %d; 0 if it names none
}

// InputError is the error of a file with mistakes. It wraps menu.ErrInput.
type InputError struct {
	File string
	// List has at most MaxMistakes, in the order of the file; More is how many there are
	// besides.
	List []Mistake
	More int64
}

// Error lists the mistakes as file:line:column: reason, one a line, under a summary.
func (e *InputError) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s: mistakes: %d; nothing was stored:", e.File, int64(len(e.List))+e.More)
	for _, m := range e.List {
		fmt.Fprintf(&text, "\n%s:%d:%d: %s", e.File, m.Line, m.Column, m.Text)
	}
	if e.More > 0 {
		fmt.Fprintf(&text, "\nand %d more", e.More)
	}
	return text.String()
}

// Unwrap returns menu.ErrInput.
func (e *InputError) Unwrap() error { return menu.ErrInput }

// menuError is what is wrong with one menu, on its way from the decoder.
type menuError struct{ list []Mistake }

func (b *menuError) Error() string { return b.list[0].Text }

func (b *menuError) addf(at int64, format string, args ...any) {
	text := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; ")
	if len(text) > maxMistakeBytes {
		text = strings.ToValidUTF8(text[:maxMistakeBytes], "") + " ..."
	}
	b.list = append(b.list, Mistake{at: at, Text: text})
}

func (b *menuError) orNil() error {
	if len(b.list) == 0 {
		return nil
	}
	return b
}

func wrongf(at int64, format string, args ...any) *menuError {
	b := &menuError{}
	b.addf(at, format, args...)
	return b
}

// checker reads a whole file and keeps what is wrong with it.
type checker struct {
	path   string
	list   []Mistake
	more   int64
	count  int64
	sum    uint64
	places []place
	body   []byte
}

// run fails only if the file cannot be read or the context ends.
func (c *checker) run(ctx context.Context, d decoder) error {
	for {
		m, at, err := d.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		var bad *menuError
		if err != nil && !errors.As(err, &bad) {
			return fmt.Errorf("read %s: %w", c.path, err)
		}
		if bad != nil {
			for _, mistake := range bad.list {
				c.note(mistake)
			}
		} else {
			c.body = m.AppendJSON(c.body[:0])
			c.sum += menu.Tag(c.body)
		}
		if m.ID > 0 {
			c.places = append(c.places, place{m.ID, at})
		}
		const betweenLooks = 1024
		if c.count++; c.count%betweenLooks == 0 && ctx.Err() != nil {
			return fmt.Errorf("check %s: stopped after %d menus: %w", c.path, c.count, ctx.Err())
		}
	}
}

func (c *checker) note(m Mistake) {
	if len(c.list) == MaxMistakes {
		c.more++
		return
	}
	c.list = append(c.list, m)
}

// order notes ids that come twice, and returns the places by id, or nil if the file has them
// in this order.
func (c *checker) order() []place {
	byID := func(a, b place) int { return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.at, b.at)) }
	ascending := slices.IsSortedFunc(c.places, byID)
	if !ascending {
		slices.SortFunc(c.places, byID)
	}
	for i := 1; i < len(c.places); i++ {
		if a, b := c.places[i-1], c.places[i]; a.id == b.id {
			c.note(Mistake{at: b.at, also: a.at + 1, Text: fmt.Sprintf("id is %d, as on line %%d: write each menu once", b.id)})
		}
	}
	if ascending {
		return nil
	}
	return c.places
}

// mistakes is the error of the file, if there is one.
func (c *checker) mistakes() error {
	if len(c.list) == 0 {
		if c.count == 0 {
			return fmt.Errorf("%w: %s holds no menus: write at least one", menu.ErrInput, c.path)
		}
		return nil
	}
	if err := c.locate(); err != nil {
		return err
	}
	slices.SortStableFunc(c.list, func(a, b Mistake) int { return cmp.Compare(a.at, b.at) })
	return &InputError{File: c.path, List: c.list, More: c.more}
}

// locate reads the file once more to turn bytes into lines and columns.
func (c *checker) locate() error {
	in, err := openInput(c.path)
	if err != nil {
		return err
	}
	defer in.close()
	var wanted []int64
	for _, m := range c.list {
		wanted = append(wanted, m.at, max(0, m.also-1))
	}
	slices.Sort(wanted)
	found, r := map[int64][2]int{}, bufio.NewReaderSize(in.content, bufferSize)
	line, column, at := 1, 1, int64(0)
	for _, want := range slices.Compact(wanted) {
		for ; at < want; at++ {
			char, err := r.ReadByte()
			if err != nil {
				break // the mistake is the end
			}
			if column++; char == '\n' {
				line, column = line+1, 1
			}
		}
		found[want] = [2]int{line, column}
	}
	for i := range c.list {
		m := &c.list[i]
		m.Line, m.Column = found[m.at][0], found[m.at][1]
		if m.also > 0 {
			m.Text = fmt.Sprintf(m.Text, found[m.also-1][0])
		}
	}
	return nil
}
