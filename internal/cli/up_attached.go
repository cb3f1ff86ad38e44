package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"loadstone/internal/project"
	"loadstone/lab/driver"
	"loadstone/lab/topology"
)

const (
	// An instance that ends again and again is started ever more rarely; one that
	// has run for a while begins anew.
	firstBackOff = 500 * time.Millisecond
	mostBackOff  = time.Minute
	calmAfter    = time.Minute
	// warnEvery is how often new warnings of a system that is up are looked for.
	warnEvery = time.Second
)

// attached is a system that this process keeps up.
type attached struct {
	*app
	target  *upTarget
	flags   upFlags
	claim   *project.Claim
	ports   *ports
	running driver.Running

	warned   []string
	restarts map[string]*restart
}

// restart is how an instance is being started again.
type restart struct {
	backOff time.Duration
	last    time.Time
	// starting is held while it starts: it may end again before the driver is done with
	// that, which would refuse to start it twice at a time.
	starting sync.Mutex
}

// upAttached starts the system and keeps it up until it is told to stop.
func (a *app) upAttached(ctx context.Context, t *upTarget, f upFlags) error {
	claim, err := t.store.Claim(ctx, t.record(f.driver))
	if up, ok := errors.AsType[*project.UpError](err); ok {
		return a.alreadyUp(ctx, t, f, up.Record)
	}
	if err != nil {
		return err
	}
	k := &attached{app: a, target: t, flags: f, claim: claim, restarts: map[string]*restart{}}
	err = k.run(ctx)
	// Last, so that whoever waits for the end finds all of it gone.
	return errors.Join(err, claim.Release())
}

func (k *attached) run(ctx context.Context) (err error) {
	k.ports = &ports{}
	if k.flags.driver != dockerDriver { // which opens them itself
		if k.ports, err = openPorts(ctx, k.target, k.flags.publishAll); err != nil {
			return err
		}
	}
	defer func() { err = errors.Join(err, k.ports.close()) }()
	if err := k.ports.lend(k.target.system); err != nil {
		return err
	}
	k.warn(k.target.system.Warnings)
	k.warn(unscaled(k.target.system))
	d := k.driver(k.flags.driver, k.flags.publishAll, false)
	k.sayWhere(d)
	p := newStarting(k.Stderr)
	k.running, err = d.Up(ctx, driver.Config{
		System: k.target.system, LogDir: k.target.store.Logs(k.target.name), VolumeDir: k.target.store.Volumes(k.target.name),
		VolumePrefix: dockerVolumes(k.target.name), Progress: p.progress(),
	})
	p.close()
	if err != nil {
		return err
	}
	err = k.keep(ctx)
	if errUpdate := k.claim.Update(project.Stopping, func(*project.Record) {}); errUpdate != nil {
		err = errors.Join(err, errUpdate)
	}
	fmt.Fprintf(k.Stderr, "stopping %s\n", k.target.name)
	err = errors.Join(err, k.running.Down(context.WithoutCancel(ctx)))
	k.warn(k.running.Warnings())
	return err
}

// keep publishes the system, says where it is, and waits: for ctx, or for the end
// of an instance that is not to be started again.
func (k *attached) keep(ctx context.Context) error {
	instances := k.running.Instances()
	if err := k.ports.takeBack(ctx, k.target, instances); err != nil {
		return err
	}
	if err := k.ports.run(ctx, instances); err != nil {
		return err
	}
	k.warn(k.running.Warnings())
	err := k.claim.Update(project.Up, func(r *project.Record) {
		r.Services, r.Published = servicesOf(instances), k.ports.records()
		if k.flags.driver == dockerDriver {
			r.Published = declaredPorts(k.target.system, k.flags.publishAll)
		}
	})
	if err != nil {
		return err
	}
	k.printUp(k.target.store, k.claim.Record(), "Ctrl-C")
	return k.watch(ctx)
}

// watch waits for ctx, or for the end of a port, starting instances again that
// end. Each is started by a
// goroutine of its own, as one may take long to be ready.
func (k *attached) watch(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	type started struct{ err error }
	done := make(chan started)
	under := 0
	defer func() {
		cancel()
		for ; under > 0; under-- {
			<-done // and what it says no longer matters
		}
	}()
	ticker := time.NewTicker(warnEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-k.ports.failed:
			return err // else its clients would be turned away while all looks well
		case <-ticker.C:
			k.warn(k.running.Warnings())
		case s := <-done:
			if under--; s.err != nil && ctx.Err() == nil {
				return s.err
			}
		case ended := <-k.running.Failed():
			again := k.again(ended)
			if again == nil {
				return ended
			}
			under++
			go func() { done <- started{again(ctx)} }()
		}
	}
}

// again reports the end of an instance and returns what starts it again; nil if
// its service does not ask for that.
func (k *attached) again(ended error) func(context.Context) error {
	exit, ok := errors.AsType[*driver.ExitError](ended)
	if !ok {
		return nil
	}
	name := exit.Instance[:max(strings.LastIndexByte(exit.Instance, '-'), 0)]
	service, _ := k.target.system.Service(name)
	// A status of 0 is success, the only end that on-failure does not mean.
	wanted := service.Restart == topology.Always || service.Restart == topology.OnFailure && exit.Status != "exited with status 0"
	running, able := k.running.(restartable)
	if !wanted || !able {
		return nil
	}
	r := k.restarts[exit.Instance]
	if r == nil {
		r = &restart{}
		k.restarts[exit.Instance] = r
	}
	if time.Since(r.last) > calmAfter {
		r.backOff = firstBackOff
	}
	wait := r.backOff
	r.backOff, r.last = min(2*r.backOff, mostBackOff), time.Now().Add(wait)
	fmt.Fprintf(k.Stderr, "%s %s; it will be restarted in %v; its log is %s\n", exit.Instance, exit.Status, wait, exit.LogFile)
	return func(ctx context.Context) error {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil
		}
		r.starting.Lock()
		defer r.starting.Unlock()
		if ctx.Err() != nil {
			return nil
		}
		launched, err := running.Start(ctx, exit.Instance)
		own, ended := errors.AsType[*driver.ExitError](err)
		switch {
		case err == nil:
		case ended && own.Instance == exit.Instance, ctx.Err() != nil:
			return nil // it has ended again, which Failed reports as well
		case !launched.IsZero():
			// It may wait for something that is away. The others go on meanwhile.
			fmt.Fprintf(k.Stderr, "%s was restarted but is not ready: %v\n", exit.Instance, err)
			return nil
		default:
			return fmt.Errorf("restart %s: %w", exit.Instance, err)
		}
		fmt.Fprintf(k.Stderr, "%s is ready again\n", exit.Instance)
		return nil
	}
}

// unscaled are warnings of services whose replicas an experiment would have follow the load.
func unscaled(s *topology.System) (all []string) {
	for i := range s.Services {
		if service := &s.Services[i]; service.Autoscale != nil {
			all = append(all, fmt.Sprintf("service %s: x-autoscale is only followed by `loadstone run`; here its replicas stay %d", service.Name, service.Replicas))
		}
	}
	return all
}

// warn prints those that are new.
func (k *attached) warn(texts []string) {
	for _, w := range texts {
		if !slices.Contains(k.warned, w) {
			k.warned = append(k.warned, w)
			fmt.Fprintf(k.Stderr, "warning: %s\n", w)
		}
	}
}

func servicesOf(instances []topology.Instance) []project.Service {
	var all []project.Service
	for _, in := range instances {
		if len(all) == 0 || all[len(all)-1].Name != in.Service {
			all = append(all, project.Service{Name: in.Service})
		}
		address := in.Host
		if in.Port > 0 {
			address = net.JoinHostPort(in.Host, strconv.Itoa(in.Port))
		}
		s := &all[len(all)-1]
		s.Addresses = append(s.Addresses, address)
	}
	return all
}
