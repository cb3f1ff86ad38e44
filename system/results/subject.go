package results

import "slices"

// SubjectsPerStream is how many subjects a student sits.
const SubjectsPerStream = 7

// A Subject of the exam. The zero Subject is none.
type Subject uint8

// The subjects of both streams, in the order in which tables list them.
const (
	English Subject = iota + 1
	Mathematics
	Physics
	Chemistry
	Biology
	Geography
	History
	Economics
	Aptitude
	Civics
)

// subjectNames holds the names by subject; index 0 is no subject.
var subjectNames = [...]string{
	"", "english", "mathematics", "physics", "chemistry", "biology",
	"geography", "history", "economics", "aptitude", "civics",
}

// String returns the subject's name in lower case: its key in JSON and its
// column in CSV and SQL.
func (s Subject) String() string { return word(subjectNames[:], s) }

// word is the one at a place, "" beyond the last.
func word[T ~uint8](words []string, place T) string {
	if int(place) >= len(words) {
		return ""
	}
	return words[place]
}

// parse is the place of a word.
func parse[T ~uint8](words []string, text string) (T, bool) {
	at := max(slices.Index(words, text), 0) // the first is none
	return T(at), at > 0
}

// Subjects returns the subjects of both streams in table order.
func Subjects() []Subject {
	return []Subject{
		English, Mathematics, Physics, Chemistry, Biology,
		Geography, History, Economics, Aptitude, Civics,
	}
}

// A Stream is the set of subjects that a student sits. The zero Stream is invalid.
type Stream uint8

// The two streams.
const (
	Natural Stream = iota + 1
	Social
)

// streamNames holds the names by stream; index 0 is no stream.
var streamNames = []string{"", "natural", "social"}

var streamSubjects = [...][SubjectsPerStream]Subject{
	{},
	{English, Mathematics, Physics, Chemistry, Biology, Aptitude, Civics},
	{English, Mathematics, Geography, History, Economics, Aptitude, Civics},
}

// ParseStream reads "natural" or "social".
func ParseStream(text string) (Stream, bool) {
	return parse[Stream](streamNames, text)
}

// String returns "natural" or "social", and "" for an invalid stream.
func (s Stream) String() string { return word(streamNames, s) }

// Subjects returns the stream's subjects in the order of Student.Marks. An
// invalid stream has seven times no subject.
func (s Stream) Subjects() [SubjectsPerStream]Subject {
	if int(s) >= len(streamSubjects) {
		return [SubjectsPerStream]Subject{}
	}
	return streamSubjects[s]
}

// Sex of a student as the school registered it. The zero Sex is invalid.
type Sex uint8

// The two values in use.
const (
	Female Sex = iota + 1
	Male
)

// sexNames holds the words by sex; index 0 is neither.
var sexNames = []string{"", "female", "male"}

// ParseSex reads "female" or "male".
func ParseSex(text string) (Sex, bool) {
	return parse[Sex](sexNames, text)
}

// String returns "female" or "male", and "" for an invalid value.
func (s Sex) String() string { return word(sexNames, s) }
