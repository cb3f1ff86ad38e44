package topology

import (
	"github.com/compose-spec/compose-go/v2/types"

	"loadstone/lab/autoscale"
)

// autoscaleKey is the extension field that has an experiment start and stop replicas of a
// service while it is under load, by the words of Kubernetes' HorizontalPodAutoscaler:
//
//	x-autoscale:
//	  minReplicas: 1
//	  maxReplicas: 4
//	  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 70}}}]
//
// Utilisation is of the service's limit of CPU, as there is no request here.
const autoscaleKey = "x-autoscale"

func setAutoscale(c *types.ServiceConfig, s *Service) (err error) {
	value, ok := c.Extensions[autoscaleKey]
	if !ok {
		return nil
	}
	path := []string{"services", s.Name, autoscaleKey}
	if s.Autoscale, err = autoscale.Read(value); err != nil {
		return &resourceError{path, err.Error()}
	}
	if s.Limits.CPUs == nil {
		return &resourceError{path, `utilisation is of what a replica may use, and nothing bounds its CPU; write deploy: {resources: {limits: {cpus: "0.25"}}} in the service`}
	}
	return nil
}
