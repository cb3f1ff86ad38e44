package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"loadstone/lab/driver"
)

const (
	// removeAllWithin bounds the removal of a name space: some seconds of controllers'
	// work, and less than a guardian gives a command.
	removeAllWithin = 50 * time.Second
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

// removeAll deletes the name space. Where that fails the guardian goes on trying, after the lab has ended.
func (r *Running) removeAll(ctx context.Context) error {
	if !r.made {
		return r.guard.Done()
	}
	err := r.cluster.remove(ctx, r.name)
	if err == nil {
		return r.guard.Done()
	}
	err = fmt.Errorf("the name space %s is left, since %w; for %g minutes this is tried again in the background, and then the next run in this cluster deletes it, or `kubectl delete namespace %s`", r.name, err, guardFor.Minutes(), r.name)
	return errors.Join(err, r.guard.HandOver())
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
		_, refused := errors.AsType[*refusedError](err)
		return apierrors.IsNotFound(err) || refused
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
