package serve

import (
	"context"
	"fmt"

	"loadstone/block/lifecycle"
	"loadstone/system/patterns/movie"
)

// openMovies opens GET /getPopularMovies.
func (s *service) openMovies(context.Context) error {
	cfg := s.cfg.Movies
	cfg.Registerer = s.registry
	h, err := movie.New(cfg)
	if err != nil {
		return fmt.Errorf("open the movies: %w", err)
	}
	s.group.Add(lifecycle.Component{Name: "movies", Run: h.Run, Close: h.Close})
	s.readiness = append(s.readiness, h.Ready)
	s.routes.add("GET", "/getPopularMovies", h.Handle)
	return nil
}
