package topology

import (
	"fmt"
	"slices"
	"strings"
)

// BindHost is the variable with an instance's own address.
const BindHost = "BIND_HOST"

// HostVariable names the variable that has the address of a service's first instance.
func HostVariable(service string) string { return variable(service) + "_HOST" }

// Variables are what a driver sets for every instance, given the addresses of
// each service's instances in order and the directory of each named volume.
// The package comment lists them. A service without an instance has none, so
// that the file's default holds.
func Variables(hosts map[string][]string, volumes map[string]string) map[string]string {
	vars := map[string]string{}
	for service, addresses := range hosts {
		if len(addresses) == 0 {
			continue
		}
		vars[HostVariable(service)] = addresses[0]
		vars[variable(service)+"_HOSTS"] = strings.Join(addresses, ",")
	}
	for name, dir := range volumes {
		vars[variable(name)+"_VOLUME"] = dir
	}
	return vars
}

// variable is a name in the form of a variable's name.
func variable(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		default:
			return '_'
		}
	}, name)
}

// driverVariables are the names that a driver may set for the system.
func (s *System) driverVariables() map[string]bool {
	names := map[string]bool{BindHost: true}
	for i := range s.Services {
		v := variable(s.Services[i].Name)
		names[v+"_HOST"], names[v+"_HOSTS"] = true, true
	}
	for _, v := range s.Volumes {
		names[variable(v)+"_VOLUME"] = true
	}
	return names
}

// checkVariables refuses two names that would share a variable.
func (s *System) checkVariables() error {
	names := make([]string, 0, len(s.Services))
	for i := range s.Services {
		names = append(names, s.Services[i].Name)
	}
	slices.Sort(names)
	taken := map[string]string{BindHost: "the instance's own address"}
	for _, name := range names {
		v := variable(name) + "_HOST"
		if other, ok := taken[v]; ok {
			return fmt.Errorf("service %s: its address variable %s is also that of %s; give it another name", name, v, other)
		}
		taken[v] = "service " + name
	}
	for _, name := range s.Volumes {
		v := variable(name) + "_VOLUME"
		if other, ok := taken[v]; ok {
			return fmt.Errorf("volume %s: its directory variable %s is also that of %s; give it another name", name, v, other)
		}
		taken[v] = "volume " + name
	}
	return nil
}
