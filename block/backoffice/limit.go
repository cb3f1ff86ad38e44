package backoffice

import (
	"net/http"
	"time"
)

// How often one may try to sign in: so many times at once, and then once in a while.
const (
	triesOfName    = 5 // one account from one address
	triesOfAddress = 30
	nameAgain      = time.Minute
	addressAgain   = 10 * time.Second
)

// maxKeys bounds those that are remembered, some 2 MB.
const maxKeys = 10_000

var errBusy = &Refusal{http.StatusServiceUnavailable, "Nothing was changed: too much is under way. Go back and try again in a moment."}
