package menu

import "context"

// Searcher finds dishes by what people type.
type Searcher interface {
	// Search returns the dishes that suit a query the best, the best first, at most limit.
	// A query that says nothing finds nothing. It is safe for concurrent use.
	Search(ctx context.Context, query string, limit int) ([]Found, error)
}

// Found is a dish that was found.
type Found struct {
	// ID is that of the menu, which has the currency.
	ID       int64
	Dish     Dish
	Currency string
}
