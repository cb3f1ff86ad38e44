package kubernetes

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/compose-spec/compose-go/v2/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"loadstone/lab/topology"
)

// filesLimit bounds the files of one mount, and each of a load: an object of the API is at most a mebibyte,
// with some room for the names.
const filesLimit = 1000 << 10

// mounts are a service's volumes as a pod has them:
//
//   - a named volume is a claim, an unnamed one or a tmpfs is the pod's own;
//   - a file, or a directory that is mounted read-only, of the Compose file's directory is
//     taken along as a ConfigMap, for no node has it, or as a Secret if not everybody may read it
//     here, or its path says that it is one;
//   - any other path is one of the node that the pod is on, as with Docker it is one of the
//     machine;
//   - configs and secrets are files of a ConfigMap or a Secret.
func (m *mapping) mounts(s *topology.Service, c *types.ServiceConfig) ([]corev1.Volume, []corev1.VolumeMount) {
	p := podMounts{mapping: m, service: s}
	for i := range c.Volumes {
		p.volume(&c.Volumes[i])
	}
	for _, target := range c.Tmpfs {
		target, _, _ = strings.Cut(target, ":")
		p.add(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}, corev1.VolumeMount{MountPath: target})
	}
	if c.ShmSize > 0 {
		size := resource.NewQuantity(int64(c.ShmSize), resource.BinarySI)
		p.add(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: size}}, corev1.VolumeMount{MountPath: "/dev/shm"})
	}
	for _, x := range c.Configs {
		p.object("configs", types.FileReferenceConfig(x), "/"+x.Source, types.FileObjectConfig(m.project.Configs[x.Source]))
	}
	for _, x := range c.Secrets {
		if x.Target != "" && !path.IsAbs(x.Target) {
			x.Target = path.Join("/run/secrets", x.Target)
		}
		p.object("secrets", types.FileReferenceConfig(x), path.Join("/run/secrets", x.Source), types.FileObjectConfig(m.project.Secrets[x.Source]))
	}
	return p.volumes, p.list
}

// podMounts collects the mounts of one service.
type podMounts struct {
	*mapping

	service *topology.Service
	volumes []corev1.Volume
	list    []corev1.VolumeMount
}

func (p *podMounts) add(source corev1.VolumeSource, mount corev1.VolumeMount) {
	mount.Name = fmt.Sprintf("volume-%d", len(p.volumes)+1)
	p.volumes = append(p.volumes, corev1.Volume{Name: mount.Name, VolumeSource: source})
	p.list = append(p.list, mount)
}

func (p *podMounts) volume(v *types.ServiceVolumeConfig) {
	mount := corev1.VolumeMount{MountPath: v.Target, ReadOnly: v.ReadOnly}
	switch v.Type {
	case types.VolumeTypeTmpfs:
		p.add(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}, mount)
	case types.VolumeTypeVolume:
		claim, ok := p.claims[v.Source]
		if v.Source == "" || !ok {
			p.add(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, mount)
			return
		}
		if v.Volume != nil {
			mount.SubPath = v.Volume.Subpath
		}
		p.add(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim, ReadOnly: v.ReadOnly}}, mount)
	case types.VolumeTypeBind:
		p.bind(v, mount)
	default:
		p.mistakef(p.service, "volumes", "a volume of type %s has no counterpart in Kubernetes", v.Type)
	}
}

// bind mounts a path of the machine with the Compose file.
func (p *podMounts) bind(v *types.ServiceVolumeConfig, mount corev1.VolumeMount) {
	info, err := os.Stat(v.Source)
	inside := strings.HasPrefix(v.Source, p.project.WorkingDir+string(filepath.Separator))
	if err != nil || !inside || info.IsDir() && !v.ReadOnly {
		if inside && errors.Is(err, fs.ErrNotExist) && !v.ReadOnly {
			err = nil // as Docker, the node makes it
		}
		if inside && err != nil {
			p.mistakef(p.service, "volumes", "there is nothing to mount at %s", v.Source)
			return
		}
		p.add(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: v.Source}}, mount)
		return
	}
	files, private, err := readFiles(v.Source)
	if err != nil {
		p.mistakef(p.service, "volumes", "%w", err)
		return
	}
	mount.ReadOnly = true
	private = private || strings.Contains(strings.TrimPrefix(v.Source, p.project.WorkingDir), "secret")
	p.files(private, files, info.IsDir(), mount, nil)
}

// readFiles are the files at and below a path by their names relative to it, and whether one of
// them is private: not everybody on this machine may read it.
func readFiles(root string) (files map[string][]byte, private bool, err error) {
	files, size := map[string][]byte{}, 0
	const everybody = 0o004
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(name) //nolint:gosec // of the user's own directory, and of this moment
		if err != nil {
			return err
		}
		info, err := os.Stat(name) // of what a link leads to
		if err != nil {
			return err
		}
		private = private || info.Mode().IsRegular() && info.Mode()&everybody == 0
		if size += len(text); size > filesLimit {
			return fmt.Errorf("the files in %s are more than %d KiB, which is the most that is taken along; put them into the image or into a volume", root, filesLimit>>10)
		}
		relative, err := filepath.Rel(root, name)
		files[filepath.ToSlash(relative)] = text
		return err
	})
	return files, private, err
}

// object mounts a config or a secret.
func (p *podMounts) object(kind string, x types.FileReferenceConfig, byDefault string, f types.FileObjectConfig) {
	target := cmp.Or(x.Target, byDefault)
	text := []byte(f.Content)
	switch {
	case bool(f.External):
		p.mistakef(p.service, kind, "%s is external, which only a swarm has; give it a `file` or a `content`", x.Source)
		return
	case f.Environment != "":
		text = []byte(p.project.Environment[f.Environment])
	case f.File != "":
		var err error
		if text, err = os.ReadFile(f.File); err != nil {
			p.mistakef(p.service, kind, "%s: %w", x.Source, err)
			return
		}
	}
	var bits *int32
	if x.Mode != nil {
		bits = new(int32(*x.Mode))
	}
	p.files(kind == "secrets", map[string][]byte{".": text}, false, corev1.VolumeMount{MountPath: target, ReadOnly: true}, bits)
}

// files mounts files of an object that is made for them. A single one is there by
// itself; others beside it in the image stay to be seen.
func (p *podMounts) files(secret bool, files map[string][]byte, directory bool, mount corev1.VolumeMount, mode *int32) {
	data := map[string][]byte{}
	var items []corev1.KeyToPath
	for i, name := range slices.Sorted(maps.Keys(files)) {
		key := fmt.Sprintf("file-%d", i+1) // a name may have slashes, a key may not
		data[key] = files[name]
		if directory {
			items = append(items, corev1.KeyToPath{Key: key, Path: name})
		}
	}
	if !directory {
		mount.SubPath = "file-1"
	}
	meta := p.meta(fmt.Sprintf("%s-files-%d", p.service.Name, len(p.volumes)+1), p.service)
	if secret {
		p.Secrets = append(p.Secrets, &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: meta, Data: data})
		p.add(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: meta.Name, Items: items, DefaultMode: mode}}, mount)
		return
	}
	object := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: meta}
	for key, text := range data {
		if utf8.Valid(text) {
			if object.Data == nil {
				object.Data = map[string]string{}
			}
			object.Data[key] = string(text)
			continue
		}
		if object.BinaryData == nil {
			object.BinaryData = map[string][]byte{}
		}
		object.BinaryData[key] = text
	}
	p.ConfigMaps = append(p.ConfigMaps, object)
	p.add(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: meta.Name}, Items: items, DefaultMode: mode}}, mount)
}
