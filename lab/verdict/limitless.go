package verdict

import "fmt"

// limitless says of components without a CPU limit how to give them one: of them no bound
// is known, so that none of them is ever named. It is empty if all have one.
func (in Input) limitless() string {
	var names []string
	for i := range in.Components {
		if c := &in.Components[i]; c.LimitCPUs == 0 && c.DemandMS > 0 {
			names = append(names, c.Name)
		}
	}
	switch len(names) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("%s has no CPU limit, so its CPU cannot be told from the machine's: give it deploy.resources.limits.cpus, or run with --cpus-each 0.25.", names[0])
	}
	return fmt.Sprintf("%s have no CPU limit, so their CPU cannot be told from the machine's: give each deploy.resources.limits.cpus, or run with --cpus-each 0.25.", list(names))
}
