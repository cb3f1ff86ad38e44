package topology

import (
	"context"

	"github.com/compose-spec/compose-go/v2/types"
)

// Project is the merged Compose project that the System was converted from, for
// a driver that hands it on to Docker. Its variables have the values that Load
// was given; services that Without left out are still in it.
func (s *System) Project(ctx context.Context) (*types.Project, error) {
	l, err := newLoad(s.config, nil)
	if err != nil {
		return nil, err
	}
	model, err := l.model(ctx, l.files...)
	if err != nil {
		return nil, l.blame(err)
	}
	project, err := l.project(model)
	if err != nil {
		return nil, l.blame(err)
	}
	return project, nil
}
