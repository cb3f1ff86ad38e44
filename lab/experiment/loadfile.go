package experiment

import (
	"fmt"

	"loadstone/lab/load"
)

// LoadFile is a file that says what to offer, and to whom: load, and slo and
// seed if they are there. It is what loadstone load takes. An experiment file
// is one too: what it says of systems, variants and trials is not looked at.
type LoadFile struct {
	// Offer is what to offer, as written, whatever an experiment would measure.
	Offer Offer
	SLO   SLO
	Seed  uint64

	document
}

// LoadOnly reads the load in the file at path, and looks whether the files that
// it names are there and can be used. An error about what the file says is an
// [Errors]; one about reading it is the operating system's.
func LoadOnly(path string) (*LoadFile, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the load: %w", err)
	}
	l, err := ParseLoad(path, data)
	if err != nil {
		return nil, err
	}
	if err := l.checkFiles(&l.Offer); err != nil {
		return nil, err
	}
	return l, nil
}

// ParseLoad reads a load from data. file is its name in errors, and what the
// paths in it are relative to. It opens no other file. The error is an [Errors].
func ParseLoad(file string, data []byte) (*LoadFile, error) {
	d := &decoder{file: file}
	root := d.parse(data)
	var l *LoadFile
	if root != nil && len(d.errs) == 0 { // a tree with holes would report what is not so
		l = d.loadFile(root)
	}
	if err := d.errs.sorted(); err != nil {
		return nil, err
	}
	l.document = d.document(root, data)
	return l, nil
}

// loadFile reads the whole file.
func (d *decoder) loadFile(root *node) *LoadFile {
	l := &LoadFile{Seed: defaultSeed}
	s := d.section(root, root, "the file", offerExample)
	if s == nil {
		return l
	}
	s.hints = map[string]hint{
		"thresholds": {"write them under slo", "slo"},
		"scenarios":  {"write them under load", "load"},
	}
	offer := s.need("load", offerExample)
	slo := s.may("slo", sloExample)
	if f := s.may("seed", "seed: 1"); f.given() {
		l.Seed = f.seed()
	}
	// The other keys of an experiment are for whoever runs it as one.
	s.known = append(s.known, "name", "question", "system", "profiles", "entry", "variants", "sweep", "measure", "faults", "watch", "trials", "search")
	l.Offer = offer.offer(AsWritten)
	l.SLO = slo.slo(&l.Offer)
	s.done()
	return l
}

// Plan returns the load as the generator takes it, with the file's targets if
// it has any. A load that is a k6 script has no plan: see Offer.K6.
func (l *LoadFile) Plan() load.Plan {
	p := l.Offer.plan(l.Seed)
	p.Targets = l.Offer.Target
	return p
}
