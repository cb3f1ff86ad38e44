package results

import "context"

// Page is one student's finished answer.
type Page struct {
	// Body is the JSON that the student gets. It may lie in memory that the
	// store owns: it is valid for as long as the Page is reachable, must not be
	// modified, and must be copied (with runtime.KeepAlive on the Page after
	// the copy) if it is to outlive it.
	Body []byte
	// Code is the access code that opens the page, under the same rules.
	Code []byte
	// Tag identifies Body for HTTP validation: a hash of its bytes.
	Tag uint64

	// Owner keeps the memory behind Body and Code alive; nil if they are on
	// the heap.
	Owner any
}

// Store finds pages. It is safe for concurrent use.
//
// Lookup returns ErrNotFound for an id that no student has. Whether a page may
// be shown to the caller is not the store's business.
type Store interface {
	Lookup(ctx context.Context, id int64) (Page, error)
	Close() error
}
