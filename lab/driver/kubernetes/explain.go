package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"loadstone/lab/driver"
)

// explain makes one sentence of an error of the API that says what to do.
func (c *cluster) explain(what string, err error) error {
	if err == nil {
		return nil
	}
	said := err.Error()
	switch {
	case apierrors.IsForbidden(err) && admission(said) != "":
		return &refusedError{admission(said), err}
	case apierrors.IsUnauthorized(err):
		return &refusedError{fmt.Sprintf("the cluster at %s does not know this user; look at the credentials in the file of KUBECONFIG", c.server), err}
	case apierrors.IsForbidden(err):
		return &refusedError{fmt.Sprintf("this user may not %s: %s", what, after(said, "is forbidden: ")), err}
	case unreachable(err):
		return &unreachableError{fmt.Sprintf("the API server at %s does not answer (%v); look whether the cluster is up and can be reached from here, and that KUBECONFIG is of the one you mean", c.server, root(err)), err}
	}
	return fmt.Errorf("%s: %w", what, err)
}

// admission says what to do where a quota or pod security refuses a pod; empty for anything else.
func admission(said string) string {
	if _, why, found := strings.Cut(said, "exceeded quota: "); found {
		return fmt.Sprintf("a quota of the name space refuses it (%s); raise the quota, or lower the limits or the replicas", why)
	}
	if _, why, found := strings.Cut(said, "violates PodSecurity "); found {
		return fmt.Sprintf("the cluster's pod security refuses it (%s); it needs the level privileged", shortened(why))
	}
	return ""
}

// refusedError is what the cluster does not let this user do.
type refusedError struct {
	text  string
	cause error
}

func (e *refusedError) Error() string { return e.text }

func (e *refusedError) Unwrap() error { return e.cause }

// unreachableError is an API server that does not answer.
type unreachableError struct {
	text  string
	cause error
}

func (e *unreachableError) Error() string { return e.text }

func (e *unreachableError) Unwrap() error { return e.cause }

// unreachable says whether nobody answered, in contrast to an answer that is an error.
func unreachable(err error) bool {
	if apierrors.ReasonForError(err) != metav1.StatusReasonUnknown {
		return apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsServiceUnavailable(err)
	}
	_, network := errors.AsType[net.Error](err)
	_, asked := errors.AsType[*url.Error](err)
	return network || asked || errors.Is(err, context.DeadlineExceeded)
}

// root is the innermost error that says something.
func root(err error) error {
	for {
		next := errors.Unwrap(err)
		if next == nil || next.Error() == "" {
			return err
		}
		if op, ok := next.(*net.OpError); ok { //nolint:errorlint // step by step
			return op
		}
		err = next
	}
}

// after is what follows a mark in a text, or all of it.
func after(text, mark string) string {
	if _, rest, ok := strings.Cut(text, mark); ok {
		return rest
	}
	return text
}

// unschedulableWithin is how long a pod may be refused by every node before that is the
// reason why it does not start: a claim that is being bound, and a pod that is being
// removed, keep one waiting for seconds.
const unschedulableWithin = 20 * time.Second

// obstacle says why a pod will not start by itself, and what to change; nil as long as it
// may. now decides how long it has been in the way.
func obstacle(pod *corev1.Pod, now time.Time) error {
	for i := range pod.Status.ContainerStatuses {
		w := pod.Status.ContainerStatuses[i].State.Waiting
		if w == nil {
			continue
		}
		image := pod.Spec.Containers[0].Image
		switch w.Reason {
		case "ImagePullBackOff", "ErrImageNeverPull":
			return fmt.Errorf("the image %s is not on node %s and cannot be pulled (%s); correct its name, push it, or load it onto the nodes", image, pod.Spec.NodeName, shortened(w.Message))
		case "InvalidImageName":
			return fmt.Errorf("%q is no name of an image; correct it", image)
		case "CrashLoopBackOff": // of what is started again
			return fmt.Errorf("its container ends again and again (%s); is %s the image of this program?", shortened(lastWords(&pod.Status.ContainerStatuses[i], w.Message)), image)
		case "CreateContainerConfigError", "CreateContainerError", "RunContainerError":
			return fmt.Errorf("node %s cannot make its container: %s", pod.Spec.NodeName, shortened(w.Message))
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable && now.Sub(c.LastTransitionTime.Time) > unschedulableWithin {
			advice := "lower its limits or replicas, or give the cluster room"
			if strings.Contains(c.Message, "unbound immediate PersistentVolumeClaims") {
				advice = "give the cluster a default storage class that makes volumes, or volumes that fit its claims"
			}
			return fmt.Errorf("no node takes it: %s; %s", shortened(c.Message), advice)
		}
	}
	return nil
}

// stuckFor is how long a pod may be on its node without a container before what the node says
// of it is the reason why it does not start: what a volume waits for, may come a little later
// than the pod. Where it is a volume that is slow, or still attached to another node, it is
// slowFor: one whose node is gone is let go after six minutes.
const (
	stuckFor = 2 * time.Minute
	slowFor  = 7 * time.Minute
)

// settled says since when a pod is on its node and waits for its container to be made; ok is
// false if it does not.
func settled(pod *corev1.Pod) (since time.Time, ok bool) {
	for i := range pod.Status.ContainerStatuses {
		if w := pod.Status.ContainerStatuses[i].State.Waiting; w == nil || w.Reason != "ContainerCreating" {
			return since, false
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time, true
		}
	}
	return since, false
}

// hindrance says what keeps a node from making a pod's container, if that is the last that it
// has said of it; nil if it has gone on since, such as to pull the image.
func hindrance(node string, events []corev1.Event, waited time.Duration) error {
	at := func(e *corev1.Event) time.Time {
		last := e.LastTimestamp.Time
		if e.Series != nil {
			last = e.Series.LastObservedTime.Time
		}
		if e.EventTime.After(last) {
			last = e.EventTime.Time
		}
		return last
	}
	var last *corev1.Event
	for i := range events {
		if e := &events[i]; last == nil || !at(e).Before(at(last)) {
			last = e
		}
	}
	if last == nil {
		return nil
	}
	said := shortened(last.Message)
	slow := last.Reason == "FailedAttachVolume" || strings.Contains(said, "timed out waiting")
	switch {
	case slow && waited < slowFor:
	case last.Reason == "FailedAttachVolume" && strings.Contains(said, "Multi-Attach"):
		return fmt.Errorf("its volume is in use on another node (%s); take a storage class whose volumes several nodes can mount, or keep what shares one on a single node", said)
	case last.Reason == "FailedMount", last.Reason == "FailedAttachVolume":
		return fmt.Errorf("node %s cannot mount its volumes: %s", node, said)
	case last.Reason == "FailedCreatePodSandBox":
		return fmt.Errorf("node %s cannot make its network: %s", node, said)
	}
	return nil
}

// lastWords are what a container that has ended before said last, or else what is said of it.
func lastWords(c *corev1.ContainerStatus, otherwise string) string {
	if t := c.LastTerminationState.Terminated; t != nil && t.Message != "" {
		return driver.LastLine(t.Message)
	}
	return otherwise
}

// shortened is the first line of what Kubernetes says, without its last full stop.
func shortened(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return strings.TrimRight(strings.TrimSpace(line), ".")
}
