package topology

import (
	"fmt"
	"path"

	"github.com/compose-spec/compose-go/v2/types"
)

// secretsDir is where Compose mounts secrets that say no place.
const secretsDir = "/run/secrets"

// volumes are the mounts of a service: its volumes and, if it runs what is in
// its image, its configs and secrets, which are mounts of single files.
func volumes(c *types.ServiceConfig, p *types.Project, imaged bool) ([]Volume, error) {
	var all []Volume
	for _, v := range c.Volumes {
		switch {
		case v.Source == "": // unnamed
		case v.Type == types.VolumeTypeVolume:
			all = append(all, Volume{Name: v.Source, Target: v.Target})
		case v.Type == types.VolumeTypeBind:
			all = append(all, Volume{Source: v.Source, Target: v.Target})
		}
	}
	if !imaged {
		return all, nil
	}
	for _, config := range c.Configs {
		v, err := mountedFile(types.FileObjectConfig(p.Configs[config.Source]), config.Target, "/"+config.Source, p)
		if err != nil {
			return nil, fmt.Errorf("service %s: config %s: %w", c.Name, config.Source, err)
		}
		all = append(all, v)
	}
	for _, secret := range c.Secrets {
		target := secret.Target
		if target != "" && !path.IsAbs(target) {
			target = path.Join(secretsDir, target)
		}
		v, err := mountedFile(types.FileObjectConfig(p.Secrets[secret.Source]), target, path.Join(secretsDir, secret.Source), p)
		if err != nil {
			return nil, fmt.Errorf("service %s: secret %s: %w", c.Name, secret.Source, err)
		}
		all = append(all, v)
	}
	return all, nil
}

// mountedFile is a config or a secret as a mount at target, or at byDefault if
// that is empty.
func mountedFile(f types.FileObjectConfig, target, byDefault string, p *types.Project) (Volume, error) {
	if target == "" {
		target = byDefault
	}
	switch {
	case f.File != "":
		return Volume{Source: f.File, Target: target}, nil
	case f.Environment != "":
		return Volume{Text: p.Environment[f.Environment], Target: target}, nil
	case f.Content != "":
		return Volume{Text: f.Content, Target: target}, nil
	default:
		return Volume{}, fmt.Errorf("it is external, which only works with Docker; give it a `file` or a `content`")
	}
}
