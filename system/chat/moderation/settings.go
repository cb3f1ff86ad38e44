package moderation

import (
	"errors"
	"fmt"
)

// Bounds of settings, in seconds.
const (
	MaxSlow  = 3600
	MaxDelay = 60
)

// Settings are a room's. The zero value lets everybody say everything.
type Settings struct {
	// Slow is how many seconds lie between two messages of a user at least.
	Slow int `json:"slow"`
	// Followers and Subscribers are who alone may speak; subscribers are followers, too.
	Followers   bool `json:"followers"`
	Subscribers bool `json:"subscribers"`
	// Emotes lets nothing be said but emoji.
	Emotes bool `json:"emotes"`
	// Unique lets nothing be said that is among the last that were said.
	Unique bool `json:"unique"`
	// Delay is how many seconds pass until viewers see a message. Hosts and moderators see
	// it at once.
	Delay int `json:"delay"`
	// Words are what is not said, see Words. Viewers are not told them.
	Words []string `json:"words,omitempty"`
}

// Validate returns all that is wrong, joined.
func (s *Settings) Validate() error {
	var errs []error
	if s.Slow < 0 || s.Slow > MaxSlow {
		errs = append(errs, fmt.Errorf("slow is %d seconds: write 0 to %d", s.Slow, MaxSlow))
	}
	if s.Delay < 0 || s.Delay > MaxDelay {
		errs = append(errs, fmt.Errorf("delay is %d seconds: write 0 to %d", s.Delay, MaxDelay))
	}
	if _, err := NewWords(s.Words); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// public are the settings as viewers are told them.
func (s *Settings) public() Settings {
	p := *s
	p.Words = nil
	return p
}
