package serve

import (
	"context"
	"fmt"

	"loadstone/block/lifecycle"
	"loadstone/system/patterns/book"
)

// openBooks opens GET /getBook/{id}.
func (s *service) openBooks(ctx context.Context) error {
	cfg := s.cfg.Books
	cfg.Registerer = s.registry
	h, err := book.New(ctx, cfg)
	if err != nil {
		return fmt.Errorf("open the books: %w", err)
	}
	s.group.Add(lifecycle.Component{Name: "books", Close: h.Close})
	s.routes.addPrefix("GET", book.Path, h.Handle)
	return nil
}
