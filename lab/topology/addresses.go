package topology

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"

	"github.com/compose-spec/compose-go/v2/types"
)

// addressesKey is the extension field that says where the instances of a service are that
// run already: on this machine or out of sight, or by machine, as ssh calls it:
//
//	x-addresses: ["127.0.0.1:8080", "127.0.0.1:8081"]
//	x-addresses: {node-a: ["10.0.0.5:8080"], node-b: ["10.0.0.6:8080"]}
const addressesKey = "x-addresses"

// nodeForm is that of a machine's name. It is given to ssh, to which a name that begins with
// - is an option, and some options are commands to run.
var nodeForm = regexp.MustCompile(`^[A-Za-z0-9_][-A-Za-z0-9_.@:%\[\]]*$`)

// Address is where an instance is that runs already.
type Address struct {
	Node string // the machine, as ssh calls it; empty for this one
	At   netip.AddrPort
}

func setAddresses(c *types.ServiceConfig, s *Service) error {
	value, ok := c.Extensions[addressesKey]
	if !ok {
		return nil
	}
	nodes, ok := value.(map[string]any)
	if !ok {
		nodes = map[string]any{"": value}
	}
	for _, node := range slices.Sorted(maps.Keys(nodes)) {
		if ok && !nodeForm.MatchString(node) {
			return fmt.Errorf("service %s: %s: %q is no name of a machine; write it as ssh calls it, such as node-b or root@node-b", s.Name, addressesKey, node)
		}
		list, ok := nodes[node].([]any)
		if !ok || len(list) == 0 {
			return fmt.Errorf(`service %s: %s: write a list of addresses such as ["10.0.0.5:8080"], or one for each machine`, s.Name, addressesKey)
		}
		for _, item := range list {
			at, err := netip.ParseAddrPort(fmt.Sprint(item))
			if err != nil || at.Port() == 0 {
				return fmt.Errorf("service %s: %s: %v is no IP address with a port; write for example 10.0.0.5:8080", s.Name, addressesKey, item)
			}
			s.Addresses = append(s.Addresses, Address{Node: node, At: at})
		}
	}
	if s.Image == "" && len(s.Command) == 0 {
		s.Replicas = len(s.Addresses) // nothing else can run it
	}
	return nil
}
