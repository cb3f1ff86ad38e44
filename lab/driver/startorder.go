package driver

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"loadstone/lab/topology"
)

// Steps is what Order does with one instance.
type Steps struct {
	// Start launches it, in the order in which instances were added.
	Start func(ctx context.Context) error
	// Ready returns when it is ready or, for a job, when it has completed.
	Ready func(ctx context.Context) error
	// Stop ends it. It is called for instances that were never started, too.
	Stop func(ctx context.Context) error
}

// Order is the services of one system. The zero Order has none. Services are added
// before Start; Start is called once, Stop at most once and after Start.
type Order struct {
	services []*service
	byName   map[string]*service
}

// service is one service with how far it is; the channels close in this order.
type service struct {
	topology.Service
	instances                   []Steps
	started, healthy, completed chan struct{}
}

// Add adds a service and its instances.
func (o *Order) Add(s topology.Service, instances []Steps) {
	if o.byName == nil {
		o.byName = map[string]*service{}
	}
	added := &service{
		Service: s, instances: instances,
		started: make(chan struct{}), healthy: make(chan struct{}), completed: make(chan struct{}),
	}
	o.services = append(o.services, added)
	o.byName[s.Name] = added
}

// Start starts all services side by side; each waits for those that it depends on.
// The first failure ends the others' waiting.
func (o *Order) Start(ctx context.Context, progress topology.Progress) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, s := range o.services {
		g.Go(func() error { return o.start(ctx, s, progress) })
	}
	return g.Wait()
}

func (o *Order) start(ctx context.Context, s *service, progress topology.Progress) error {
	for _, d := range s.DependsOn {
		if err := o.await(ctx, d); err != nil {
			return err
		}
	}
	if f := progress.Starting; f != nil {
		f(s.Name)
	}
	for _, in := range s.instances {
		if err := in.Start(ctx); err != nil {
			return err
		}
	}
	close(s.started)
	g, ctx := errgroup.WithContext(ctx)
	for _, in := range s.instances {
		g.Go(func() error { return in.Ready(ctx) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if f := progress.Ready; f != nil {
		f(s.Name)
	}
	close(s.healthy)
	if s.Job {
		close(s.completed)
	}
	return nil
}

// await blocks until a dependency is as far as its condition wants. A job is
// healthy when it has completed: it has nothing better to show.
func (o *Order) await(ctx context.Context, d topology.Dependency) error {
	s := o.byName[d.Service]
	reached := s.started
	switch d.Condition {
	case topology.Healthy:
		reached = s.healthy
	case topology.Completed:
		reached = s.completed
	}
	select {
	case <-reached:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for service %s: %w", d.Service, context.Cause(ctx))
	}
}

// Stop stops all services, each after those that depend on it, so that none loses
// what it depends on while it still works. One that fails to stop does not keep
// others from it; the first error is returned.
func (o *Order) Stop(ctx context.Context) error {
	stopped := map[string]chan struct{}{}
	dependents := map[string][]string{}
	for _, s := range o.services {
		stopped[s.Name] = make(chan struct{})
		for _, d := range s.DependsOn {
			dependents[d.Service] = append(dependents[d.Service], s.Name)
		}
	}
	var g errgroup.Group // without a context: one that fails must not keep others from stopping
	for _, s := range o.services {
		g.Go(func() error {
			defer close(stopped[s.Name])
			for _, d := range dependents[s.Name] {
				<-stopped[d]
			}
			var g errgroup.Group
			for _, in := range s.instances {
				g.Go(func() error { return in.Stop(ctx) })
			}
			return g.Wait()
		})
	}
	return g.Wait()
}
