package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"loadstone/block/pause"
	"loadstone/lab/driver"
)

const (
	// lostAfter is how long the API server may not answer until the run is given up: what
	// becomes of the pods meanwhile is not seen.
	lostAfter = 15 * time.Second
	// askEvery is how often it is asked whether it is there, while a watch has nothing to tell:
	// one that stands still ends no watch.
	askEvery = 5 * time.Second
	// watchAgain is the pause before it is asked again.
	watchAgain = 300 * time.Millisecond
	// watchFor bounds one watch, after which all pods are listed again.
	watchFor = 5 * time.Minute
	// logWithin bounds the wait for the end of the log of a container that has ended.
	logWithin = 5 * time.Second
)

// patience is how long the API server may not answer.
func (r *Running) patience() time.Duration { return cmp.Or(r.config.lostAfter, lostAfter) }

// watch follows the pods until Down ends it.
func (r *Running) watch(ctx context.Context) {
	ctx, r.unwatch = context.WithCancel(context.WithoutCancel(ctx))
	r.watched = make(chan struct{})
	go func() {
		defer close(r.watched)
		answered := time.Now()
		for ctx.Err() == nil {
			err := r.follow(ctx, func() { answered = time.Now() })
			if ctx.Err() != nil {
				return
			}
			if err != nil && time.Since(answered) > r.patience() {
				if !r.Stopping() {
					r.Fail(fmt.Errorf("the cluster is lost: %w", err))
				}
				return
			}
			pause.For(ctx, watchAgain)
		}
	}()
}

// follow lists all pods, and then takes each change until the watch ends.
func (r *Running) follow(ctx context.Context, answered func()) error {
	var list *corev1.PodList
	err := r.cluster.call(ctx, "list the pods", func(ctx context.Context) (err error) {
		list, err = r.cluster.CoreV1().Pods(r.name).List(ctx, metav1.ListOptions{})
		return err
	})
	if err != nil {
		return err
	}
	answered()
	there := map[string]bool{}
	for i := range list.Items {
		pod := &list.Items[i]
		there[pod.Labels[instanceLabel]] = true
		r.see(ctx, pod, false)
	}
	for _, in := range r.instances {
		if last, _ := in.seen(); last != nil && !there[in.Name] {
			r.see(ctx, last, true)
		}
	}
	seconds := int64(watchFor / time.Second)
	w, err := r.cluster.CoreV1().Pods(r.name).Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion, TimeoutSeconds: &seconds})
	if err != nil {
		return r.cluster.explain("watch the pods", err)
	}
	defer w.Stop()
	ask := time.NewTicker(min(askEvery, r.patience()))
	defer ask.Stop()
	for {
		select {
		case e, open := <-w.ResultChan():
			pod, ok := e.Object.(*corev1.Pod)
			if !open || !ok { // it is over, or says so with an error: all are listed again
				return nil
			}
			answered()
			r.see(ctx, pod, e.Type == "DELETED")
		case <-ask.C:
			err := r.cluster.call(ctx, "list the pods", func(ctx context.Context) error {
				_, err := r.cluster.CoreV1().Pods(r.name).List(ctx, metav1.ListOptions{Limit: 1})
				return err
			})
			if err != nil {
				return err
			}
			answered()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// see takes a pod as it is now, or was when it went.
func (r *Running) see(ctx context.Context, pod *corev1.Pod, gone bool) {
	in := r.byName[pod.Labels[instanceLabel]]
	if in == nil {
		return
	}
	in.mu.Lock()
	if in.uid == "" && pod.UID != in.past {
		in.uid = pod.UID
	}
	if in.uid != pod.UID { // of an earlier life
		in.mu.Unlock()
		return
	}
	in.latest = pod
	if gone {
		in.latest = nil
	}
	close(in.changed)
	in.changed = make(chan struct{})
	if c, ok := started(pod); ok && in.log == nil && c.ContainerID != "" {
		in.log = in.follow(ctx, pod.Name)
	}
	l := in.Life()
	ended := l != nil && in.ending != l && (gone || over(pod))
	if ended {
		in.ending = l
	}
	in.mu.Unlock()
	if ended {
		r.ends.Go(func() { in.ended(ctx, l, pod) })
	}
}

// over says whether the container of a pod has ended, or never will begin.
func over(pod *corev1.Pod) bool {
	for i := range pod.Status.ContainerStatuses {
		if pod.Status.ContainerStatuses[i].State.Terminated != nil {
			return true
		}
	}
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// ended handles the end of a life.
func (in *instance) ended(ctx context.Context, l *driver.Life, pod *corev1.Pod) {
	in.mu.Lock()
	log := in.log
	in.mu.Unlock()
	var lines []string
	if log != nil {
		log.finish(logWithin)
		lines = log.lines()
	}
	if err := in.LeaveGroup(); err != nil {
		in.run.Warnf("%s: %v", in.Name, err)
	}
	in.End(l, in.exitError(ctx, pod, lines, l.Asked()))
}

// exitError is the end of a pod as an error, unless it is a job's good end.
func (in *instance) exitError(ctx context.Context, pod *corev1.Pod, lines []string, asked bool) error {
	e := &driver.ExitError{Instance: in.Name, Job: in.Service.Job, Log: lines, LogFile: in.logFile(), Status: "was removed from the cluster by somebody else"}
	if reason := pod.Status.Reason; reason != "" { // evicted, or refused by its node
		e.Status = fmt.Sprintf("was ended by Kubernetes (%s: %s)", reason, shortened(pod.Status.Message))
	}
	for i := range pod.Status.ContainerStatuses {
		t := pod.Status.ContainerStatuses[i].State.Terminated
		if t == nil {
			continue
		}
		if in.Service.Job && t.ExitCode == 0 {
			return nil
		}
		e.Status = fmt.Sprintf("exited with status %d", t.ExitCode)
		if name := unix.SignalName(unix.Signal(t.ExitCode - 128)); t.ExitCode > 128 && name != "" {
			e.Status = "was killed by " + name
		}
		if strings.Contains(t.Message, "executable file not found") || strings.Contains(t.Message, "no such file or directory") {
			e.Why = "there is no such program in the image (" + shortened(t.Message) + ")"
		}
	}
	in.blameMemory(ctx, e, pod, asked)
	return e
}

// blameMemory says of an end whether the limit of its memory is why.
func (in *instance) blameMemory(ctx context.Context, e *driver.ExitError, pod *corev1.Pod, asked bool) {
	limit := in.Service.Limits.Memory
	switch {
	case limit == nil:
	case outOfMemory(pod):
		e.Memory = *limit
	case asked || !e.Killed():
	case in.wasOutOfMemory(ctx):
		e.Memory = *limit
	default:
		e.Why = driver.Unexplained("Kubernetes", *limit)
	}
}

// outOfMemory says whether a pod's status says that this is why its container was killed.
func outOfMemory(pod *corev1.Pod) bool {
	return ended(pod, func(t *corev1.ContainerStateTerminated) bool { return t.Reason == "OOMKilled" })
}

// killed says whether SIGKILL has ended the container of a pod.
func killed(pod *corev1.Pod) bool {
	return ended(pod, func(t *corev1.ContainerStateTerminated) bool { return t.ExitCode == 128+int32(unix.SIGKILL) })
}

// ended says whether a container of a pod has ended in a way.
func ended(pod *corev1.Pod, how func(*corev1.ContainerStateTerminated) bool) bool {
	for i := range pod.Status.ContainerStatuses {
		if t := pod.Status.ContainerStatuses[i].State.Terminated; t != nil && how(t) {
			return true
		}
	}
	return false
}

// wasOutOfMemory waits for that: the status may say it after the end.
func (in *instance) wasOutOfMemory(ctx context.Context) bool {
	known := false
	err := in.await(ctx, driver.ReasonWithin, func(pod *corev1.Pod) (bool, error) {
		known = pod != nil && outOfMemory(pod)
		return known || pod == nil, nil
	})
	return err == nil && known
}

// lastLines waits for nothing: it is asked while the container runs.
func (in *instance) lastLines() ([]string, error) {
	in.mu.Lock()
	log := in.log
	in.mu.Unlock()
	if log == nil {
		return nil, errors.New("its container has not started")
	}
	return log.lines(), nil
}
