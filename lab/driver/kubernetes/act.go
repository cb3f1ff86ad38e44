package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"loadstone/lab/driver"
	"loadstone/lab/host"
	"loadstone/lab/host/cgroup"
)

// removeWithin bounds the removal of a pod after its grace period, which the node has to
// confirm.
const removeWithin = time.Minute

// Stop deletes the pod, which has its container end in its grace period.
func (in *instance) Stop(ctx context.Context, l *driver.Life) error {
	if err := in.Resume(ctx, l); err != nil { // it is to hear of it
		in.run.Warnf("%s: %v", in.Name, err)
	}
	grace := seconds(in.Service.StopGrace)
	err := in.remove(ctx, grace)
	if ctx.Err() != nil { // there is no time
		_, err := in.kill(context.WithoutCancel(ctx), l)
		return err
	}
	if err != nil {
		return err
	}
	if !l.HasEnded() {
		return nil // it never began
	}
	if e, ok := errors.AsType[*driver.ExitError](l.Err()); ok && e.Killed() && e.Memory == 0 {
		in.run.Warnf("%s did not end within %v of its stop signal and was killed", in.Name, time.Duration(grace)*time.Second)
	}
	return nil
}

// Kill kills all processes of the pod where that can be done. Elsewhere it deletes the
// pod, whose node gives it two seconds after SIGTERM, and says so: no node gives less.
func (in *instance) Kill(ctx context.Context, l *driver.Life) error {
	killed, err := in.kill(context.WithoutCancel(ctx), l)
	if err == nil && !killed && !in.run.lost() { // else nothing was deleted
		in.run.Warnf("%s was not killed at once, which cannot be done from here: its pod was deleted, and got SIGTERM up to two seconds before SIGKILL", in.Name)
	}
	return err
}

// kill says whether SIGKILL was sent to all of it.
func (in *instance) kill(ctx context.Context, l *driver.Life) (killed bool, err error) {
	s, err := in.signal(ctx, unix.SIGKILL)
	if killed = err == nil && s.Processes > 0; killed {
		settled := time.NewTimer(removeWithin)
		defer settled.Stop()
		select {
		case <-l.Exited():
			return true, nil
		case <-in.run.watched:
		case <-settled.C:
		}
	}
	return killed, in.remove(ctx, 1)
}

// lost says whether nothing more is heard of the cluster.
func (r *Running) lost() bool {
	select {
	case <-r.watched:
		return true
	default:
		return false
	}
}

// remove deletes what the instance has in the cluster and waits until it is gone. A grace
// of 0 is for what has ended.
func (in *instance) remove(ctx context.Context, grace int64) error {
	if in.run.lost() {
		return nil // the name space takes it along
	}
	background := metav1.DeletePropagationBackground
	options := metav1.DeleteOptions{GracePeriodSeconds: &grace}
	err := in.run.cluster.call(ctx, "delete it", func(ctx context.Context) error {
		pod, _ := in.seen()
		if in.job != nil {
			err := in.run.cluster.BatchV1().Jobs(in.run.name).Delete(ctx, in.job.Name, metav1.DeleteOptions{PropagationPolicy: &background})
			if err != nil || pod == nil {
				return err
			}
		}
		name := in.Name
		if pod != nil {
			name = pod.Name
		}
		return in.run.cluster.CoreV1().Pods(in.run.name).Delete(ctx, name, options)
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	err = in.await(ctx, time.Duration(grace)*time.Second+removeWithin, func(pod *corev1.Pod) (bool, error) { return pod == nil, nil })
	if errors.Is(err, errLost) {
		return nil // the name space takes it along
	}
	if err != nil {
		return err
	}
	in.mu.Lock()
	ending := in.ending
	in.mu.Unlock()
	if ending != nil {
		<-ending.Exited() // within logWithin
	}
	return nil
}

// pauseWithin bounds the wait until all processes of a pod stand still.
const pauseWithin = 10 * time.Second

// Pause stops all processes of the pod where they can be seen, and returns when all of
// them stand still.
func (in *instance) Pause(ctx context.Context, _ *driver.Life) error {
	in.paused.Store(true)
	p := driver.Poll{Within: pauseWithin, First: 2 * time.Millisecond, Last: 20 * time.Millisecond}
	still, errSignal := 0, error(nil)
	ok, err := p.Until(ctx, nil, func(ctx context.Context) bool {
		var s cgroup.Signalled
		s, errSignal = in.signal(ctx, unix.SIGSTOP)
		if still++; s.Moving > 0 {
			still = 0
		}
		return errSignal != nil || still >= 2 // one that was just being started is seen the second time
	})
	if !ok && err == nil {
		return fmt.Errorf("its processes do not stand still after %v", pauseWithin)
	}
	return errors.Join(err, errSignal)
}

// Resume lets them go on, if they were paused.
func (in *instance) Resume(ctx context.Context, _ *driver.Life) error {
	if !in.paused.Swap(false) {
		return nil
	}
	_, err := in.signal(context.WithoutCancel(ctx), unix.SIGCONT)
	return err
}

// signal sends to all processes of the pod; those that stand still are not stopped again.
func (in *instance) signal(ctx context.Context, s unix.Signal) (to cgroup.Signalled, err error) {
	if remote := in.byAgent(); remote != nil {
		return remote.Signal(ctx, in.Name, s)
	}
	group := in.Place().Group
	if group == nil {
		return to, fmt.Errorf("its processes cannot be seen from here: %w", host.ErrUnsupported)
	}
	return group.Signal(s)
}

// said is the end of what a command wrote, to either of its outputs.
type said struct {
	mu   sync.Mutex
	tail driver.Tail
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tail.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tail.String()
}

// Run runs a command in the container. One that takes too long goes on in its container:
// the API has no way to end it.
func (in *instance) Run(ctx context.Context, argv []string, within time.Duration) (string, error) {
	bounded, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var out said
	err := in.run.cluster.exec(bounded, in.run.name, in.Name, argv, &out)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		return out.String(), fmt.Errorf("took more than %v", within)
	}
	return out.String(), err
}
