package cache

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// Switches turn the tiers of a cache on and off while the service runs, for the
// operator, on the admin address:
//
//	GET /cache          {"memory":"on","redis":"off"}; "none" for a tier that was not configured
//	PUT /cache/memory   body on or off
//	PUT /cache/redis    the same
//
// A tier that is off is not asked and gets nothing new. It is on again after a restart.
type Switches struct {
	mu    sync.Mutex
	tiers [2]tierSwitch
}

type tierSwitch struct {
	name string
	on   bool
	use  func(on bool) // nil for a tier that was not configured
}

// NewSwitches returns the switches of the tiers that are used by these functions, such
// as UseMemory and UseShared; nil for a tier that is not there.
func NewSwitches(memory, redis func(on bool)) *Switches {
	return &Switches{tiers: [2]tierSwitch{{"memory", memory != nil, memory}, {"redis", redis != nil, redis}}}
}

func (t *tierSwitch) state() string {
	switch {
	case t.use == nil:
		return "none"
	case t.on:
		return "on"
	}
	return "off"
}

// maxSwitchBytes bounds the body of a PUT: on or off, and what an editor adds.
const maxSwitchBytes = 16

// ServeHTTP implements http.Handler, for the path /cache and those below it.
func (s *Switches) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, one := strings.CutPrefix(r.URL.Path, "/cache/")
	switch {
	case one && r.Method == http.MethodPut:
		s.put(w, r, name)
	case !one && r.Method == http.MethodGet:
		s.show(w)
	default:
		http.Error(w, "GET /cache shows the tiers; PUT /cache/memory and PUT /cache/redis with the body on or off switch them", http.StatusMethodNotAllowed)
	}
}

func (s *Switches) put(w http.ResponseWriter, r *http.Request, name string) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxSwitchBytes))
	text := strings.TrimSpace(string(body))
	if err != nil || text != "on" && text != "off" {
		http.Error(w, fmt.Sprintf("the body is %.40q: write on or off", text), http.StatusBadRequest)
		return
	}
	if status, problem := s.set(name, text == "on"); problem != "" {
		http.Error(w, problem, status)
		return
	}
	s.show(w)
}

// set returns what is wrong, and the status for it.
func (s *Switches) set(name string, on bool) (status int, problem string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.tiers {
		t := &s.tiers[i]
		if t.name != name {
			continue
		}
		if t.use == nil {
			return http.StatusConflict, fmt.Sprintf("this service has no tier %q: start it with one (--cache)", name)
		}
		t.on = on
		t.use(on)
		return 0, ""
	}
	return http.StatusNotFound, fmt.Sprintf("there is no tier %.40q: write /cache/memory or /cache/redis", name)
}

func (s *Switches) show(w http.ResponseWriter) {
	s.mu.Lock()
	states := make(map[string]string, len(s.tiers))
	for i := range s.tiers {
		states[s.tiers[i].name] = s.tiers[i].state()
	}
	s.mu.Unlock()
	text, err := json.Marshal(states)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(text, '\n')) // a reader that has gone is no news
}
