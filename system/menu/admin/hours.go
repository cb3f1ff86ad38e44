package admin

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"loadstone/block/backoffice"
	"loadstone/system/menu"
)

// hours are the dayparts of a menu as somebody is typing them.
type hours struct {
	Zone  field
	Parts []part
	// Seen is the tag of the hours that the form was made from.
	Seen string
	// Focus is the part to go on at, -1 for none.
	Focus int
}

// part is a daypart.
type part struct {
	Name, From, To field
	Days, Sections []tick
	Problem        string // of the ticks
}

// tick is a box that is ticked or not.
type tick struct {
	Value, Label string
	On           bool
}

// boxes are some as their template has them.
type boxes struct {
	Name, Label string
	Ticks       []tick
}

// hoursTag is the tag of an availability without what is sold out, as tagOf writes it.
func hoursTag(o *menu.Overlay) string {
	return tagOf(menu.Tag((&menu.Overlay{TimeZone: o.TimeZone, Dayparts: o.Dayparts}).JSON()))
}

func hoursOf(s *served) *hours {
	h := &hours{Seen: hoursTag(s.Overlay), Focus: -1}
	if s.Overlay.TimeZone != nil {
		h.Zone.Value = s.Overlay.TimeZone.String()
	}
	for i := range s.Overlay.Dayparts {
		d := &s.Overlay.Dayparts[i]
		p := part{Name: field{Value: d.Name}, From: field{Value: menu.ClockTime(d.From)}, To: field{Value: menu.ClockTime(d.To)}}
		var days []string
		for _, day := range d.Days {
			days = append(days, dayName(day))
		}
		p.tick(days, d.Sections, s.Sections)
		h.Parts = append(h.Parts, p)
	}
	return h
}

// dayName is a day of the week as availabilities have it.
func dayName(day time.Weekday) string { return strings.ToLower(day.String()[:3]) }

// tick offers all days and sections, and ticks some. Sections that the menu does not have any more
// are offered if they are ticked.
func (p *part) tick(days, sections, all []string) {
	for i := range 7 {
		day := time.Weekday((i + 1) % 7) // Monday first
		p.Days = append(p.Days, tick{dayName(day), day.String()[:3], slices.Contains(days, dayName(day))})
	}
	for _, section := range all {
		p.Sections = append(p.Sections, tick{section, section, has(sections, section)})
	}
	for _, section := range sections {
		if !has(all, section) {
			p.Sections = append(p.Sections, tick{section, section + ", not on the menu", true})
		}
	}
}

// ticked are the values of those that are.
func ticked(all []tick) []string {
	values := []string{}
	for _, t := range all {
		if t.On {
			values = append(values, t.Value)
		}
	}
	return values
}

// readHours reads what was typed. The error is that of a form that is none of ours.
func readHours(args *fasthttp.Args, sections []string) (*hours, error) {
	count, err := strconv.Atoi(string(args.Peek("parts")))
	if err != nil || count < 0 || count > menu.MaxDayparts {
		return nil, backoffice.ErrForm
	}
	h := &hours{Zone: field{Value: backoffice.Line(args.Peek("zone"))}, Seen: string(args.Peek("seen")), Focus: -1}
	for i := range count {
		one := func(name string) field { return field{Value: backoffice.Line(args.Peek(name + "-" + strconv.Itoa(i)))} }
		many := func(name string) (values []string) {
			for _, value := range args.PeekMulti(name + "-" + strconv.Itoa(i)) {
				if value := backoffice.Line(value); !has(values, value) {
					values = append(values, value)
				}
			}
			return values
		}
		p := part{Name: one("name"), From: one("from"), To: one("to")}
		p.tick(many("day"), many("section"), sections)
		h.Parts = append(h.Parts, p)
	}
	return h, nil
}

// edit does what a button without script does: "add" a part, or "remove" and the number of one. It
// reports false if there is no such button.
func (h *hours) edit(button string, sections []string) bool {
	what, number, _ := strings.Cut(button, " ")
	i, err := strconv.Atoi(number)
	switch {
	case button == "add" && len(h.Parts) < menu.MaxDayparts:
		var p part
		p.tick(nil, nil, sections)
		h.Focus, h.Parts = len(h.Parts), append(h.Parts, p)
	case what == "remove" && err == nil && i >= 0 && i < len(h.Parts):
		h.Parts = slices.Delete(h.Parts, i, i+1)
		h.Focus = min(i, len(h.Parts)-1)
	default:
		return false
	}
	return true
}

// wireHours are hours as menu.ParseOverlay reads them.
type wireHours struct {
	Zone  string     `json:"timeZone,omitempty"`
	Parts []wirePart `json:"dayparts"`
}

type wirePart struct {
	Name     string   `json:"name"`
	Days     []string `json:"days"`
	From     string   `json:"from"`
	To       string   `json:"to"`
	Sections []string `json:"sections"`
}

// overlay is what was typed, nil if that is none; then the problems stand beside the fields. Parts
// in which nothing was typed do not count.
func (h *hours) overlay() *menu.Overlay {
	whole := wireHours{Zone: h.Zone.Value}
	good := true
	for i := range h.Parts {
		p := &h.Parts[i]
		w := wirePart{p.Name.Value, ticked(p.Days), p.From.Value, p.To.Value, ticked(p.Sections)}
		if w.Name+w.From+w.To == "" && len(w.Days)+len(w.Sections) == 0 {
			continue
		}
		whole.Parts = append(whole.Parts, w)
		// One field after the other, so that a problem stands beside its own.
		name, from, to := whatever, whatever, whatever
		name.Name, from.From, to.From, to.To = w.Name, w.From, w.From, w.To
		good = p.Name.Check(checkPart(name)) && good
		if p.From.Check(checkPart(from)) {
			good = p.To.Check(checkPart(to)) && good
		}
		good = good && p.From.Problem == ""
		if len(w.Sections) == 0 {
			p.Problem, good = "tick a section, or more", false
		}
	}
	if whole.Zone != "" || len(whole.Parts) > 0 {
		_, err := parseHours(wireHours{Zone: whole.Zone, Parts: []wirePart{whatever}})
		good = h.Zone.Check(err) && good
	}
	if !good {
		return nil
	}
	o, err := parseHours(whole)
	if !h.Zone.Check(err) { // too large: the field that comes first says so
		return nil
	}
	return o
}

// whatever is a daypart without problems.
var whatever = wirePart{"x", nil, "00:00", "24:00", []string{"x"}}

func checkPart(p wirePart) error {
	_, err := parseHours(wireHours{Zone: "UTC", Parts: []wirePart{p}})
	return err
}

// parseHours reads hours, and says what is wrong with them as people read it.
func parseHours(w wireHours) (*menu.Overlay, error) {
	text, err := json.Marshal(w)
	if err != nil {
		return nil, err
	}
	o, err := menu.ParseOverlay(text)
	if err != nil {
		err = errors.New(plain(err))
	}
	return o, err
}

// plain is what is wrong with an availability, without where in its JSON.
func plain(err error) string {
	text := strings.TrimPrefix(err.Error(), menu.ErrInput.Message+": ")
	return strings.TrimPrefix(text, "dayparts[0]: ")
}
