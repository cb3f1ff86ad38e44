package menu

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // images have no time zones

	"github.com/go-json-experiment/json"

	"loadstone/block/text"
)

// Bounds of an Overlay, beside MaxBodyBytes of JSON. SoldOut has at most MaxDishes.
const (
	MaxDayparts = 20
	MaxSections = 100
)

// Overlay is a menu's availability: what of it is served when, and what is sold out. It lies
// over the menu and changes nothing of it: no body, no tag, no version. A nil Overlay says
// nothing, so everything is served. It is kept as a Document of the kind Availability.
//
// Sections (the dishType of dishes) and dishes are known by their names, in capitals or not.
// Names that the menu does not have mean nothing.
type Overlay struct {
	// TimeZone is that of dayparts' hours, nil if there are no dayparts.
	TimeZone *time.Location
	Dayparts []Daypart
	SoldOut  []SoldOut
}

// Daypart is when some sections are served, such as breakfast. A section that several
// dayparts name is served in each of them; one that none names always is.
type Daypart struct {
	Name string
	// Days are those on which it begins, in the order of the week, Monday first.
	Days []time.Weekday
	// From and To are by the clock, in minutes since midnight: From is below a day's, and a To that is not
	// above From is of the next day. Of a time that the clock shows twice the first is
	// meant, and instead of one that it skips the moment when it goes on.
	From, To int
	Sections []string
}

// SoldOut is a dish that there is no more of.
type SoldOut struct {
	Dish string
	// Until is when there is again, to the second; zero if somebody will say so.
	Until time.Time
}

const dayMinutes = 24 * 60

type weekday struct {
	name string
	day  time.Weekday
}

// week are the days as JSON has them, in the order of Daypart.Days.
var week = []weekday{
	{"mon", time.Monday}, {"tue", time.Tuesday}, {"wed", time.Wednesday}, {"thu", time.Thursday},
	{"fri", time.Friday}, {"sat", time.Saturday}, {"sun", time.Sunday},
}

type wireOverlay struct {
	TimeZone string        `json:"timeZone,omitzero"`
	Dayparts []wireDaypart `json:"dayparts"`
	SoldOut  []wireSoldOut `json:"soldOut"`
}

type wireDaypart struct {
	Name     string   `json:"name"`
	Days     []string `json:"days"`
	From     string   `json:"from"`
	To       string   `json:"to"`
	Sections []string `json:"sections"`
}

type wireSoldOut struct {
	Dish  string     `json:"dish"`
	Until *time.Time `json:"until,omitzero"`
}

// JSON is the availability as clients get it:
//
//	{"timeZone":"Europe/Berlin","dayparts":[{"name":"breakfast","days":["mon","sat"],"from":"07:00",
//	"to":"11:00","sections":["breakfast"]}],"soldOut":[{"dish":"Shiro","until":"2026-11-23T22:00:00Z"}]}
//
// The same availability always gives the same bytes.
func (o *Overlay) JSON() []byte {
	wire := wireOverlay{Dayparts: []wireDaypart{}, SoldOut: []wireSoldOut{}}
	if o.TimeZone != nil {
		wire.TimeZone = o.TimeZone.String()
	}
	for _, d := range o.Dayparts {
		days := []string{}
		for _, w := range week {
			if slices.Contains(d.Days, w.day) {
				days = append(days, w.name)
			}
		}
		wire.Dayparts = append(wire.Dayparts, wireDaypart{d.Name, days, ClockTime(d.From), ClockTime(d.To), d.Sections})
	}
	for _, s := range o.SoldOut {
		sold := wireSoldOut{Dish: s.Dish}
		if !s.Until.IsZero() {
			until := s.Until.UTC()
			sold.Until = &until
		}
		wire.SoldOut = append(wire.SoldOut, sold)
	}
	body, err := json.Marshal(wire, json.Deterministic(true))
	if err != nil {
		panic(err) // what Parse and Validate let through is text and times
	}
	return body
}

// ClockTime writes minutes since midnight as people do: 450 is 07:30.
func ClockTime(minutes int) string { return fmt.Sprintf("%02d:%02d", minutes/60, minutes%60) }

// ParseOverlay reads what JSON writes; each part may be missing, and a daypart without
// days is on all. It is as strict as ParseJSON, and the result is valid. The error wraps
// ErrInput, with all problems joined.
func ParseOverlay(body []byte) (*Overlay, error) {
	var wire wireOverlay
	if err := json.Unmarshal(body, &wire, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInput, plainly(err, "the availability",
			"timeZone, dayparts and soldOut, of a daypart name, days, from, to and sections, and of soldOut dish and until"))
	}
	a, err := wire.read()
	if err == nil {
		if n := len(a.JSON()); n > MaxBodyBytes {
			err = fmt.Errorf("the availability has %d bytes: write at most %d", n, MaxBodyBytes)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInput, err)
	}
	return a, nil
}

func (w *wireOverlay) read() (*Overlay, error) {
	if len(w.Dayparts) > MaxDayparts || len(w.SoldOut) > MaxDishes {
		return nil, fmt.Errorf("there are %d dayparts and %d dishes sold out: write at most %d and %d", len(w.Dayparts), len(w.SoldOut), MaxDayparts, MaxDishes)
	}
	a := &Overlay{}
	var problems []error
	zone, err := time.LoadLocation(w.TimeZone)
	switch {
	case w.TimeZone == "" && len(w.Dayparts) > 0:
		problems = append(problems, errors.New("timeZone is missing: write that of the dayparts' hours, such as Europe/Berlin"))
	case err != nil || w.TimeZone == "Local":
		problems = append(problems, fmt.Errorf("timeZone is %.80q: write one such as Europe/Berlin", w.TimeZone))
	case w.TimeZone != "":
		a.TimeZone = zone
	}
	for i := range w.Dayparts {
		d, err := w.Dayparts[i].read()
		if err != nil {
			problems = append(problems, fmt.Errorf("dayparts[%d]: %w", i, err))
		}
		a.Dayparts = append(a.Dayparts, d)
	}
	seen := make(map[string]bool)
	for i := range w.SoldOut {
		sold, err := w.SoldOut[i].read()
		if seen[fold(sold.Dish)] {
			err = fmt.Errorf("dish is %q a second time: write it once", sold.Dish)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("soldOut[%d]: %w", i, err))
		}
		seen[fold(sold.Dish)] = true
		a.SoldOut = append(a.SoldOut, sold)
	}
	return a, errors.Join(problems...)
}

func (w *wireSoldOut) read() (sold SoldOut, err error) {
	sold.Dish = w.Dish
	if w.Until != nil {
		sold.Until = w.Until.Truncate(time.Second).UTC()
		if y := sold.Until.Year(); y < 2000 || y > 9999 {
			err = fmt.Errorf("until is %s: write when there is more, such as 2030-01-31T18:00:00Z", sold.Until)
		}
	}
	return sold, errors.Join(text.Check("dish", w.Dish, MaxText), err)
}

// ParseSoldOut reads what a kitchen says of one dish, {"dish":"Shiro","soldOut":true}, perhaps
// with an until as in an Overlay. The error wraps ErrInput.
func ParseSoldOut(body []byte) (dish SoldOut, out bool, err error) {
	var wire struct {
		wireSoldOut

		Out *bool `json:"soldOut"`
	}
	if err := json.Unmarshal(body, &wire, json.RejectUnknownMembers(true)); err != nil {
		return dish, false, fmt.Errorf("%w: %w", ErrInput, plainly(err, "the message", "dish, soldOut and until"))
	}
	dish, err = wire.read()
	switch {
	case err != nil:
	case wire.Out == nil:
		err = errors.New("soldOut is missing: write true or false")
	case !*wire.Out && wire.Until != nil:
		err = errors.New("there is an until of what is not sold out: leave it out")
	default:
		return dish, *wire.Out, nil
	}
	return dish, false, fmt.Errorf("%w: %w", ErrInput, err)
}

// Mark says of a dish that it is sold out, or is not. What has been available again by now is
// left out from then on.
func (o *Overlay) Mark(dish SoldOut, out bool, now time.Time) {
	o.SoldOut = slices.DeleteFunc(o.SoldOut, func(s SoldOut) bool {
		return fold(s.Dish) == fold(dish.Dish) || !s.Until.IsZero() && !s.Until.After(now)
	})
	if out {
		o.SoldOut = append(o.SoldOut, dish)
	}
}

func (w *wireDaypart) read() (Daypart, error) {
	d := Daypart{Name: w.Name, Sections: w.Sections}
	problems := []error{text.Check("name", w.Name, MaxText)}
	for _, name := range w.Days {
		if !slices.ContainsFunc(week, func(d weekday) bool { return d.name == name }) {
			problems = append(problems, fmt.Errorf("days has %.80q: write mon, tue, wed, thu, fri, sat and sun", name))
		}
	}
	for _, day := range week {
		if len(w.Days) == 0 || slices.Contains(w.Days, day.name) {
			d.Days = append(d.Days, day.day)
		}
	}
	var err error
	if d.From, err = parseClock("from", w.From); err == nil && d.From == dayMinutes {
		err = errors.New("from is 24:00: write 00:00, of the next day")
	}
	problems = append(problems, err)
	if d.To, err = parseClock("to", w.To); err == nil && d.To == d.From {
		err = fmt.Errorf("from and to are %s: write 00:00 and 24:00 for a whole day", w.To)
	}
	problems = append(problems, err)
	if len(w.Sections) == 0 || len(w.Sections) > MaxSections {
		problems = append(problems, fmt.Errorf("there are %d sections: write 1 to %d, by the dishType of their dishes", len(w.Sections), MaxSections))
		return d, errors.Join(problems...)
	}
	for i, section := range w.Sections {
		problems = append(problems, text.Check(fmt.Sprintf("sections[%d]", i), section, MaxText))
	}
	return d, errors.Join(problems...)
}

func parseClock(field, clock string) (minutes int, err error) {
	hour, minute, _ := strings.Cut(clock, ":")
	if len(hour) == 2 && len(minute) == 2 {
		for _, digit := range hour + minute {
			if digit < '0' || digit > '9' {
				minutes = -dayMinutes
			}
		}
		h, m := int(hour[0]-'0')*10+int(hour[1]-'0'), int(minute[0]-'0')*10+int(minute[1]-'0')
		if minutes += h*60 + m; minutes >= 0 && minutes <= dayMinutes && m < 60 {
			return minutes, nil
		}
	}
	return 0, fmt.Errorf("%s is %.80q: write a time of day from 00:00 to 24:00, such as 07:30", field, clock)
}

// fold is a name as it is compared.
func fold(name string) string { return strings.ToLower(name) }

// Now is what is served at a time.
type Now struct {
	timed, open map[string]bool // sections that dayparts name, and those of the dayparts under way
	soldOut     map[string]bool
	// Changes is when it is something else by itself, within the week after; zero if it is not.
	Changes time.Time
	// Tag is another one where something else is served, or the overlay is another.
	Tag uint64
}

// Serves reports whether a section is served.
func (n *Now) Serves(section string) bool {
	section = fold(section)
	return n.open[section] || !n.timed[section]
}

// SoldOut reports whether a dish is.
func (n *Now) SoldOut(dish string) bool { return n.soldOut[fold(dish)] }

// At says what is served at a time.
func (o *Overlay) At(now time.Time) *Now {
	n := &Now{}
	if o == nil {
		return n
	}
	state := o.JSON()
	n.timed, n.open, n.soldOut = make(map[string]bool), make(map[string]bool), make(map[string]bool)
	later := func(change time.Time) {
		if change.After(now) && (n.Changes.IsZero() || change.Before(n.Changes)) {
			n.Changes = change
		}
	}
	for _, s := range o.SoldOut {
		if s.Until.IsZero() || s.Until.After(now) {
			n.soldOut[fold(s.Dish)] = true
			later(s.Until)
		}
		state = strconv.AppendBool(state, n.SoldOut(s.Dish))
	}
	for i := range o.Dayparts {
		d, open := &o.Dayparts[i], false
		year, month, today := now.In(o.TimeZone).Date()
		for day := today - 2; day <= today+8; day++ { // what began two days ago may last, as a day may have 25 hours
			from, to, ok := d.on(time.Date(year, month, day, 0, 0, 0, 0, time.UTC), o.TimeZone)
			if !ok {
				continue
			}
			open = open || !now.Before(from) && now.Before(to)
			later(from)
			later(to)
		}
		state = strconv.AppendBool(state, open)
		for _, section := range d.Sections {
			n.timed[fold(section)] = true
			n.open[fold(section)] = n.open[fold(section)] || open
		}
	}
	n.Tag = Tag(state)
	return n
}

// Hours are the dayparts of a section; none if it always is served.
func (o *Overlay) Hours(section string) (all []*Daypart) {
	for i := range o.Dayparts {
		if d := &o.Dayparts[i]; slices.ContainsFunc(d.Sections, func(s string) bool { return fold(s) == fold(section) }) {
			all = append(all, d)
		}
	}
	return all
}

// String is the daypart for people, as in dinner: Mon–Fri, Sun 18:00–01:00.
func (d *Daypart) String() string {
	return fmt.Sprintf("%s: %s %s\u2013%s", d.Name, dayRanges(d.Days), ClockTime(d.From), ClockTime(d.To))
}

// dayRanges writes days of the week that are in order, as in Mon–Fri, Sun.
func dayRanges(all []time.Weekday) string {
	monday := func(d time.Weekday) int { return (int(d) + 6) % 7 }
	var names []string
	for i := 0; i < len(all); {
		last := i
		for last+1 < len(all) && monday(all[last+1]) == monday(all[last])+1 {
			last++
		}
		name := all[i].String()[:3]
		if last > i {
			name += "\u2013" + all[last].String()[:3]
		}
		names = append(names, name)
		i = last + 1
	}
	return strings.Join(names, ", ")
}

// on is when the daypart of a day, midnight in UTC, begins and ends; not ok if there is none.
func (d *Daypart) on(day time.Time, zone *time.Location) (from, to time.Time, ok bool) {
	if !slices.Contains(d.Days, day.Weekday()) {
		return from, to, false
	}
	end := d.To
	if d.To <= d.From {
		end += dayMinutes
	}
	from, to = clock(day, d.From, zone), clock(day, end, zone)
	return from, to, from.Before(to)
}

// clock is when the clock in a zone first shows a time of a day, or goes on behind it.
func clock(day time.Time, minutes int, zone *time.Location) time.Time {
	y, m, d := day.Date()
	wanted := day.Add(time.Duration(minutes) * time.Minute) // as if the clock went by UTC
	t := time.Date(y, m, d, 0, minutes, 0, 0, zone)         // one of two if the clock shows it twice, any if never
	shown := func(t time.Time) time.Time {
		_, offset := t.Zone()
		return t.UTC().Add(time.Duration(offset) * time.Second)
	}
	start, end := t.ZoneBounds()
	switch showing := shown(t); {
	case showing.After(wanted):
		return start
	case showing.Before(wanted):
		return end
	case start.IsZero():
		return t
	}
	_, offset := start.Add(-time.Second).In(zone).Zone()
	if earlier := wanted.Add(-time.Duration(offset) * time.Second).In(zone); earlier.Before(start) && shown(earlier).Equal(wanted) {
		return earlier
	}
	return t
}
