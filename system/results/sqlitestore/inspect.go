package sqlitestore

import (
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"loadstone/block/sqlite"
	"loadstone/system/results"
)

// The start of every SQLite file, numbers big-endian, as sqlite.org/fileformat2.html
// lays it down.
const (
	sqliteMagic         = "SQLite format 3\x00"
	sqliteHeaderSize    = 100
	pageSizeOffset      = 16
	pageCountOffset     = 28
	userVersionOffset   = 60
	applicationIDOffset = 68
)

// inspect looks at a file before SQLite does, and returns its size in bytes.
// SQLite would create a missing file's name, notice a cut file only when a query
// needs the missing part, and call both by a number.
func inspect(path string) (size int64, err error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("open database %s: %w: seed or import one first", path, results.ErrMissing)
	}
	if err != nil {
		return 0, fmt.Errorf("open database: %w", err)
	}
	size, err = inspectHeader(file)
	if err := errors.Join(err, file.Close()); err != nil {
		return 0, refusal(path, err)
	}
	return size, nil
}

func inspectHeader(file *os.File) (size int64, err error) {
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() {
		return 0, fmt.Errorf("%w: it is not a file", results.ErrVersion)
	}
	var header [sqliteHeaderSize]byte
	if _, err := io.ReadFull(file, header[:]); err != nil {
		return 0, fmt.Errorf("%w: it has only %d bytes", results.ErrCorrupt, info.Size())
	}
	if string(header[:len(sqliteMagic)]) != sqliteMagic {
		return 0, fmt.Errorf("%w: it is not a SQLite database", results.ErrVersion)
	}
	number := func(offset int) int64 { return int64(binary.BigEndian.Uint32(header[offset:])) }
	if number(applicationIDOffset) != applicationID {
		return 0, fmt.Errorf("%w: it is a SQLite database of another program", results.ErrVersion)
	}
	if version := number(userVersionOffset); version != SchemaVersion {
		return 0, fmt.Errorf("%w: it has the schema version %d, this program reads version %d",
			results.ErrVersion, version, SchemaVersion)
	}
	pageSize := int64(binary.BigEndian.Uint16(header[pageSizeOffset:]))
	if pageSize == 1 { // 65536 does not fit
		pageSize = 1 << 16
	}
	if want := number(pageCountOffset) * pageSize; info.Size() != want {
		return 0, fmt.Errorf("%w: it has %d bytes instead of %d", results.ErrCorrupt, info.Size(), want)
	}
	return info.Size(), nil
}

// refusal says why the file at path cannot be served and, if the file is to
// blame, what to do. What SQLite itself complains about in a file that has our
// header is damage.
func refusal(path string, err error) error {
	damaged := errors.Is(err, results.ErrCorrupt)
	if !damaged && (sqlite.KindOf(err) != sqlite.Other || errors.Is(err, sql.ErrNoRows)) {
		err, damaged = fmt.Errorf("%w: %w", results.ErrCorrupt, err), true
	}
	if damaged || errors.Is(err, results.ErrVersion) {
		return fmt.Errorf("database %s is refused: %w; seed or import it again", path, err)
	}
	return fmt.Errorf("open database %s: %w", path, err)
}

// explain makes SQLite's errors of a damaged file wrap results.ErrCorrupt.
func explain(err error) error {
	switch sqlite.KindOf(err) {
	case sqlite.Corrupt:
		return fmt.Errorf("%w: %w", results.ErrCorrupt, err)
	case sqlite.Conflict:
		return fmt.Errorf("each id must be given once: %w", err)
	default:
		return err
	}
}
