package archive

import (
	"os"
	"path/filepath"
	"time"
)

// Whole says whether dir holds a run that ended and that this version reads, and
// when it began. It reads no trials, so that a directory of many runs is looked
// through quickly.
func Whole(dir string) (started time.Time, ok bool) {
	var m Manifest
	if err := readJSON(filepath.Join(dir, ManifestFile), &m); err != nil || m.Schema != Schema {
		return time.Time{}, false
	}
	_, err := os.Stat(filepath.Join(dir, CompleteFile))
	return m.Started, err == nil
}
