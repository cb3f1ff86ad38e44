package kubernetes

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What a node has got over is no reason to give up.
func TestAPodThatGoesOnIsWaitedFor(t *testing.T) {
	t.Parallel()
	failed := corev1.Event{Reason: "FailedMount", LastTimestamp: metav1.NewTime(time.Unix(1, 0))}
	pulling := corev1.Event{Reason: "Pulling", EventTime: metav1.NewMicroTime(time.Unix(2, 0))}
	again := corev1.Event{Reason: "FailedMount", Series: &corev1.EventSeries{LastObservedTime: metav1.NewMicroTime(time.Unix(3, 0))}}
	if err := hindrance("node1", []corev1.Event{pulling, failed}, time.Hour); err != nil {
		t.Errorf("it pulls now: %v", err)
	}
	if err := hindrance("node1", []corev1.Event{again, pulling}, stuckFor); err == nil {
		t.Error("it cannot mount, and nothing is said of it")
	}
	attached := []corev1.Event{{Reason: "FailedAttachVolume", Message: "Multi-Attach error"}}
	if early, late := hindrance("node1", attached, slowFor-1), hindrance("node1", attached, slowFor); early != nil || late == nil {
		t.Errorf("a volume that another node has: %v, and then %v", early, late)
	}
	if _, ok := settled(&corev1.Pod{Status: running()}); ok {
		t.Error("one that runs waits for nothing")
	}
}
