package topology

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/compose-spec/compose-go/v2/types"

	"loadstone/block/spelling"
)

// linkKey is the extension field that makes the network of a service's instances worse:
//
//	x-link: {delay: 5ms, loss: 0.1%, bandwidth: 10mbit}
const linkKey = "x-link"

// Link is x-link. Zero values change nothing.
type Link struct {
	// Delay is added to every packet that an instance sends, and Loss is the share of
	// them that is lost, from 0 to 1.
	Delay time.Duration
	Loss  float64
	// Bandwidth bounds what it sends and what it receives, in bits a second each.
	Bandwidth uint64
}

// Linked are the services with an x-link.
func (s *System) Linked() []string {
	var all []string
	for i := range s.Services {
		if s.Services[i].Link != (Link{}) {
			all = append(all, s.Services[i].Name)
		}
	}
	return all
}

func setLink(c *types.ServiceConfig, s *Service) error {
	value, ok := c.Extensions[linkKey]
	if !ok {
		return nil
	}
	fields, ok := value.(map[string]any)
	if !ok || len(fields) == 0 {
		return fmt.Errorf("service %s: %s: write for example {delay: 5ms, loss: 0.1%%, bandwidth: 10mbit}", s.Name, linkKey)
	}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		read := map[string]func(*Link, string) (instead string){"delay": readDelay, "loss": readLoss, "bandwidth": readBandwidth}[key]
		if read == nil {
			return fmt.Errorf("service %s: %s has no %s; %s", s.Name, linkKey, key, spelling.Choose(key, []string{"bandwidth", "delay", "loss"}))
		}
		text := fmt.Sprint(fields[key])
		if instead := read(&s.Link, text); instead != "" {
			return fmt.Errorf("service %s: %s: %s is %s; write %s", s.Name, linkKey, key, text, instead)
		}
	}
	return nil
}

// readDelay and those below read a value of x-link, and return what to write in its place.
func readDelay(l *Link, text string) (instead string) {
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Microsecond || d > time.Minute {
		return "a time from 1us to 1m such as 5ms"
	}
	l.Delay = d
	return ""
}

func readLoss(l *Link, text string) (instead string) {
	number, percent := strings.CutSuffix(text, "%")
	f, err := strconv.ParseFloat(number, 64)
	if err != nil || !percent || !(f > 0 && f < 100) {
		return "a share of the packets such as 0.1%"
	}
	l.Loss = f / 100
	return ""
}

func readBandwidth(l *Link, text string) (instead string) {
	n, ok := bits(text)
	if !ok {
		return "bits a second from 8kbit to 100gbit such as 10mbit"
	}
	l.Bandwidth = n
	return ""
}

// bits reads a bandwidth as tc writes it.
func bits(text string) (uint64, bool) {
	for unit, factor := range map[string]float64{"kbit": 1e3, "mbit": 1e6, "gbit": 1e9} {
		if number, ok := strings.CutSuffix(text, unit); ok {
			f, err := strconv.ParseFloat(number, 64)
			return uint64(f * factor), err == nil && f*factor >= 8e3 && f*factor <= 100e9
		}
	}
	return 0, false
}
