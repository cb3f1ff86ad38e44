package backoffice

// For tests of the package from outside.
const (
	TriesOfName    = triesOfName
	TriesOfAddress = triesOfAddress
	AddressAgain   = addressAgain
	MaxSignInBytes = maxSignInBytes
)
