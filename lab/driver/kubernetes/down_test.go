package kubernetes

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
)

// TestWhatDownCannotDelete is left to the guardian, unless it would be refused that as well.
func TestWhatDownCannotDelete(t *testing.T) {
	t.Parallel()
	namespaces := schema.GroupResource{Resource: "namespaces"}
	for name, c := range map[string]struct {
		err  error
		want string // in the error; "" for none
	}{
		"it may not":                  {apierrors.NewForbidden(namespaces, "x", errors.New("not yours")), " is left, since "},
		"the cluster does not answer": {apierrors.NewServerTimeout(namespaces, "delete", 1), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, map[string]corev1.PodStatus{"seed": exited(0)})
			removed := filepath.Join(t.TempDir(), "removed")
			w.remover = []string{"/bin/sh", "-c", "echo $0 >" + removed}
			var refusing atomic.Bool // what watches the run asks the fake meanwhile, which takes no reactor then
			w.PrependReactor("delete", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) { return refusing.Load(), nil, c.err })
			up, err := w.up(t.Context(), system(t, shop))
			if err != nil {
				t.Fatal(err)
			}
			r := up.(*Running)
			refusing.Store(true)
			ctx := t.Context()
			if c.want == "" { // this is tried again until then
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, time.Second)
				defer cancel()
			}
			if err := r.removeAll(ctx); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), r.name+c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			text, err := os.ReadFile(removed)
			if handed := err == nil && strings.TrimSpace(string(text)) == r.name; handed != (c.want == "") {
				t.Errorf("the guardian has removed %q, %v", text, err)
			}
			r.guard = nil // it has ended
			if err := r.Down(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
}
