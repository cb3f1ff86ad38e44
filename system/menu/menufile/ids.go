package menufile

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"loadstone/block/dataset"
	"loadstone/system/menu"
)

// MaxIDs is how many ids ReadIDs takes, at 8 bytes of memory each.
const MaxIDs = 20_000_000

// ReadIDs reads ids of menus, one a line, compressed by gzip or not; empty lines do not count. Name is
// what errors call the file. Its mistakes are an *InputError; the error wraps menu.ErrInput if the file
// is to blame.
func ReadIDs(ctx context.Context, name string, from io.Reader) ([]int64, error) {
	in := &input{path: name, hash: sha256.New()}
	if err := in.unpack(from); err != nil {
		return nil, in.explain(err)
	}
	var ids []int64
	var wrong checker
	note := func(line int, format string, args ...any) {
		wrong.note(Mistake{Line: line, Column: 1, Text: fmt.Sprintf(format, args...)})
	}
	scan, line := bufio.NewScanner(in.content), 1
	for ; scan.Scan() && ctx.Err() == nil; line++ {
		text := bytes.TrimSpace(scan.Bytes())
		id, ok := dataset.ParseID(text)
		switch {
		case len(text) == 0:
		case !ok:
			note(line, "%.40q is not an id: write 1 to 18 digits that do not begin with 0", text)
		case len(ids) == MaxIDs:
			return nil, fmt.Errorf("%w: %s has more than %d ids: leave out those that are asked for least", menu.ErrInput, name, MaxIDs)
		default:
			ids = append(ids, id)
		}
	}
	switch err := scan.Err(); {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, bufio.ErrTooLong):
		note(line, "the line has more than %d bytes: write an id a line; what follows was not read", bufio.MaxScanTokenSize)
	case err != nil:
		return nil, in.explain(fmt.Errorf("read %s: %w", name, err))
	}
	if len(wrong.list) > 0 {
		return nil, &InputError{File: name, List: wrong.list, More: wrong.more}
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("%w: %s holds no ids: write one a line", menu.ErrInput, name)
	}
	return ids, nil
}
