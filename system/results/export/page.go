package export

import (
	"bytes"
	"fmt"
	"html/template"
	"strings"

	"loadstone/system/results"
)

// render returns the content of a student's file.
func render(format Format, s *results.Student) ([]byte, error) {
	if format == JSON {
		return s.AppendJSON(nil), nil
	}
	var out bytes.Buffer
	if err := page.Execute(&out, view(s)); err != nil {
		return nil, fmt.Errorf("make the page: %w", err)
	}
	return out.Bytes(), nil
}

// page is complete in itself: no script, nothing to load. It asks search engines
// to leave it alone, and browsers not to tell other sites its address, which is a
// secret.
var page = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex, nofollow">
<meta name="referrer" content="no-referrer">
<title>Exam result</title>
<style>
body{font:1rem/1.5 sans-serif;max-width:32rem;margin:1rem auto;padding:0 1rem}
table{border-collapse:collapse;width:100%}
th{text-align:left;font-weight:normal}
th,td{border-bottom:1px solid #bbb;padding:.3rem 0}
td{text-align:right}
</style>
</head>
<body>
<h1>{{.Name}}</h1>
<p>Student {{.ID}}<br>{{.School}}, {{.Region}}<br>Born {{.Born}}<br>{{.Stream}} sciences</p>
<table>
{{range .Rows}}<tr><th scope="row">{{.Subject}}</th><td>{{.Mark}}</td></tr>
{{end}}<tr><th scope="row">Total</th><td>{{.Total}}</td></tr>
<tr><th scope="row">Average</th><td>{{.Average}}</td></tr>
</table>
<p><strong>{{if .Passed}}Passed{{else}}Not passed{{end}}</strong> (the pass mark is {{.PassMark}})</p>
</body>
</html>
`))

type row struct {
	Subject string
	Mark    int
}

type pageView struct {
	ID                         int64
	Name, School, Region, Born string
	Stream, Average            string
	Rows                       []row
	Total, PassMark            int
	Passed                     bool
}

func view(s *results.Student) pageView {
	v := pageView{
		ID: s.ID, Name: s.Name, School: s.School, Region: s.Region, Born: s.BirthDate.String(),
		Stream: capital(s.Stream.String()), Average: s.Average().String(),
		Total: s.Total(), PassMark: s.PassMark, Passed: s.Passed(),
	}
	for i, subject := range s.Stream.Subjects() {
		v.Rows = append(v.Rows, row{capital(subject.String()), s.Marks[i]})
	}
	return v
}

func capital(word string) string { return strings.ToUpper(word[:1]) + word[1:] }
