package topology

import (
	"fmt"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/template"
	"github.com/compose-spec/compose-go/v2/types"
)

// unhonoured are the keys that change what runs and that a local process
// cannot have. What only changes how an image gets there, how it is named or
// how its logs travel is not here: it makes no difference.
var unhonoured = []struct {
	key  string
	used func(*types.ServiceConfig) bool
	so   string
}{
	{"the number in restart", func(c *types.ServiceConfig) bool { return strings.Contains(c.Restart, ":") }, "an instance is started again as often as it ends"},
	{"network_mode", func(c *types.ServiceConfig) bool { return c.NetworkMode != "" }, "it runs in the host's network, on an address of its own"},
	{"privileged", func(c *types.ServiceConfig) bool { return c.Privileged }, "it runs with the rights of this user"},
	{"cap_add, cap_drop", func(c *types.ServiceConfig) bool { return len(c.CapAdd)+len(c.CapDrop) > 0 }, "it runs with the rights of this user"},
	{"devices, gpus", func(c *types.ServiceConfig) bool {
		reserved := c.Deploy != nil && c.Deploy.Resources.Reservations != nil && len(c.Deploy.Resources.Reservations.Devices) > 0
		return len(c.Devices)+len(c.Gpus) > 0 || reserved
	}, "it sees the host's devices"},
	{"pid, ipc, uts", func(c *types.ServiceConfig) bool { return c.Pid != "" || c.Ipc != "" || c.Uts != "" }, "it shares the host's"},
	{"cpuset", func(c *types.ServiceConfig) bool { return c.CPUSet != "" }, "it may run on any CPU"},
	{"cpu_shares, cpu_quota, cpu_period, cpu_count, cpu_percent", func(c *types.ServiceConfig) bool {
		return c.CPUShares != 0 || c.CPUQuota != 0 || c.CPUPeriod != 0 || c.CPUCount != 0 || c.CPUPercent != 0
	}, "limit its CPU with deploy.resources.limits.cpus"},
	{"pids_limit", func(c *types.ServiceConfig) bool {
		limited := c.Deploy != nil && c.Deploy.Resources.Limits != nil && c.Deploy.Resources.Limits.Pids != 0
		return c.PidsLimit != 0 || limited
	}, "the number of its processes is not limited"},
	{"blkio_config", func(c *types.ServiceConfig) bool { return c.BlkioConfig != nil }, "its disk use is not limited"},
	{"ulimits", func(c *types.ServiceConfig) bool { return len(c.Ulimits) > 0 }, "it has the limits of this process"},
	{"sysctls", func(c *types.ServiceConfig) bool { return len(c.Sysctls) > 0 }, "it has the host's"},
	{"read_only", func(c *types.ServiceConfig) bool { return c.ReadOnly }, "it may write wherever this user may"},
	{"tmpfs, shm_size", func(c *types.ServiceConfig) bool { return len(c.Tmpfs) > 0 || c.ShmSize != 0 }, "it sees the host's files"},
	{"extra_hosts, dns", func(c *types.ServiceConfig) bool { return len(c.ExtraHosts)+len(c.DNS) > 0 }, "it resolves names as the host does"},
	{"volumes_from", func(c *types.ServiceConfig) bool { return len(c.VolumesFrom) > 0 }, "it is not mounted"},
	{"links", func(c *types.ServiceConfig) bool { return len(c.Links)+len(c.ExternalLinks) > 0 }, "use ${NAME_HOST:-name} for the address of another service"},
	{"pre_start, post_start, pre_stop", func(c *types.ServiceConfig) bool { return len(c.PreStart)+len(c.PostStart)+len(c.PreStop) > 0 }, "hooks do not run"},
	{"models", func(c *types.ServiceConfig) bool { return len(c.Models) > 0 }, "no model is started"},
	{"deploy.mode", func(c *types.ServiceConfig) bool {
		return c.Deploy != nil && c.Deploy.Mode != "" && c.Deploy.Mode != "replicated"
	}, "it runs with deploy.replicas instances"},
}

// serviceWarnings names what of a service is not honoured. One that runs what
// is in its image (imaged) has its files mounted by the driver; any other finds
// them where they are.
func serviceWarnings(c *types.ServiceConfig, p *types.Project, imaged bool) []string {
	var all []string
	for _, u := range unhonoured {
		if u.used(c) {
			all = append(all, fmt.Sprintf("service %s: %s is ignored: %s", c.Name, u.key, u.so))
		}
	}
	if port, more := firstPort(c); more {
		all = append(all, fmt.Sprintf("service %s: it publishes several ports; the load is sent to the first, %d", c.Name, port))
	}
	all = append(all, portWarnings(c)...)
	if !imaged && len(c.Secrets)+len(c.Configs) > 0 {
		all = append(all, fmt.Sprintf("service %s: secrets and configs are ignored: they are not mounted", c.Name))
	}
	return append(all, volumeWarnings(c, p, imaged)...)
}

func portWarnings(c *types.ServiceConfig) []string {
	var all []string
	for _, p := range c.Ports {
		switch {
		case !tcp(p):
			all = append(all, fmt.Sprintf("service %s: its %s port %d is not published; only TCP ports are", c.Name, p.Protocol, p.Target))
		case strings.Contains(p.Published, "-"):
			first, _, _ := strings.Cut(p.Published, "-")
			all = append(all, fmt.Sprintf("service %s: of the ports %s only %s is published", c.Name, p.Published, first))
		}
	}
	return all
}

func volumeWarnings(c *types.ServiceConfig, p *types.Project, imaged bool) []string {
	var all []string
	for _, v := range c.Volumes {
		switch {
		case v.Type == types.VolumeTypeBind && (imaged || v.Source == v.Target):
		case v.Type == types.VolumeTypeBind:
			all = append(all, fmt.Sprintf("service %s: the volume is not mounted at %s: its files are at %s", c.Name, v.Target, v.Source))
		case v.Type == types.VolumeTypeVolume && v.Source == "" && imaged: // as fresh as a container's
		case v.Type == types.VolumeTypeVolume && v.Source == "":
			all = append(all, fmt.Sprintf("service %s: the unnamed volume %s is not mounted; give it a name to get a directory for it", c.Name, v.Target))
		case v.Type == types.VolumeTypeVolume && (bool(p.Volumes[v.Source].External) || p.Volumes[v.Source].Driver != ""):
			all = append(all, fmt.Sprintf("service %s: the volume %s is a plain directory here, whatever its driver", c.Name, v.Source))
		case !slices.Contains([]string{types.VolumeTypeBind, types.VolumeTypeVolume}, v.Type):
			all = append(all, fmt.Sprintf("service %s: the %s volume at %s is not mounted", c.Name, v.Type, v.Target))
		}
	}
	return all
}

// variableWarnings names variables that have neither a value nor a default,
// except those that a driver will set, and volumes of our own services whose
// directory the file does not ask for: they would be written somewhere else.
func (s *System) variableWarnings(used map[string]template.Variable, env map[string]string) []string {
	var all []string
	driver := s.driverVariables()
	driver["COMPOSE_PROJECT_NAME"] = true // compose-go sets it
	for name, v := range used {
		if _, set := env[name]; !set && !driver[name] && v.DefaultValue == "" && v.PresenceValue == "" && !v.Required {
			all = append(all, fmt.Sprintf("the variable %s is not set and has no default, so it is empty", name))
		}
	}
	slices.Sort(all)
	for i := range s.Services {
		for _, v := range s.Services[i].Volumes {
			name := variable(v.Name) + "_VOLUME"
			if _, ok := used[name]; v.Name != "" && !ok && slices.Equal(s.Services[i].Command[:min(1, len(s.Services[i].Command))], []string{Self}) {
				all = append(all, fmt.Sprintf("service %s: the volume is not mounted at %s; write ${%s:-%s} where its command or environment has that directory", s.Services[i].Name, v.Target, name, v.Target))
			}
		}
	}
	return all
}
