package results

import (
	"sort"
	"time"

	"loadstone/block/random"
)

// schoolCount is how many schools the generated students come from.
const schoolCount = 1200

type school struct{ name, region string }

// schoolTable picks schools by size.
type schoolTable struct {
	schools []school
	// limits holds the running sum of sizes: school i owns the numbers from
	// limits[i-1] up to limits[i].
	limits []int
}

// newSchoolTable spreads the schools over the regions by population, and gives
// each a size between 1 and 4. It does not depend on a seed: every generated
// data set has the same schools.
func newSchoolTable() schoolTable {
	population := 0
	for i := range regions {
		population += regions[i].population
	}
	table := schoolTable{schools: make([]school, 0, schoolCount), limits: make([]int, 0, schoolCount)}
	total, people := 0, 0
	for i := range regions {
		region := &regions[i]
		people += region.population
		// Rounding the running sum, not each share, gives exactly schoolCount.
		for upTo := people * schoolCount / population; len(table.schools) < upTo; {
			number := len(table.schools)
			table.schools = append(table.schools, school{schoolName(region.towns, table.countOf(region.name)), region.name})
			total += 100 + int(random.Mix(uint64(number)*random.Golden)%301)
			table.limits = append(table.limits, total)
		}
	}
	return table
}

// countOf returns how many schools the region has so far; regions are filled one
// after the other.
func (t *schoolTable) countOf(region string) int {
	first := sort.Search(len(t.schools), func(i int) bool { return t.schools[i].region == region })
	return len(t.schools) - first
}

// schoolName names the region's number-th school: all towns get a first school,
// then all a second. The lists are long enough for schoolCount schools; a test
// holds them to it.
func schoolName(towns []string, number int) string {
	town, round := towns[number%len(towns)], number/len(towns)
	kind := schoolKinds[(number+round)%len(schoolKinds)]
	if round == 0 {
		return town + " " + kind
	}
	return town + " " + schoolPatrons[round-1] + " " + kind
}

func (t *schoolTable) pick(draw *random.Stream) *school {
	number := draw.Below(t.limits[len(t.limits)-1])
	return &t.schools[sort.SearchInts(t.limits, number+1)]
}

// birthTable lists birth dates by age: ages[n] holds the days on which somebody
// was born who is 17+n on the day of the exam.
type birthTable struct{ ages [5][]Date }

// birthPermille is how many of a thousand are 17, 18, 19, 20 and 21 years old.
var birthPermille = [...]int{130, 390, 280, 130, 70}

const youngest = 17

func newBirthTable(exam time.Time) (table birthTable) {
	for n := range table.ages {
		// The youngest of an age has the birthday on the day of the exam.
		last := exam.AddDate(-youngest-n, 0, 0)
		first := exam.AddDate(-youngest-n-1, 0, 1)
		for day := first; !day.After(last); day = day.AddDate(0, 0, 1) {
			year, month, dayOfMonth := day.Date()
			table.ages[n] = append(table.ages[n], Date{uint16(year), uint8(month), uint8(dayOfMonth)})
		}
	}
	return table
}

func (t *birthTable) pick(draw *random.Stream) Date {
	share := draw.Below(1000)
	age := 0
	for age < len(birthPermille)-1 && share >= birthPermille[age] {
		share -= birthPermille[age]
		age++
	}
	days := t.ages[age]
	return days[draw.Below(len(days))]
}
