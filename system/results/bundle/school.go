package bundle

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"loadstone/block/dataset"
	"loadstone/block/spelling"
	"loadstone/system/results"
)

// UnknownSchoolError says that no student is from the school.
type UnknownSchoolError struct {
	School, Region string
	// Near are the names that are most like it, with their regions, the nearest
	// first; at most five.
	Near []string
}

// Error names the near ones.
func (e *UnknownSchoolError) Error() string {
	text := fmt.Sprintf("no student is from the school %q", e.School)
	if e.Region != "" {
		text += fmt.Sprintf(" in %q", e.Region)
	}
	if len(e.Near) == 0 {
		return text
	}
	return text + "; did you mean " + strings.Join(e.Near, ", or ") + "?"
}

// fold brings a name into the form in which names are compared.
func fold(name string) string { return strings.ToLower(strings.Join(strings.Fields(name), " ")) }

const (
	mostNear = 5
	// mostSeen bounds the schools that are remembered so as not to be compared
	// again. More than so many are compared for each student.
	mostSeen = 1 << 16
)

// unknown reads the source again for the schools that are most like the one that
// was asked for. It is an error in any case.
func unknown(ctx context.Context, cfg Config, source dataset.Source[results.Student]) error {
	type place struct{ school, region string }
	seen := map[place]bool{}
	found := &nearest{want: fold(cfg.School)}
	err := results.Each(ctx, source, nil, func(s *results.Student) error {
		at := place{s.School, s.Region}
		if seen[at] {
			return nil
		}
		if len(seen) < mostSeen {
			seen[place{strings.Clone(at.school), strings.Clone(at.region)}] = true
		}
		found.add(s.School, s.Region)
		return nil
	})
	if err != nil {
		return fmt.Errorf("look for schools of a similar name: %w", err)
	}
	return &UnknownSchoolError{School: cfg.School, Region: cfg.Region, Near: found.names()}
}

// nearest keeps the names that are most like one.
type nearest struct {
	want string
	best []candidate // ascending
}

type candidate struct {
	text     string
	distance int
}

func (n *nearest) add(school, region string) {
	c := candidate{fmt.Sprintf("%q in %s", school, region), likeness(n.want, fold(school))}
	compare := func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), strings.Compare(a.text, b.text))
	}
	at, found := slices.BinarySearchFunc(n.best, c, compare)
	if found || at == mostNear {
		return
	}
	n.best = slices.Insert(n.best, at, c)
	n.best = n.best[:min(len(n.best), mostNear)]
}

func (n *nearest) names() []string {
	names := make([]string, len(n.best))
	for i, c := range n.best {
		names[i] = c.text
	}
	return names
}

// likeness orders names by how far they are from the wanted one: those that
// contain it whole come first, as people leave words out, then those with fewer
// changed letters.
func likeness(want, name string) int {
	far := spelling.Distance(want, name)
	if strings.Contains(name, want) {
		const whole = 1000 // more than any distance of two names of 200 bytes
		return far - whole
	}
	return far
}
