package bundle

import (
	"context"
	"fmt"
	"iter"

	"loadstone/block/dataset"
	"loadstone/system/results"
)

// Indexed is a source that finds the students of a school without reading all the
// others. Write reads any other source whole.
type Indexed interface {
	dataset.Source[results.Student]
	// Schools calls yield with each school and its number of students, until it
	// returns false.
	Schools(ctx context.Context, yield func(region, name string, students int64) bool) error
	// OfSchool is All for the students of one school.
	OfSchool(ctx context.Context, region, name string) iter.Seq2[results.Student, error]
}

// place is a school with its number of students.
type place struct {
	region, name string
	students     int64
}

// narrow returns the part of the source that holds the schools that are asked for.
// If there are none the error is an *UnknownSchoolError.
func narrow(ctx context.Context, cfg Config, source Indexed) (dataset.Source[results.Student], error) {
	part := chosen{Indexed: source}
	near := &nearest{want: fold(cfg.School)}
	w := writer{wantName: near.want, wantRegion: fold(cfg.Region)}
	err := source.Schools(ctx, func(region, name string, students int64) bool {
		near.add(name, region)
		if w.wants(&results.Student{School: name, Region: region}) {
			part.places = append(part.places, place{region, name, students})
		}
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("look for the school: %w", err)
	}
	if len(part.places) == 0 {
		return nil, &UnknownSchoolError{School: cfg.School, Region: cfg.Region, Near: near.names()}
	}
	return part, nil
}

// chosen is some schools of a source. There are several if they differ in capital
// letters and spaces alone, or if the region was not named.
type chosen struct {
	Indexed
	places []place
}

// Meta counts the students of the schools.
func (c chosen) Meta() dataset.Meta {
	meta := c.Indexed.Meta()
	meta.Count = 0
	for _, p := range c.places {
		meta.Count += p.students
	}
	return meta
}

// All yields the students of the schools.
func (c chosen) All(ctx context.Context) iter.Seq2[results.Student, error] {
	return func(yield func(results.Student, error) bool) {
		for _, p := range c.places {
			for student, err := range c.OfSchool(ctx, p.region, p.name) {
				if !yield(student, err) || err != nil {
					return
				}
			}
		}
	}
}
