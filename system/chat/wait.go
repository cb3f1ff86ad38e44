package chat

// WaitError is a failure that passes by itself.
type WaitError struct {
	Err *Error
	// Seconds are how many until then, at least 1.
	Seconds int
}

// Error returns the failure's message.
func (l *WaitError) Error() string { return l.Err.Message }

// Unwrap returns the failure.
func (l *WaitError) Unwrap() error { return l.Err }
