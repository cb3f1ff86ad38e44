package verdict

import (
	"strings"
	"testing"
)

// A pool's slots may be held for what an unseen component does: it is not said that more of them would be of no use.
func TestWhatIsUnseenExplainsNothing(t *testing.T) {
	t.Parallel()
	l := &limit{Limit: Limit{Component: "api", Resource: Pool}, resource: Resource{DemandMS: 8}}
	in := Input{Components: []Component{{Name: "api", Instances: 1, DemandMS: 1}, {Name: "db", Instances: 1, DemandMS: 1}}}
	if share, known := in.explainsHolding(l); !known || share != 0.125 {
		t.Errorf("a database that is seen: %v, %v", share, known)
	}
	in.Components[1] = Component{Name: "db", Instances: 1, Unseen: 1}
	if _, known := in.explainsHolding(l); known {
		t.Error("what an unseen database does is known")
	}
	if got := in.butUnseen(); got != "; what db used was not seen" {
		t.Errorf("got %q", got)
	}
}

// One of whose instances some are unseen is not called uneven.
func TestUnseenInstancesAreNoSkew(t *testing.T) {
	t.Parallel()
	c := Component{Name: "api", Instances: 2, DemandMS: 5, HottestMS: 5}
	if c.skew() != 2 || !strings.Contains(c.skewed(), "hottest") {
		t.Errorf("one of two does it all: %v, %q", c.skew(), c.skewed())
	}
	if c.Unseen = 1; c.skew() != 1 || c.skewed() != "" || c.NoneSeen() {
		t.Errorf("the other is unseen: %v, %q", c.skew(), c.skewed())
	}
}
