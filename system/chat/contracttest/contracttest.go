// Package contracttest reads the contract of the chat in tests.
package contracttest

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
)

// Records reads a file of the contract: a record on each line, and at least one.
func Records[T any](t *testing.T, file string) (all []T) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(data) {
		var r T
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, r)
	}
	if len(all) == 0 {
		t.Fatalf("%s has no records", file)
	}
	return all
}
