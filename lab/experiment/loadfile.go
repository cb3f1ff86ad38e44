package experiment

import "loadstone/lab/load"

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
		return nil, unreadable(path, "a load file", err)
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
	e, err := parse(&decoder{file: file, loadOnly: true}, data, "the file", "load: {scenarios: {lookup: {executor: constant-arrival-rate, request: GET /}}}")
	if err != nil {
		return nil, err
	}
	return &LoadFile{Offer: e.Load, SLO: e.SLO, Seed: e.Seed, document: e.document}, nil
}

// Plan returns the load as the generator takes it, with the file's targets if
// it has any. A load that is a k6 script has no plan: see Offer.K6.
func (l *LoadFile) Plan() load.Plan {
	p := l.Offer.plan(l.Seed)
	p.Targets = l.Offer.Target
	return p
}
