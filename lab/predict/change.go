package predict

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"loadstone/block/spelling"
	"loadstone/lab/experiment"
	"loadstone/lab/model/queueing"
)

// Change sets something of a service: exactly one of Replicas and CPUs.
type Change struct {
	Service  string
	Replicas *int
	CPUs     *float64
}

const (
	maxReplicas = 10_000
	maxCPUs     = 1_000
)

// ParseChange reads "api.replicas=8" or "lb.cpus=0.5", where services are those
// that there are. The error is one sentence.
func ParseChange(text string, services []string) (Change, error) {
	left, value, ok := strings.Cut(text, "=")
	dot := strings.LastIndexByte(left, '.')
	if !ok || dot < 0 {
		return Change{}, fmt.Errorf("%s is not a change; write SERVICE.replicas=N or SERVICE.cpus=X, such as %s.replicas=8", spelling.Quote(text), example(services))
	}
	c := Change{Service: strings.TrimSpace(left[:dot])}
	key, value := strings.TrimSpace(left[dot+1:]), strings.TrimSpace(value)
	if !slices.Contains(services, c.Service) {
		return Change{}, fmt.Errorf("%s: the run has no service %s; %s", text, spelling.Quote(c.Service), spelling.ChooseName(c.Service, services))
	}
	switch key {
	case experiment.Replicas:
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > maxReplicas {
			return Change{}, fmt.Errorf("%s: replicas must be a whole number from 1 to %d, not %s", text, maxReplicas, spelling.Quote(value))
		}
		c.Replicas = &n
	case experiment.CPUs:
		x, err := strconv.ParseFloat(value, 64)
		if err != nil || !(x >= 0.001 && x <= maxCPUs) {
			return Change{}, fmt.Errorf("%s: cpus must be a number from 0.001 to %d, such as 0.5, not %s", text, maxCPUs, spelling.Quote(value))
		}
		c.CPUs = &x
	default:
		return Change{}, fmt.Errorf("%s: %s cannot be set; %s", text, spelling.Quote(key), spelling.Choose(key, []string{experiment.Replicas, experiment.CPUs}))
	}
	return c, nil
}

func example(services []string) string {
	if len(services) == 0 {
		return "api"
	}
	return services[0]
}

// String is the change as ParseChange reads it.
func (c Change) String() string {
	if c.Replicas != nil {
		return fmt.Sprintf("%s.%s=%d", c.Service, experiment.Replicas, *c.Replicas)
	}
	return fmt.Sprintf("%s.%s=%s", c.Service, experiment.CPUs, strconv.FormatFloat(*c.CPUs, 'g', -1, 64))
}

// CheckChanges is an error of one sentence if something is set twice.
func CheckChanges(cs []Change) error {
	for i, c := range cs {
		for _, before := range cs[:i] {
			if c.Service == before.Service && (c.Replicas != nil) == (before.Replicas != nil) {
				return fmt.Errorf("%s and %s set the same; leave out one of them", before, c)
			}
		}
	}
	return nil
}

// Services are the names of a system's components.
func (s *System) Services() []string {
	var out []string
	for _, station := range s.Model.Stations {
		if !station.Pool {
			out = append(out, station.Name)
		}
	}
	return out
}

// describe is a station's size: "3 × 0.25 CPU".
func describe(s queueing.Station) string {
	if s.Pool {
		return describePool(s)
	}
	share := math.Round(1e6*s.Speed*float64(s.Servers)) / 1e6
	return fmt.Sprintf("%d × %s CPU", s.Instances, strconv.FormatFloat(share, 'g', -1, 64))
}
