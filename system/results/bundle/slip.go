package bundle

import "html/template"

// slip is what one student gets.
type slip struct {
	ID                         int64
	Name, Stream, School, Code string
	Address, Link              string
}

// The page has no script and loads nothing, so a school can print it from any
// computer. A slip is never split between two sheets; about ten fit on one.
var headTemplate = template.Must(template.New("head").Parse(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex, nofollow">
<meta name="referrer" content="no-referrer">
<title>Access codes: {{.}}</title>
<style>
body{font:11pt/1.4 sans-serif;margin:1cm}
main{display:grid;grid-template-columns:1fr 1fr}
article{border:1px dashed #777;padding:4mm;break-inside:avoid;overflow-wrap:anywhere}
h2,p{margin:0}
h2{font-size:12pt}
.code{font:bold 15pt monospace}
@media print{header{display:none}body{margin:0}}
</style>
</head>
<body>
<header><h1>{{.}}</h1>
<p>One slip for each student. Print, cut along the lines, and give each student their own. Whoever has a slip can read that result.</p></header>
<main>
`))

var slipTemplate = template.Must(template.New("slip").Parse(`<article><h2>{{.Name}}</h2>
<p>{{.School}}, {{.Stream}}</p>
<p>Number {{.ID}}</p>
<p class="code">{{.Code}}</p>
<p>{{.Address}}</p>
{{if .Link}}<p><a href="{{.Link}}">{{.Link}}</a></p>
{{end}}</article>
`))

const tail = "</main>\n</body>\n</html>\n"
