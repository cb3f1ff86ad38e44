package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"loadstone/lab/driver"
	"loadstone/lab/driver/guardian"
	"loadstone/lab/topology"
)

const (
	// ownerName is the object that all others in the name space belong to.
	ownerName = "loadstone-lab"
	// resizable is the minor version of Kubernetes from which on pods are resized in place.
	resizable = 33
	// accountWithin bounds the wait for the name space's service account, which a
	// controller makes.
	accountWithin = 30 * time.Second
)

// Prepare is for Core.
func (r *Running) Prepare(ctx context.Context) error {
	var err error
	if r.name, err = driver.RunName(r.config.ProcRoot); err != nil {
		return err
	}
	if r.cluster, err = r.config.connect(); err != nil {
		return err
	}
	minor, err := r.cluster.version(ctx)
	if err != nil {
		return err
	}
	objects, err := Map(ctx, r.config.System, r.name, driver.LabHost(r.config.ProcRoot))
	if err != nil {
		return err
	}
	for _, w := range objects.Warnings {
		r.Warnf("%s", w)
	}
	if minor < resizable {
		r.Warnf("the cluster has Kubernetes 1.%d, which cannot resize pods in place (1.%d can): CPU limits hold from the start, and no CPU is changed under load", minor, resizable)
	}
	r.machine = newMachine(r, minor >= resizable)
	if err := os.MkdirAll(r.config.LogDir, 0o755); err != nil {
		return fmt.Errorf("prepare to start: %w", err)
	}
	if err := r.startGuardian(ctx); err != nil {
		return err
	}
	r.sweep(ctx)
	if err := r.create(ctx, objects); err != nil {
		return err
	}
	r.plan(objects)
	r.watch(ctx)
	return nil
}

// startGuardian has the run guarded before there is anything of it.
func (r *Running) startGuardian(ctx context.Context) error {
	guard, err := r.config.StartGuardian(ctx, r.config.LogDir)
	if err != nil {
		return err
	}
	r.guard = guard
	return r.guard.Remove(r.config.removal(r.cluster, r.name))
}

// removal is the command that removes a name space. It finds the same cluster, whatever is
// the current one when it runs, or is in the files of KUBECONFIG by then. It has all of the environment, because the
// program that fetches credentials may need any of it, with whole paths, since it runs elsewhere.
func (d Driver) removal(c *cluster, namespace string) guardian.Command {
	env := map[string]string{}
	maps.Copy(env, d.Env)
	delete(env, guardian.MarkVariable) // what has it is killed by who cleans up
	if files := env["KUBECONFIG"]; files != "" {
		list := filepath.SplitList(files)
		for i, file := range list {
			if whole, err := filepath.Abs(file); file != "" && err == nil {
				list[i] = whole
			}
		}
		env["KUBECONFIG"] = strings.Join(list, string(filepath.ListSeparator))
	}
	if c.context != "" {
		env[ContextVariable] = c.context
	}
	if c.pinned != "" {
		env[pinnedVariable] = c.pinned
	}
	command := guardian.Command{Argv: slices.Concat(d.Remover, []string{namespace}), Again: guardFor}
	for _, key := range slices.Sorted(maps.Keys(env)) {
		command.Env = append(command.Env, key+"="+env[key])
	}
	return command
}

// sweep removes what labs that no longer run have left in this cluster. It is the last of
// the nets, so what it cannot remove is worth a warning, not an error.
func (r *Running) sweep(ctx context.Context) {
	err := r.cluster.call(ctx, "look for what earlier runs left", func(ctx context.Context) error {
		list, err := r.cluster.CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: managerLabel + "=" + topology.Self})
		if err != nil {
			return err
		}
		var errs []error
		for i := range list.Items {
			ns := &list.Items[i]
			p, ok := driver.RunOwner(ns.Name)
			if ok && ns.DeletionTimestamp == nil && ns.Annotations[labAnnotation] == driver.LabHost(r.config.ProcRoot) && !p.Alive(r.config.ProcRoot) {
				errs = append(errs, r.cluster.remove(ctx, ns.Name))
			}
		}
		return errors.Join(errs...)
	})
	if err != nil {
		r.Warnf("what earlier runs left could not be removed: %v", err)
	}
}

// create makes the name space and all in it but what runs. All belongs to one object.
func (r *Running) create(ctx context.Context, o *Objects) error {
	api, none := r.cluster.CoreV1(), metav1.CreateOptions{}
	put := func(what string, do func(context.Context) error) error {
		return r.cluster.call(ctx, "make "+what, do)
	}
	err := put("a name space", func(ctx context.Context) error {
		_, err := api.Namespaces().Create(ctx, o.Namespace, none)
		return err
	})
	if Refused(err) {
		return err
	}
	r.made = true // or may be: of a call without an answer nobody can say
	if err != nil {
		return err
	}
	if err := r.makeOwner(ctx); err != nil {
		return err
	}
	for _, x := range o.ConfigMaps {
		x.OwnerReferences = r.owners()
		err = errors.Join(err, put("config map "+x.Name, func(ctx context.Context) error { _, err := api.ConfigMaps(r.name).Create(ctx, x, none); return err }))
	}
	for _, x := range o.Secrets {
		x.OwnerReferences = r.owners()
		err = errors.Join(err, put("secret "+x.Name, func(ctx context.Context) error { _, err := api.Secrets(r.name).Create(ctx, x, none); return err }))
	}
	for _, x := range o.Claims {
		x.OwnerReferences = r.owners()
		err = errors.Join(err, put("claim "+x.Name, func(ctx context.Context) error {
			_, err := api.PersistentVolumeClaims(r.name).Create(ctx, x, none)
			return err
		}))
	}
	for _, x := range o.Services {
		x.OwnerReferences = r.owners()
		err = errors.Join(err, put("service "+x.Name, func(ctx context.Context) error { _, err := api.Services(r.name).Create(ctx, x, none); return err }))
	}
	return err
}

func (r *Running) owners() []metav1.OwnerReference { return []metav1.OwnerReference{*r.owner} }

// makeOwner makes the object that all others belong to.
func (r *Running) makeOwner(ctx context.Context) error {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: ownerName, Namespace: r.name, Labels: map[string]string{managerLabel: topology.Self},
	}}
	return r.cluster.call(ctx, "make the owner of the objects", func(ctx context.Context) error {
		made, err := r.cluster.CoreV1().ConfigMaps(r.name).Create(ctx, object, metav1.CreateOptions{})
		if err == nil {
			r.owner = &metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: ownerName, UID: made.UID}
		}
		return err
	})
}

// plan makes the instances of pods and jobs.
func (r *Running) plan(o *Objects) {
	pods, jobs := map[string]*corev1.Pod{}, map[string]*batchv1.Job{}
	for _, pod := range o.Pods {
		pods[pod.Name] = pod
	}
	for _, job := range o.Jobs {
		jobs[job.Name] = job
	}
	for _, service := range r.config.System.Services {
		var all []*driver.Instance
		for i := range service.Replicas {
			in := &instance{run: r, changed: make(chan struct{})}
			in.Instance = driver.Instance{
				Service: service, Index: i + 1, Name: fmt.Sprintf("%s-%d", service.Name, i+1), Actions: in, LimitCPU: in.limitCPU,
			}
			in.pod, in.job = pods[in.Name], jobs[in.Name]
			r.instances, r.byName[in.Name] = append(r.instances, in), in
			all = append(all, &in.Instance)
		}
		r.Add(service, all...)
	}
}

// create makes the instance's pod or job. A name space is not ready for pods at once.
func (in *instance) create(ctx context.Context) error {
	wait := driver.Poll{Within: accountWithin, First: 50 * time.Millisecond, Last: time.Second}
	var err error
	_, ended := wait.Until(ctx, nil, func(ctx context.Context) bool {
		err = in.run.cluster.call(ctx, "make it", in.createOnce)
		return err == nil || !early(err)
	})
	return errors.Join(err, ended)
}

// early says whether what is refused may be granted in a moment: the service account is
// made by a controller, and so are the figures of a quota.
func early(err error) bool {
	said := err.Error()
	return apierrors.IsForbidden(err) && (strings.Contains(said, "error looking up service account") || strings.Contains(said, "status unknown for quota"))
}

func (in *instance) createOnce(ctx context.Context) error {
	if in.job != nil {
		job := in.job.DeepCopy()
		job.OwnerReferences = in.run.owners()
		_, err := in.run.cluster.BatchV1().Jobs(in.run.name).Create(ctx, job, metav1.CreateOptions{})
		return err
	}
	pod := in.pod.DeepCopy()
	pod.OwnerReferences = in.run.owners()
	if in.run.agents != nil { // to where it can be seen
		pod.Spec.Affinity = on(in.run.agents.names())
	}
	if in.run.machine.resizes && !in.limited.Load() { // until the system is up
		delete(pod.Spec.Containers[0].Resources.Limits, corev1.ResourceCPU)
	}
	_, err := in.run.cluster.CoreV1().Pods(in.run.name).Create(ctx, pod, metav1.CreateOptions{})
	return err
}
