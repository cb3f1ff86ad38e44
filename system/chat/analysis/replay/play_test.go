package replay

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestMessagesArePlayedAtTheirTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, s := show(true)
		began := time.Now()
		n := 0
		err := New(l, s, Place{}).Play(t.Context(), 10_000, Pace{Speed: 4}, func(m *Message) error {
			n++
			if want := time.Duration(m.Video-10_000) * time.Millisecond / 4; time.Since(began) != want {
				t.Errorf("message %d is shown after %v, want %v", m.Offset, time.Since(began), want)
			}
			return nil
		})
		if err != nil || n != 990 {
			t.Errorf("got %d messages, %v", n, err)
		}
	})
}

func TestPlayEnds(t *testing.T) {
	t.Parallel()
	l, s := show(true)
	ctx, cancel := context.WithCancel(t.Context())
	err := New(l, s, Place{}).Play(ctx, 0, Pace{Speed: 1}, func(*Message) error {
		cancel()
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: got %v", err)
	}
	n := 0
	broken := errors.New("no more paper")
	err = New(l, s, Place{}).Play(t.Context(), 0, Pace{AtOnce: true}, func(*Message) error {
		if n++; n == 500 {
			return broken
		}
		return nil
	})
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}
