package topology

import (
	"fmt"
	"slices"

	"github.com/compose-spec/compose-go/v2/types"
)

// networkKey is the extension field of a Compose file that says what the process driver
// gives its instances.
const networkKey = "x-network"

// The values of System.Network.
const (
	// OwnNetwork is a network for each instance, in which services have their names.
	OwnNetwork = "own"
	// Loopback is a loopback address for each instance.
	Loopback = "loopback"
)

func setAliases(c *types.ServiceConfig, s *Service) error {
	all := []string{c.ContainerName}
	for _, n := range c.Networks {
		if n != nil {
			all = append(all, n.Aliases...)
		}
	}
	slices.Sort(all)
	for _, name := range slices.Compact(all) {
		if name != "" && name != s.Name {
			s.Aliases = append(s.Aliases, name)
		}
	}
	return nil
}

func (s *System) setNetwork(p *types.Project) error {
	value, ok := p.Extensions[networkKey]
	if !ok {
		return nil
	}
	s.Network, _ = value.(string)
	if s.Network != OwnNetwork && s.Network != Loopback {
		return fmt.Errorf("%s is %v; write %s, for a network of each instance's own, or %s", networkKey, value, OwnNetwork, Loopback)
	}
	return nil
}
