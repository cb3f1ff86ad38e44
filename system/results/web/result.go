package web

import (
	"encoding/json"
	"fmt"
	"strconv"

	"loadstone/system/results"
)

// result is the JSON of a student's page, see results.Student.AppendJSON.
type result struct {
	ID        int64       `json:"id"`
	Name      string      `json:"name"`
	Sex       string      `json:"sex"`
	School    string      `json:"school"`
	Region    string      `json:"region"`
	BirthDate string      `json:"birth_date"`
	Stream    string      `json:"stream"`
	Marks     marks       `json:"marks"`
	Total     int         `json:"total"`
	Average   json.Number `json:"average"`
	PassMark  int         `json:"pass_mark"`
	Passed    bool        `json:"passed"`

	stream results.Stream
	birth  results.Date
}

// marks are those of both streams.
type marks struct {
	English     int `json:"english"`
	Mathematics int `json:"mathematics"`
	Physics     int `json:"physics"`
	Chemistry   int `json:"chemistry"`
	Biology     int `json:"biology"`
	Geography   int `json:"geography"`
	History     int `json:"history"`
	Economics   int `json:"economics"`
	Aptitude    int `json:"aptitude"`
	Civics      int `json:"civics"`
}

// absent is the mark of a subject that the JSON does not have.
const absent = -1

// of returns a subject's mark.
func (m *marks) of(s results.Subject) int {
	return [...]int{
		absent, m.English, m.Mathematics, m.Physics, m.Chemistry, m.Biology,
		m.Geography, m.History, m.Economics, m.Aptitude, m.Civics,
	}[s]
}

// readResult reads a page's body. It fails if the body is not the result of a
// student: the store or who wrote it is broken, and half a result is worse than
// none. The error does not quote the body, which is somebody's.
func readResult(body []byte) (*result, error) {
	r := &result{Marks: marks{absent, absent, absent, absent, absent, absent, absent, absent, absent, absent}}
	if err := json.Unmarshal(body, r); err != nil {
		return nil, fmt.Errorf("read a student's page of %d bytes: not the JSON of one", len(body))
	}
	var known, born bool
	r.stream, known = results.ParseStream(r.Stream)
	r.birth, born = results.ParseDate(r.BirthDate)
	if !known || !born || r.Name == "" || r.ID < 1 || r.Average == "" || r.Total < 0 || r.PassMark < 1 {
		return nil, fmt.Errorf("read a student's page of %d bytes: it is incomplete", len(body))
	}
	for _, subject := range r.stream.Subjects() {
		if mark := r.Marks.of(subject); mark < 0 || mark > results.MaxMark {
			return nil, fmt.Errorf("read a student's page of %d bytes: no mark in %s", len(body), subject)
		}
	}
	return r, nil
}

// fill writes the result into a page's holes.
func (r *result) fill(v *values, p *phrases) {
	v[holeID] = strconv.FormatInt(r.ID, 10)
	v[holeName], v[holeSchool], v[holeRegion] = r.Name, r.School, r.Region
	v[holeBirth] = p.dateText(int(r.birth.Year), int(r.birth.Month), int(r.birth.Day))
	switch sex, _ := results.ParseSex(r.Sex); sex {
	case results.Female:
		v[holeSex] = p.female
	case results.Male:
		v[holeSex] = p.male
	default:
		v[holeSex] = r.Sex
	}
	v[holeTotal], v[holePassMark] = strconv.Itoa(r.Total), strconv.Itoa(r.PassMark)
	v[holeAverage] = r.Average.String()
	for i, subject := range r.stream.Subjects() {
		v[holeMark+hole(i)] = strconv.Itoa(r.Marks.of(subject))
	}
}
