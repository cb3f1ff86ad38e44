// Package train learns the weights of the labels. The same messages give the same weights, on
// every machine.
package train

import (
	"loadstone/block/random"
	"loadstone/system/chat/analysis"
	"loadstone/system/chat/analysis/corpus"
)

// Config is how to learn.
type Config struct {
	// Rounds is how often all messages are looked at.
	Rounds int
	// Margin is by how much, for each feature of a message, its label's sum is to be ahead.
	Margin int32
}

// DefaultConfig was chosen by leaving parts of the training messages out: TestTheChoice prints others.
func DefaultConfig() Config { return Config{Rounds: 30, Margin: 4} }

// Learn returns the model's file: an averaged perceptron with a margin. A message whose label
// is not ahead of the best other one adds one to the weights of its features, and takes one
// from the other's. The weights are the sums of what they were after each message, scaled to a
// byte: sums over all steps forget less of what was seen early than the last weights.
func Learn(cfg Config, messages []corpus.Message) []byte {
	all := examples(messages)
	l := &learner{}
	for range cfg.Rounds {
		l.shuffle(all)
		for i := range all {
			l.step++
			l.look(&all[i], cfg.Margin)
		}
	}
	return l.model()
}

// example is a message with its features.
type example struct {
	features []uint32
	label    analysis.Label
}

func examples(messages []corpus.Message) []example {
	all := make([]example, len(messages))
	for i, m := range messages {
		all[i] = example{analysis.Features(nil, m.Text), m.Label}
	}
	return all
}

type weights [analysis.Buckets][analysis.Labels]int64

// learner has the weights now, and of each change the product with the step of it: the sum
// over all steps is weights*steps - changes.
type learner struct {
	weights, changes weights
	step             int64
	draw             random.Stream
}

func (l *learner) shuffle(all []example) {
	for i := len(all) - 1; i > 0; i-- {
		j := l.draw.Below(i + 1)
		all[i], all[j] = all[j], all[i]
	}
}

func (l *learner) look(e *example, margin int32) {
	var sums [analysis.Labels]int64
	for _, f := range e.features {
		for label, w := range l.weights[f] {
			sums[label] += w
		}
	}
	other := (e.label + 1) % analysis.Labels
	for label := range analysis.Label(analysis.Labels) {
		if label != e.label && (sums[label] > sums[other] || sums[label] == sums[other] && label < other) {
			other = label
		}
	}
	if sums[e.label]-sums[other] > int64(margin)*int64(len(e.features)) {
		return
	}
	for _, f := range e.features {
		l.add(f, e.label, 1)
		l.add(f, other, -1)
	}
}

func (l *learner) add(feature uint32, label analysis.Label, n int64) {
	l.weights[feature][label] += n
	l.changes[feature][label] += n * l.step
}

// model scales the sums to -127 to 127, to the nearest.
func (l *learner) model() []byte {
	var most int64 = 1
	sum := func(f, label int) int64 { return l.weights[f][label]*l.step - l.changes[f][label] }
	for f := range l.weights {
		for label := range l.weights[f] {
			most = max(most, sum(f, label), -sum(f, label))
		}
	}
	file := make([]byte, 0, analysis.Buckets*analysis.Labels)
	for f := range l.weights {
		for label := range l.weights[f] {
			n := sum(f, label) * 127 * 2
			file = append(file, byte((n+sign(n)*most)/(2*most)))
		}
	}
	return file
}

func sign(n int64) int64 {
	if n < 0 {
		return -1
	}
	return 1
}
