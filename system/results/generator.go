package results

import (
	"context"
	"fmt"
	"iter"
	"time"

	"loadstone/block/dataset"
	"loadstone/block/random"
)

// DefaultCount is the number of students of a generated data set unless asked
// otherwise: how many sat the exam of 2025 in this system's story.
const DefaultCount = 674_823

// generatorVersion is part of the fingerprint: raise it when the same seed gives
// other students, so that an old data set is not taken for the new one.
const generatorVersion = 1

// Generator is the source of an invented data set: students 1 to count.
//
// Every student is a function of the seed and the id alone, computed in integer
// arithmetic. So any student can be computed again without the others, all cores
// can work at once, and every machine gives the same bytes.
//
// The access codes are a keyed hash of seed and id: knowing some codes does not
// help to find others, but whoever knows the seed knows them all. They are no
// safer than the seed, and a seed like 1 is no secret. Real results come from an
// import.
type Generator struct {
	seed    uint64
	count   int64
	codes   codeKey
	schools schoolTable
	births  birthTable
}

// examDay is the first day of the exam that the generated students sat.
var examDay = time.Date(2025, time.June, 30, 0, 0, 0, 0, time.UTC)

// NewGenerator returns the data set of the seed with students 1 to count.
func NewGenerator(seed uint64, count int64) (*Generator, error) {
	if count < 1 || count > MaxID {
		return nil, fmt.Errorf("generate %d students: write a number from 1 to %d", count, int64(MaxID))
	}
	return &Generator{
		seed:    seed,
		count:   count,
		codes:   newCodeKey(seed),
		schools: newSchoolTable(),
		births:  newBirthTable(examDay),
	}, nil
}

// Meta describes the data set.
func (g *Generator) Meta() dataset.Meta {
	return dataset.Meta{
		Origin:      fmt.Sprintf("seed %d, %d students", g.seed, g.count),
		Fingerprint: fmt.Sprintf(madeUp+"%d, seed %d, count %d", generatorVersion, g.seed, g.count),
		Count:       g.count,
	}
}

// Shares of a thousand, and the spread of marks. They are plausible, not taken
// from any year.
const (
	femalePermille  = 465
	naturalPermille = 570
)

// Student computes the student with the id, from 1 to count; an id outside gives
// a student who is not part of the data set.
func (g *Generator) Student(id int64) Student {
	draw := random.New(g.seed, id)
	student := Student{ID: id, Sex: Male, Stream: Social, PassMark: DefaultPassMark}
	given := maleNames
	if draw.Below(1000) < femalePermille {
		student.Sex, given = Female, femaleNames
	}
	if draw.Below(1000) < naturalPermille {
		student.Stream = Natural
	}
	student.Name = fullName(&draw, given)
	school := g.schools.pick(&draw)
	student.School, student.Region = school.name, school.region
	student.BirthDate = g.births.pick(&draw)
	student.Marks = marks(&draw, student.Stream)
	student.Code = g.codes.code(id)
	return student
}

// fullName joins a given name with the father's and the grandfather's: there are
// no family names. Popular names stand first in each list.
func fullName(draw *random.Stream, given []string) string {
	father, grandfather := draw.Popular(len(elderNames)), draw.Popular(len(elderNames))
	if father == grandfather {
		grandfather = (grandfather + 1) % len(elderNames)
	}
	return given[draw.Popular(len(given))] + " " + elderNames[father] + " " + elderNames[grandfather]
}

// subjectLevels holds the mean mark and the spread (standard deviation) of each
// subject, by Subject.
var subjectLevels = [...]struct{ mean, spread int64 }{
	{},
	English:     {47, 15},
	Mathematics: {39, 17},
	Physics:     {40, 16},
	Chemistry:   {44, 16},
	Biology:     {49, 15},
	Geography:   {50, 14},
	History:     {48, 15},
	Economics:   {45, 15},
	Aptitude:    {43, 16},
	Civics:      {56, 13},
}

// marks draws a mark per subject:
//
//	mark = mean + spread * (0.8 * ability + 0.6 * luck)
//
// with ability (one per student) and luck (one per mark) close to the standard
// normal distribution. As 0.8² + 0.6² = 1 the spread stays as listed, and two
// subjects of a student correlate with 0.8² = 0.64.
func marks(draw *random.Stream, stream Stream) (marks [SubjectsPerStream]int) {
	ability := draw.Normal()
	for i, subject := range stream.Subjects() {
		level := subjectLevels[subject]
		noise := (8*ability + 6*draw.Normal()) / 10
		// Rounds to the nearest: the shift by 1000 keeps the dividend positive,
		// where integer division rounds down.
		const shift = 1000
		scaled := (level.mean+shift)*random.NormalUnit + level.spread*noise
		mark := (scaled+random.NormalUnit/2)/random.NormalUnit - shift
		marks[i] = int(min(max(mark, 0), MaxMark))
	}
	return marks
}

// All yields the students in ascending order of id.
func (g *Generator) All(ctx context.Context) iter.Seq2[Student, error] {
	return dataset.Generate(ctx, g.count, g.Student)
}
