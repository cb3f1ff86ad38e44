package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"loadstone/lab/driver"
	"loadstone/lab/host/agent"
)

const (
	// startWithin bounds the start of a container, its image pulled: a gigabyte over 20
	// Mbit/s takes seven minutes.
	startWithin = 15 * time.Minute
	// lookEvery is how often to look for what comes as no change of a pod.
	lookEvery = 500 * time.Millisecond
)

// errLost is why nothing more is heard of a pod.
var errLost = errors.New("the cluster is lost")

// instance is one pod, or one job with its pod.
type instance struct {
	driver.Instance

	run *Running
	pod *corev1.Pod  // to be made; nil for a job
	job *batchv1.Job // to be made; nil for a pod

	limited atomic.Bool // its CPU is held to its share from now on
	paused  atomic.Bool

	mu      sync.Mutex    // guards all below
	watcher *agent.Remote // of its node, which has found it; nil for none
	uid     types.UID     // of the pod that is the latest life; empty until it is known
	past    types.UID     // of the pod before it
	latest  *corev1.Pod   // as it was last seen; nil if it is gone
	changed chan struct{} // closed when latest changes
	log     *follower     // of the latest life; nil before its container runs
	ending  *driver.Life  // whose end is being handled or was
}

// seen is the pod as it was last seen, and what closes at the next change.
func (in *instance) seen() (*corev1.Pod, <-chan struct{}) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.latest, in.changed
}

// await looks at the pod at every change until done says so or returns an error, and now
// and then in between. The pod is nil while there is none.
func (in *instance) await(ctx context.Context, within time.Duration, done func(*corev1.Pod) (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("it took more than %v", within))
	defer cancel()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		pod, changed := in.seen()
		if ok, err := done(pod); ok || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-look.C:
		case <-in.run.watched:
			return errLost
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Start makes the pod and waits until its container runs or has ended. Its life begins
// before, so that the watch gives the end to it.
func (in *instance) Start(ctx context.Context) error {
	l := driver.NewLife()
	was := in.Place().Host
	in.Begin(l, driver.Place{Port: in.Service.Port}, time.Time{})
	in.mu.Lock()
	if in.uid != "" {
		in.past = in.uid
	}
	in.uid, in.latest, in.log, in.watcher = "", nil, nil, nil
	in.mu.Unlock()
	if err := in.create(ctx); err != nil {
		return err
	}
	var container corev1.ContainerStatus
	var pod *corev1.Pod
	err := in.await(ctx, startWithin, func(p *corev1.Pod) (ok bool, err error) {
		if p == nil && in.job != nil {
			return false, in.run.refused(ctx, "Job", in.job.Name)
		}
		if p == nil {
			return false, nil
		}
		pod = p
		container, ok = started(p)
		if ok || l.HasEnded() {
			return true, nil
		}
		return false, in.run.hindered(ctx, p)
	})
	if err != nil || container.State.Running == nil {
		return err // one that has ended is the watch's to report
	}
	place := driver.Place{Host: pod.Status.PodIP, Port: in.Service.Port, Enforced: in.Service.Limits.CPUs != nil}
	if was != "" && was != place.Host {
		in.run.Warnf("%s has another address since it was started again: %s, before %s; load that is offered to it directly does not reach it", in.Name, place.Host, was)
	}
	place.PID, place.Group = in.openGroup(ctx, l, pod.Spec.NodeName, container.ContainerID)
	in.Begin(l, place, container.State.Running.StartedAt.Time)
	in.run.agents.follow(ctx, in, pod.Spec.NodeName)
	if l.HasEnded() {
		return in.LeaveGroup() // which the watch has not seen
	}
	return nil
}

// started is the container of a pod once it has started, or has ended.
func started(pod *corev1.Pod) (corev1.ContainerStatus, bool) {
	for _, c := range pod.Status.ContainerStatuses {
		if c.State.Running != nil && pod.Status.PodIP != "" || c.State.Terminated != nil {
			return c, true
		}
	}
	return corev1.ContainerStatus{}, false
}

// refused says why no pods are made of a job, or of another object that has pods made; controllers
// tell that by events alone.
func (r *Running) refused(ctx context.Context, kind, name string) error {
	events, err := r.events(ctx, kind, name)
	if err != nil {
		return err
	}
	for i := range events {
		e := &events[i]
		if e.Reason != "FailedCreate" || strings.Contains(e.Message, "error looking up service account") || strings.Contains(e.Message, "status unknown for quota") {
			continue
		}
		if why := admission(e.Message); why != "" {
			return errors.New(why)
		}
		return fmt.Errorf("the cluster does not make its pod: %s", shortened(e.Message))
	}
	return nil
}

// hindered is why a pod will not start by itself; nil as long as it may.
func (r *Running) hindered(ctx context.Context, pod *corev1.Pod) error {
	if err := obstacle(pod, time.Now()); err != nil {
		return err
	}
	return r.stuck(ctx, pod)
}

// stuck says what keeps a pod's node from making its container for longer than it may; nil if
// nothing does.
func (r *Running) stuck(ctx context.Context, pod *corev1.Pod) error {
	since, ok := settled(pod)
	waited := time.Since(since)
	if !ok || waited < stuckFor || waited%askEvery > lookEvery {
		return nil
	}
	events, err := r.events(ctx, "Pod", pod.Name)
	if err != nil {
		return nil //nolint:nilerr // whether the pod starts does not depend on it; that the cluster is lost, the watch says
	}
	return hindrance(pod.Spec.NodeName, events, waited)
}

// events are what the cluster has to say of an object.
func (r *Running) events(ctx context.Context, kind, name string) (of []corev1.Event, err error) {
	err = r.cluster.call(ctx, "look why it does not start", func(ctx context.Context) error {
		list, err := r.cluster.CoreV1().Events(r.name).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=" + kind + ",involvedObject.name=" + name})
		if err == nil {
			of = list.Items
		}
		return err
	})
	return slices.DeleteFunc(of, func(e corev1.Event) bool { return e.InvolvedObject.Name != name }), err
}

// StartAgain makes the pod anew, when the one before is gone. It is not cut short: of a
// pod that was asked for nobody could say whether it comes.
func (in *instance) StartAgain(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	if err := in.remove(ctx, 0); err != nil {
		return err
	}
	return in.Start(ctx)
}

// Variables are none: services find each other by name.
func (in *instance) Variables() map[string]string { return nil }

// Stranger is nobody: a pod has its address to itself.
func (*instance) Stranger() string { return "" }

// Unreachable says what to change.
func (in *instance) Unreachable() string {
	return "; let it listen on ${BIND_HOST:-0.0.0.0}, or give it a healthcheck that says when it is ready, or, if no address of a pod can be reached from here, run loadstone on a node of the cluster"
}

// limitCPU holds the pod to its share.
func (in *instance) limitCPU(ctx context.Context) error {
	in.limited.Store(true)
	if !in.run.machine.resizes {
		return nil
	}
	return in.resize(ctx, 1)
}
