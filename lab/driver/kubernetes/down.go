package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"loadstone/lab/driver"
	"loadstone/lab/driver/guardian"
)

const (
	// removeAllWithin bounds the removal of a name space: some seconds of controllers'
	// work, and with a last call of the API less than the minute that a guardian gives a command.
	removeAllWithin = 35 * time.Second
	// removeAgain is the pause before another try.
	removeAgain = 200 * time.Millisecond
	// guardFor is how long the guardian tries what the lab could not: an API server that is upgraded, or
	// whose machine starts again, answers by then.
	guardFor = 15 * time.Minute
)

// CleanUp is for Core.
func (r *Running) CleanUp(ctx context.Context) error {
	var errs []error
	if r.machine != nil {
		errs = append(errs, r.machine.Local.Close()) //nolint:contextcheck // it restores whatever has ended
	}
	if r.agents != nil {
		errs = append(errs, r.agents.end())
	}
	if r.guard != nil {
		errs = append(errs, r.removeAll(ctx))
	}
	if r.watched != nil {
		r.unwatch()
		<-r.watched
	}
	r.ends.Wait()
	for _, in := range r.instances {
		errs = append(errs, in.LeaveGroup())
	}
	return errors.Join(errs...)
}

// removeAll deletes the name space. Where that fails the guardian tries again, also after the lab has ended, unless
// the cluster refuses it.
func (r *Running) removeAll(ctx context.Context) error {
	if !r.made {
		return r.guard.Done()
	}
	err := r.cluster.remove(ctx, r.name)
	if err == nil {
		return r.guard.Done()
	}
	left := fmt.Errorf("the name space %s is left, since %w", r.name, err)
	const byHand = "delete it with `kubectl delete namespace %s`"
	if Refused(err) {
		return errors.Join(fmt.Errorf("%w; "+byHand, left, r.name), r.guard.Done())
	}
	switch errLeave := r.guard.Leave(); {
	case errLeave == nil:
		return nil
	case errors.Is(errLeave, guardian.ErrGoesOn):
		return fmt.Errorf("%w; for %g minutes this is tried again in the background, and then the next run on this machine deletes it; or "+byHand, left, guardFor.Minutes(), r.name)
	default:
		return errors.Join(fmt.Errorf("%w; the next run on this machine deletes it; or "+byHand, left, r.name), errLeave)
	}
}

// Refused says whether an error is that the cluster does not let this user do something, which it would not later either.
func Refused(err error) bool {
	_, refused := errors.AsType[*refusedError](err)
	return refused
}

// Remove deletes the name space of a run with all in it. It is for the guardian, which
// runs it as a program: env says where the cluster is. A name that is not that of a run is an
// error, so that nothing else is ever deleted.
func Remove(ctx context.Context, env map[string]string, namespace string) error {
	c, err := connect(env)
	if err != nil {
		return err
	}
	return c.remove(ctx, namespace)
}

// remove deletes a name space and waits until it is gone. An API server that does not
// answer is asked again.
func (c *cluster) remove(ctx context.Context, namespace string) error {
	if _, ok := driver.RunOwner(namespace); !ok {
		return fmt.Errorf("the name space %s is not removed: it is none of a run", namespace)
	}
	var err error
	p := driver.Poll{Within: removeAllWithin, First: removeAgain, Last: time.Second}
	now := int64(0)
	gone, errEnd := p.Until(ctx, nil, func(ctx context.Context) bool {
		err = c.call(ctx, "delete the name space "+namespace, func(ctx context.Context) error {
			// What still runs when this is called was asked to end, or nobody waits for it.
			_ = c.CoreV1().Pods(namespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{}) // the name space takes them along
			return c.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{})
		})
		return apierrors.IsNotFound(err) || Refused(err)
	})
	switch {
	case gone && apierrors.IsNotFound(err):
		return nil
	case errEnd != nil:
		return errEnd
	case err != nil && !apierrors.IsConflict(err):
		return err
	}
	return fmt.Errorf("the name space %s is still being deleted after %v; see what keeps it with `kubectl get all --namespace %s`", namespace, removeAllWithin, namespace)
}
