package docker

import (
	"context"
	"errors"
	"fmt"
	"time"
)

func (r *Running) instance(name string) *instance {
	for _, in := range r.instances {
		if in.name == name {
			return in
		}
	}
	return nil
}

// Start starts an instance again that has ended by itself: the same container,
// with its files and its log; its address may be another one. launched is when
// it began, and zero if it could not. Start returns when the instance is ready,
// as Up would, and when ctx ends before that: the instance then goes on as it
// is. If it ends again before it is ready, that is the error, and Failed gets it
// too.
func (r *Running) Start(ctx context.Context, name string) (launched time.Time, err error) {
	ctx, done, err := r.acts.Begin(ctx)
	if err != nil {
		return time.Time{}, err
	}
	defer done()
	in := r.instance(name)
	if in == nil {
		return time.Time{}, fmt.Errorf("there is no instance %s", name)
	}
	if !in.starting.TryLock() {
		return time.Time{}, fmt.Errorf("%s is being started already", name)
	}
	defer in.starting.Unlock()
	// Not cut short: of a command that was killed nobody could say whether the
	// container runs. It takes tenths of a second, and bounds itself.
	if err := in.startAgain(context.WithoutCancel(ctx)); err != nil {
		return time.Time{}, fmt.Errorf("start %s: %w", name, err)
	}
	return in.describe().StartedAt, in.awaitReady(ctx)
}

// startAgain begins another life. The watch gives the container's next end to it,
// so it has to be there before the container is started.
func (in *instance) startAgain(ctx context.Context) error {
	before := in.current()
	if !before.hasEnded() {
		return errors.New("it has not ended")
	}
	in.mu.Lock()
	in.life = newLife()
	group := in.group
	in.group = nil // Docker has removed it
	in.mu.Unlock()
	var err error
	if group != nil {
		err = group.Close()
	}
	if err = errors.Join(err, in.start(ctx)); err != nil && !in.isStarted() {
		in.mu.Lock()
		in.life = before
		in.mu.Unlock()
	}
	return err
}
