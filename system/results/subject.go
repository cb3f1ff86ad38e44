package results

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
func (s Subject) String() string {
	if int(s) >= len(subjectNames) {
		return ""
	}
	return subjectNames[s]
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

var streamSubjects = [...][SubjectsPerStream]Subject{
	{},
	{English, Mathematics, Physics, Chemistry, Biology, Aptitude, Civics},
	{English, Mathematics, Geography, History, Economics, Aptitude, Civics},
}

// ParseStream reads "natural" or "social".
func ParseStream(text string) (Stream, bool) {
	switch text {
	case "natural":
		return Natural, true
	case "social":
		return Social, true
	}
	return 0, false
}

// String returns "natural" or "social", and "" for an invalid stream.
func (s Stream) String() string {
	switch s {
	case Natural:
		return "natural"
	case Social:
		return "social"
	}
	return ""
}

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

// ParseSex reads "female" or "male".
func ParseSex(text string) (Sex, bool) {
	switch text {
	case "female":
		return Female, true
	case "male":
		return Male, true
	}
	return 0, false
}

// String returns "female" or "male", and "" for an invalid value.
func (s Sex) String() string {
	switch s {
	case Female:
		return "female"
	case Male:
		return "male"
	}
	return ""
}
