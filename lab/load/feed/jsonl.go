package feed

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// mostLine is how long a line of JSON may be.
const mostLine = 16 << 20

// readJSONL reads lines of JSON objects. The columns are the keys of the first
// line; keys that only later lines have are left out. A text is taken as it is,
// anything else as its JSON without spaces. Empty lines are skipped.
func readJSONL(in input) (*table, []string, error) {
	var (
		rows  *table
		names []string
		row   = map[string]json.RawMessage{}
		text  bytes.Buffer
	)
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, mostLine)
	number := 0
	for lines.Scan() {
		number++
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		clear(row)
		if err := decodeLine(lines.Bytes(), &row); err != nil {
			return nil, nil, fmt.Errorf("%s:%d%w", in.path, number, err)
		}
		if rows == nil {
			names = keys(row, in.want)
			rows = newTable(len(names), in.room)
			if len(names) == 0 {
				return nil, nil, fmt.Errorf("%s:%d: the object has no keys: write lines such as {\"id\": 1}", in.path, number)
			}
		}
		for _, name := range names {
			value, ok := row[name]
			if !ok {
				return nil, nil, fmt.Errorf("%s:%d: the object has no key %q: give every line the keys that are used; this one has %s", in.path, number, name, list(keys(row, "")))
			}
			if err := appendJSON(&text, value); err != nil {
				return nil, nil, fmt.Errorf("%s:%d: key %q: %w", in.path, number, name, err)
			}
			rows.add(text.String())
		}
		rows.endRow()
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, nil, fmt.Errorf("%s:%d: the line is longer than %d MiB: put each object on a line of its own", in.path, number+1, mostLine>>20)
	case err != nil:
		return nil, nil, fmt.Errorf("read %s: %w", in.path, err)
	case rows == nil:
		return nil, nil, fmt.Errorf("%s: it is empty: give it lines such as {\"id\": 1}", in.path)
	}
	return rows, names, nil
}

// keys returns the columns to read of a row: the wanted, or if that is empty
// all, in alphabetical order.
func keys(row map[string]json.RawMessage, want string) []string {
	if want != "" {
		return []string{want}
	}
	return slices.Sorted(maps.Keys(row))
}

// decodeLine decodes one object. Its error begins with the column, if it is
// about one, and a colon.
func decodeLine(line []byte, row *map[string]json.RawMessage) error {
	err := json.Unmarshal(line, row)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf(":%d: not JSON: %w: write one object on each line", max(syntax.Offset, 1), syntax)
	}
	if err != nil || *row == nil { // another type, or null
		*row = map[string]json.RawMessage{}
		return errors.New(`: not an object: write lines such as {"id": 1}`)
	}
	return nil
}

// appendJSON makes text the value that a placeholder takes.
func appendJSON(text *bytes.Buffer, value json.RawMessage) error {
	text.Reset()
	if value[0] != '"' {
		return json.Compact(text, value)
	}
	var s string
	if err := json.Unmarshal(value, &s); err != nil {
		return err
	}
	text.WriteString(s)
	return nil
}
