package kubernetes

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"loadstone/lab/topology"
)

// filesDir is the directory in a generator's pod below which it has the files that a load is
// made with, each at the path that it has here.
const filesDir = "/load-files"

// CheckFiles says whether files can be taken along to generators in pods.
func CheckFiles(paths []string) error {
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if err := tooLarge(path, info.Size()); err != nil {
			return err
		}
	}
	return nil
}

func tooLarge(path string, size int64) error {
	if size <= filesLimit {
		return nil
	}
	return fmt.Errorf("the load is made with the file %s of %d KiB, and what is taken along to pods is in a Secret, which holds %d KiB; take a part of it, or have it at the same place on the machines of --generators ssh://MACHINE", path, (size+1023)>>10, filesLimit>>10)
}

// carry takes files along to a pod: it returns the Secrets that they are in, as few as there
// can be in their order, and gives the pod a volume with all of them. Secrets, because the users
// of a feed have passwords: who may look into ConfigMaps is not to see them.
func carry(pod *corev1.PodSpec, namespace string, paths []string) ([]*corev1.Secret, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	var all []*corev1.Secret
	var sources []corev1.VolumeProjection
	room := 0
	there := map[string]bool{} // of what has two paths here, once
	for i, path := range paths {
		whole, err := filepath.Abs(path)
		if err != nil {
			return nil, err
		}
		if there[whole] {
			continue
		}
		there[whole] = true
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("take a file of the load along: %w", err)
		}
		if err := tooLarge(path, int64(len(text))); err != nil {
			return nil, err
		}
		if room -= len(text); len(all) == 0 || room < 0 {
			room = filesLimit - len(text)
			all = append(all, &corev1.Secret{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
				ObjectMeta: metav1.ObjectMeta{
					Name: fmt.Sprintf("%s-files-%d", generatorsName, len(all)+1), Namespace: namespace, Labels: map[string]string{managerLabel: topology.Self},
				},
				Data: map[string][]byte{},
			})
			name := corev1.LocalObjectReference{Name: all[len(all)-1].Name}
			sources = append(sources, corev1.VolumeProjection{Secret: &corev1.SecretProjection{LocalObjectReference: name}})
		}
		key := fmt.Sprintf("file-%d", i+1)
		all[len(all)-1].Data[key] = text
		into := sources[len(sources)-1].Secret
		into.Items = append(into.Items, corev1.KeyToPath{Key: key, Path: strings.TrimPrefix(whole, "/")})
	}
	const volume = "files"
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: sources}}})
	pod.Containers[0].VolumeMounts = append(pod.Containers[0].VolumeMounts, corev1.VolumeMount{Name: volume, MountPath: filesDir, ReadOnly: true})
	return all, nil
}

// makeFiles makes the Secrets in the cluster.
func (r *Running) makeFiles(ctx context.Context, all []*corev1.Secret) error {
	for _, x := range all {
		x.OwnerReferences = r.owners()
		err := r.cluster.call(ctx, "take the files of the load along", func(ctx context.Context) error {
			_, err := r.cluster.CoreV1().Secrets(r.name).Create(ctx, x, metav1.CreateOptions{})
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
