// Package autoscale says how many replicas a service should have, as the Kubernetes
// HorizontalPodAutoscaler does: from CPU utilisation, by the HPA's formula, tolerance,
// stabilisation windows and policies. It reads no clock, measures nothing and starts nothing:
// whoever replays a policy tells it what there is, and does what it says.
//
// The words of a Policy are those of autoscaling/v2, and what they do is what the
// controller does (kubernetes.io, "Horizontal Pod Autoscaling"; pkg/controller/podautoscaler).
package autoscale

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Policy is how a service is scaled.
type Policy struct {
	// MinReplicas is 1 if it is not given.
	MinReplicas int `json:"minReplicas"`
	MaxReplicas int `json:"maxReplicas"`
	// Metrics is one: the CPU of the service's replicas.
	Metrics  []Metric `json:"metrics"`
	Behavior Behavior `json:"behavior"`
	// SyncPeriodSeconds is how often the controller looks, its flag
	// --horizontal-pod-autoscaler-sync-period: 15 if it is not given. Utilisation is that of
	// the time between two looks.
	SyncPeriodSeconds int `json:"syncPeriodSeconds"`
}

// Metric is what a policy goes by.
type Metric struct {
	Type     string   `json:"type"` // Resource
	Resource Resource `json:"resource"`
}

// Resource is a resource of each replica.
type Resource struct {
	Name   string `json:"name"` // cpu
	Target Target `json:"target"`
}

// Target is what a resource is to be used to.
type Target struct {
	Type string `json:"type"` // Utilization
	// AverageUtilization is in percent of what each replica may use: its share of a CPU
	// is the request of Kubernetes.
	AverageUtilization int `json:"averageUtilization"`
}

// Behavior bounds how fast the number of replicas changes.
type Behavior struct {
	ScaleUp   Rules `json:"scaleUp"`
	ScaleDown Rules `json:"scaleDown"`
}

// Rules are those of one direction.
type Rules struct {
	// StabilizationWindowSeconds is how long a recommendation counts: the lowest within it
	// when scaling up, the highest when scaling down. 0 and 300 if it is not given.
	StabilizationWindowSeconds *int `json:"stabilizationWindowSeconds"`
	// SelectPolicy is Max (of the policies the one that changes most), Min or Disabled.
	SelectPolicy string `json:"selectPolicy"`
	// Policies are, if there are none, 100 % or 4 replicas in 15 s up, and 100 % down.
	Policies []Rule `json:"policies"`
	// Tolerance is how far from 1 the ratio of utilisation to target may be without a
	// change; 0.1 if it is not given.
	Tolerance *float64 `json:"tolerance"`
}

// Rule is the most that may change within a period: Value replicas, or percent of them.
type Rule struct {
	Type          string `json:"type"` // Pods or Percent
	Value         int    `json:"value"`
	PeriodSeconds int    `json:"periodSeconds"`
}

// The values of Rules.SelectPolicy and Rule.Type.
const (
	Max      = "Max"
	Min      = "Min"
	Disabled = "Disabled"

	Pods    = "Pods"
	Percent = "Percent"
)

// mostReplicas is as many as a sweep may have.
const mostReplicas = 1000

// Read reads a policy from what a file says, as JSON would have it, and fills in
// Kubernetes' defaults.
func Read(value any) (*Policy, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("it is no policy: %w", err)
	}
	p := &Policy{MinReplicas: 1, SyncPeriodSeconds: 15}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(p); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return nil, fmt.Errorf("%s is a %s where an HPA has another type; write it as autoscaling/v2 has it", wrong.Field, wrong.Value)
		}
		return nil, fmt.Errorf("%s; write the words of autoscaling/v2, as in %s", strings.Replace(strings.TrimPrefix(err.Error(), "json: "), "unknown field", "an HPA has no", 1), Example)
	}
	if err := p.validate(); err != nil {
		return nil, err
	}
	p.Behavior.ScaleUp.fill(0, Rule{Percent, 100, 15}, Rule{Pods, 4, 15})
	p.Behavior.ScaleDown.fill(300, Rule{Percent, 100, 15})
	return p, nil
}

// Example is a whole policy.
const Example = "{minReplicas: 1, maxReplicas: 4, metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 70}}}]}"

func (r *Rules) fill(window int, rules ...Rule) {
	if r.StabilizationWindowSeconds == nil {
		r.StabilizationWindowSeconds = &window
	}
	if r.SelectPolicy == "" {
		r.SelectPolicy = Max
	}
	if len(r.Policies) == 0 {
		r.Policies = rules
	}
	if r.Tolerance == nil {
		r.Tolerance = new(0.1)
	}
}

// validate returns what is wrong with the policy first, with what to write.
func (p *Policy) validate() error {
	switch {
	case p.MaxReplicas < 1 || p.MaxReplicas > mostReplicas:
		return fmt.Errorf("maxReplicas is %d; write a number from 1 to %d", p.MaxReplicas, mostReplicas)
	case p.MinReplicas < 1 || p.MinReplicas > p.MaxReplicas:
		return fmt.Errorf("minReplicas is %d and maxReplicas %d; write a number from 1 to that", p.MinReplicas, p.MaxReplicas)
	case p.SyncPeriodSeconds < 1 || p.SyncPeriodSeconds > 3600:
		return fmt.Errorf("syncPeriodSeconds is %d; write a number from 1 to 3600, or leave it out", p.SyncPeriodSeconds)
	case len(p.Metrics) != 1:
		return fmt.Errorf("it has %d metrics, and one is replayed; write metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 70}}}]", len(p.Metrics))
	}
	m := p.Metrics[0]
	if m.Type != "Resource" || m.Resource.Name != "cpu" || m.Resource.Target.Type != "Utilization" {
		return errors.New("only the utilisation of CPU is replayed; write {type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 70}}}")
	}
	if n := m.Resource.Target.AverageUtilization; n < 1 || n > 1000 {
		return fmt.Errorf("averageUtilization is %d; write percent of the CPU that a replica may use, from 1 to 1000", n)
	}
	return errors.Join(p.Behavior.ScaleUp.validate("scaleUp"), p.Behavior.ScaleDown.validate("scaleDown"))
}

func (r *Rules) validate(name string) error {
	if w := r.StabilizationWindowSeconds; w != nil && (*w < 0 || *w > 3600) {
		return fmt.Errorf("stabilizationWindowSeconds of %s is %d; write a number from 0 to 3600", name, *w)
	}
	if t := r.Tolerance; t != nil && (*t < 0 || *t > 1) {
		return fmt.Errorf("tolerance of %s is %v; write a number from 0 to 1, as 0.1", name, *t)
	}
	switch r.SelectPolicy {
	case "", Max, Min, Disabled:
	default:
		return fmt.Errorf("selectPolicy of %s is %q; write %s, %s or %s", name, r.SelectPolicy, Max, Min, Disabled)
	}
	for _, rule := range r.Policies {
		if rule.Type != Pods && rule.Type != Percent || rule.Value < 1 || rule.PeriodSeconds < 1 || rule.PeriodSeconds > 1800 {
			return fmt.Errorf("a policy of %s is {type: %s, value: %d, periodSeconds: %d}; write one such as {type: %s, value: 4, periodSeconds: 15}, of %s or %s, above 0, in at most 1800 s",
				name, rule.Type, rule.Value, rule.PeriodSeconds, Pods, Pods, Percent)
		}
	}
	return nil
}

// Sync is how often the controller looks.
func (p *Policy) Sync() time.Duration { return time.Duration(p.SyncPeriodSeconds) * time.Second }

// target is the utilisation to reach, 1 for all that a replica may use.
func (p *Policy) target() float64 {
	return float64(p.Metrics[0].Resource.Target.AverageUtilization) / 100
}
