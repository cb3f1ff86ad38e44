package backoffice

import (
	"errors"
	"html/template"
	"strings"
)

// ErrForm is the error of a form that is none of the page's.
var ErrForm = errors.New("this is not the form of this page")

// Field is what somebody has typed, with what is wrong with it.
type Field struct{ Value, Problem string }

// Check keeps what is wrong, and reports whether nothing is.
func (f *Field) Check(err error) bool {
	if err != nil {
		f.Problem = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	return err == nil
}

// Input is a Field as the template "field" has it.
type Input struct {
	Field

	ID, Name, Label, Class string
	// Lines is how many lines of text are to be seen, 0 for a field of one line.
	Lines int
	Focus bool
	// List is the id of a datalist, empty for none.
	List string
}

// Line is what was typed without what nobody sees.
func Line(typed []byte) string {
	return strings.TrimSpace(strings.ReplaceAll(strings.ToValidUTF8(string(typed), "\uFFFD"), "\r\n", "\n"))
}

// functions are what templates call:
//
//	input ID NAME LABEL CLASS FIELD   an Input; lines NUMBER, focus BOOL and list ID change one
//	add A B                           their sum; A is an int or int64
//	join TEXTS SEPARATOR
var functions = template.FuncMap{
	"join": strings.Join,
	"add": func(a any, b int64) int64 {
		switch a := a.(type) {
		case int:
			return int64(a) + b
		case int64:
			return a + b
		}
		return b
	},
	"input": func(id, name, label, class string, f Field) Input {
		return Input{Field: f, ID: id, Name: name, Label: label, Class: class}
	},
	"lines": func(n int, i Input) Input { i.Lines = n; return i },
	"focus": func(on bool, i Input) Input { i.Focus = on; return i },
	"list":  func(id string, i Input) Input { i.List = id; return i },
}
