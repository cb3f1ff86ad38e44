package runner

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"loadstone/lab/archive"
	"loadstone/lab/probe"
	"loadstone/lab/probe/cassandra"
	"loadstone/lab/probe/flink"
	"loadstone/lab/probe/kafka"
	"loadstone/lab/topology"
)

// reader asks a service's instances in their own protocol. All probes are one.
type reader interface {
	Read(ctx context.Context) (map[string]float64, error)
	Resources() []topology.Resource
	Close()
}

// source is one reader of a trial, and what came of it.
type source struct {
	reader

	service  string
	instance string                // whose figures it reads
	whole    bool                  // they are those of all instances of the service
	answered atomic.Bool           // it answered once
	last     atomic.Pointer[error] // what went wrong last; nil if nothing did
}

// sources are the readers of images whose program tells of its
// queues, pools or stages in its own protocol: one for a Kafka cluster, one for each
// Cassandra node, one for the task managers of Flink. None of them has connected yet. They are
// asked where the instances are by then.
func sources(system *topology.System, now func() []topology.Instance) ([]*source, error) {
	instances := now()
	var out []*source
	clusters := make(map[string]bool) // of Kafka, by who votes in them
	for i := range system.Services {
		s := &system.Services[i]
		own := slices.DeleteFunc(slices.Clone(instances), func(in topology.Instance) bool { return in.Service != s.Name })
		if len(s.Command) > 0 || len(own) == 0 {
			continue
		}
		switch image, _ := topology.SplitImage(s.Image); image {
		case "apache/kafka", "apache/kafka-native":
			if roles := s.Environment["KAFKA_PROCESS_ROLES"]; roles != "" && !strings.Contains(roles, "broker") {
				continue // a controller has no groups
			}
			if voters := s.Environment["KAFKA_CONTROLLER_QUORUM_VOTERS"]; voters != "" {
				if clusters[voters] {
					continue // another broker of the same cluster, which knows the same
				}
				clusters[voters] = true
			}
			reader, err := kafka.Open(addresses(s, now, own, kafka.DefaultPort))
			if err != nil {
				closeAll(out)
				return nil, err
			}
			out = append(out, &source{reader: reader, service: s.Name, instance: own[0].Name, whole: true})
		case "cassandra":
			for _, in := range own {
				out = append(out, &source{reader: cassandra.Open(address(s, now, in.Name, cassandra.DefaultPort)), service: s.Name, instance: in.Name})
			}
		case "flink":
			if manager, ok := jobManager(system, now); ok && has(s, "taskmanager") {
				out = append(out, &source{reader: flink.Open(s.Name, manager), service: s.Name, instance: own[0].Name, whole: true})
			}
		}
	}
	return out, nil
}

// has says whether an image of several roles has this one.
func has(s *topology.Service, role string) bool {
	return len(s.Arguments) > 0 && s.Arguments[0] == role
}

// jobManager is the address of the one that knows of all task managers of a system.
func jobManager(system *topology.System, now func() []topology.Instance) (at func() string, ok bool) {
	instances := now()
	for i := range system.Services {
		s := &system.Services[i]
		first := slices.IndexFunc(instances, func(in topology.Instance) bool { return in.Service == s.Name })
		if image, _ := topology.SplitImage(s.Image); image == "flink" && (has(s, "jobmanager") || has(s, "standalone-job")) && first >= 0 {
			return address(s, now, instances[first].Name, flink.DefaultPort), true
		}
	}
	return nil, false
}

// address is where an instance is asked: at the port that the file states, which an image
// need not list first, or else at the usual one. It is empty while the instance is nowhere.
func address(s *topology.Service, now func() []topology.Instance, instance string, usual int) func() string {
	port := strconv.Itoa(cmp.Or(s.Port, usual))
	return func() string {
		host := found(now(), instance).Host
		if host == "" {
			return ""
		}
		return net.JoinHostPort(host, port)
	}
}

// addresses are those of several instances, of those that are somewhere.
func addresses(s *topology.Service, now func() []topology.Instance, instances []topology.Instance, usual int) func() []string {
	return func() (all []string) {
		for _, in := range instances {
			if at := address(s, now, in.Name, usual)(); at != "" {
				all = append(all, at)
			}
		}
		return all
	}
}

// found is an instance by its name; one of no name if there is none.
func found(instances []topology.Instance, name string) topology.Instance {
	for i := range instances {
		if instances[i].Name == name {
			return instances[i]
		}
	}
	return topology.Instance{}
}

func closeAll(all []*source) {
	for _, s := range all {
		s.Close()
	}
}

// probed are the sources as the probe asks them.
func probed(all []*source) []probe.Source {
	var out []probe.Source
	for _, s := range all {
		out = append(out, probe.Source{Instance: s.instance, Whole: s.whole, Read: s.ask})
	}
	return out
}

func (s *source) ask(ctx context.Context) (map[string]float64, error) {
	values, err := s.Read(ctx)
	if err != nil {
		s.last.Store(&err)
	} else {
		s.answered.Store(true)
	}
	return values, err
}

// selfAssigned says whether a resource is the queue of a group that gives partitions to itself.
func selfAssigned(s *source, resource string) bool {
	log, is := s.reader.(interface{ SelfAssigned(resource string) bool })
	return is && log.SelfAssigned(resource)
}

// addResources adds what the sources found to the trial's instances: to all of a
// service's, as what the Compose file declares is. What that declares under the
// same name stays, so that a file can say who consumes a queue. The probe must
// have ended.
//
// What waits in Kafka for a job of Flink is told by both. A stage knows more of it, so that the queue is left out: else
// two would limit where one does. Which queue is which stage's is not known, so all stay where there are more of them.
func addResources(all []*source, t *archive.Trial) {
	stages, queues := 0, 0
	for _, s := range all {
		for _, r := range s.Resources() {
			if r.Kind == topology.Stage && r.Lag != "" {
				stages++
			}
			if selfAssigned(s, r.Name) {
				queues++
			}
		}
	}
	for _, s := range all {
		if err := s.last.Load(); err != nil && !s.answered.Load() {
			t.Warnings = append(t.Warnings, fmt.Sprintf("what %s knows of its queues and pools was never read: %v", s.instance, *err))
		}
		for _, found := range s.Resources() {
			if queues <= stages && selfAssigned(s, found.Name) {
				continue
			}
			for i := range t.Instances {
				in := &t.Instances[i]
				if in.Service != s.service || slices.ContainsFunc(in.Resources, func(r topology.Resource) bool { return r.Name == found.Name }) {
					continue
				}
				in.Resources = append(slices.Clip(in.Resources), found) // others may share what is declared
			}
		}
	}
}
