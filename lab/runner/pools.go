package runner

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/url"

	"loadstone/lab/perturb"
	"loadstone/lab/probe"
	"loadstone/lab/series"
	"loadstone/lab/topology"
)

// pool is a pool of a service whose size can be changed while it runs.
type pool struct {
	component string
	resource  topology.Resource
	size, use func(series string) bool
	metrics   []string // endpoints of the instances
	at        []perturb.Endpoint
}

// pools are those of the system's services that run and say how their size is
// changed. They must not be under load yet: their sizes are read. What keeps one out
// is a warning.
func pools(ctx context.Context, instances []topology.Instance, system *topology.System) (out []pool, warnings []string) {
	runs := running(system)
	client := metricsClient()
	defer client.CloseIdleConnections()
	seen := make(map[string]bool)
	for _, in := range instances {
		if runs[in.Service] == 0 || seen[in.Service] {
			continue
		}
		seen[in.Service] = true
		for _, r := range in.Resources {
			if r.Kind != topology.Pool || r.Control == nil {
				continue
			}
			p, err := newPool(ctx, client, instances, in.Service, r)
			if err == nil {
				err = p.authorise(system)
			}
			if err != nil {
				warnings = append(warnings, fmt.Sprintf("the pool %s of %s was not perturbed: %v", r.Name, in.Service, err))
				continue
			}
			out = append(out, p)
		}
	}
	return out, warnings
}

func newPool(ctx context.Context, client *http.Client, instances []topology.Instance, service string, r topology.Resource) (pool, error) {
	p := pool{component: service, resource: r}
	size, err := series.ParseSelector(r.Size)
	if err != nil {
		return p, err
	}
	use, err := series.ParseSelector(r.InUse)
	if err != nil {
		return p, err
	}
	p.size, p.use = size.Matches, use.Matches
	for _, in := range instances {
		if in.Service != service {
			continue
		}
		at, err := url.Parse(in.MetricsURL)
		if err != nil {
			return p, err
		}
		values, err := probe.Fetch(ctx, client, in.MetricsURL)
		if err != nil {
			return p, err
		}
		n, ok := series.Total(values, p.size)
		if !ok || n < 1 {
			return p, fmt.Errorf("%s tells no size of it", in.Name)
		}
		p.metrics = append(p.metrics, in.MetricsURL)
		at.RawQuery, at.Path = "", r.Control.Put
		p.at = append(p.at, perturb.Endpoint{URL: at.String(), Size: int(math.Round(n))})
	}
	return p, nil
}

// authorise has the pool's requests send the token that its service wants.
func (p *pool) authorise(system *topology.System) error {
	name := p.resource.Control.Token
	if name == "" {
		return nil
	}
	service, _ := system.Service(p.component)
	token := service.Environment[name]
	if token == "" {
		return fmt.Errorf("%s, which has its token, is not in the environment of the service", name)
	}
	for i := range p.at {
		p.at[i].Token = token
	}
	return nil
}

// knob is what changes the pool. It is to be made under load: the share of slots in
// use says whether it is perturbed by itself. A pool that does not answer, or
// does not tell, is, as it may be what everybody waits for.
func (p *pool) knob(ctx context.Context, client *http.Client) perturb.Knob {
	k := perturb.Slots(p.component, p.resource.Name, p.resource.Control.Value, p.at)
	for i, endpoint := range p.metrics {
		share := 1.0
		if values, err := probe.Fetch(ctx, client, endpoint); err == nil {
			if used, told := series.Total(values, p.use); told {
				share = used / float64(p.at[i].Size)
			}
		}
		k.Utilisation = max(k.Utilisation, share)
	}
	return k
}

// metricsClient reads endpoints now and then. probe.Fetch bounds each request.
func metricsClient() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1, DisableCompression: true}}
}
