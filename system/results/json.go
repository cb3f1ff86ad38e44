package results

import (
	"strconv"

	"github.com/cespare/xxhash/v2"

	"loadstone/block/encode"
)

// NewPage encodes the student's finished answer. Body and Code share one
// allocation on the heap, so Owner is nil.
func NewPage(s *Student) Page {
	// A typical body has 330 bytes; a longer one makes append grow once.
	const typical = 448
	buf := s.AppendJSON(make([]byte, 0, typical))
	body := len(buf)
	buf = append(buf, s.Code...)
	return Page{Body: buf[:body:body], Code: buf[body:], Tag: Tag(buf[:body])}
}

// Tag identifies a body: the XXH64 hash of its bytes. It is the same in every
// store and every process, so replicas agree on a page's ETag.
func Tag(body []byte) uint64 { return xxhash.Sum64(body) }

// subjectKeys holds `"english":` and so on, by subject.
var subjectKeys = func() (keys [len(subjectNames)]string) {
	for i, name := range subjectNames {
		keys[i] = `"` + name + `":`
	}
	return keys
}()

// AppendJSON appends the response body: one JSON object, about 330 bytes,
// without the access code.
//
// It is written out by hand because the query store encodes on every request:
// it costs about a seventh of encoding/json and allocates nothing. Strings come out
// byte for byte as encoding/json writes them.
//
// A change to the bytes makes published snapshots differ from fresh ones under
// the same fingerprint: raise snapshot.Version with it.
func (s *Student) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"id":`...)
	dst = strconv.AppendInt(dst, s.ID, 10)
	dst = append(dst, `,"name":`...)
	dst = encode.String(dst, s.Name)
	dst = append(dst, `,"sex":"`...)
	dst = append(dst, s.Sex.String()...)
	dst = append(dst, `","school":`...)
	dst = encode.String(dst, s.School)
	dst = append(dst, `,"region":`...)
	dst = encode.String(dst, s.Region)
	dst = append(dst, `,"birth_date":"`...)
	dst = s.BirthDate.Append(dst)
	dst = append(dst, `","stream":"`...)
	dst = append(dst, s.Stream.String()...)
	dst = append(dst, `","marks":{`...)
	for i, subject := range s.Stream.Subjects() {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, subjectKeys[subject]...)
		dst = strconv.AppendInt(dst, int64(s.Marks[i]), 10)
	}
	dst = append(dst, `},"total":`...)
	dst = strconv.AppendInt(dst, int64(s.Total()), 10)
	dst = append(dst, `,"average":`...)
	dst = s.Average().Append(dst)
	dst = append(dst, `,"pass_mark":`...)
	dst = strconv.AppendInt(dst, int64(s.PassMark), 10)
	dst = append(dst, `,"passed":`...)
	dst = strconv.AppendBool(dst, s.Passed())
	return append(dst, '}')
}
