package serve

import (
	"context"
	"fmt"
	"net/http"

	"loadstone/block/lifecycle"
	"loadstone/system/patterns/job"
)

// openJobs opens GET /handle, and PUT /pool on the admin address.
func (s *service) openJobs(context.Context) error {
	cfg := s.cfg.Jobs
	cfg.Registerer = s.registry
	h, err := job.New(cfg)
	if err != nil {
		return fmt.Errorf("open the jobs: %w", err)
	}
	s.group.Add(lifecycle.Component{Name: "jobs", Close: h.Close})
	s.routes.add("GET", "/handle", h.Handle)
	s.admin.Handle("PUT /pool", http.HandlerFunc(h.Resize))
	return nil
}
