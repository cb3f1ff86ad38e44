package chat

// Error is a failure that callers tell apart, by identity (errors.Is with the variables
// below). Code is the same fact for machines, in lower_snake_case, and never changes once
// published.
type Error struct {
	Code    string
	Message string
}

// Error returns the message, a sentence part without a full stop.
func (e *Error) Error() string { return e.Message }

// The failures of this system. Everything else that a function returns is an internal
// failure: a broken disk, a cancelled context.
var (
	// ErrNoStream: there is no such stream.
	ErrNoStream = &Error{"no_stream", "there is no such stream"}
	// ErrEnded: the stream has ended; its chat can be read.
	ErrEnded = &Error{"stream_ended", "the stream has ended, and with it the chat"}
	// ErrRequest: what came is not in the form of the contract.
	ErrRequest = &Error{"bad_request", `this is no request: send {"type":"send","id":"...","text":"..."}`}
	// ErrID: a message has no id, or one that cannot be.
	ErrID = &Error{"bad_id", "give each message an id of 1 to 64 letters, digits, dots, dashes or underscores, and the same one again when it is sent again"}
	// ErrText: a message has nothing to read in it, or characters that cannot be shown.
	ErrText = &Error{"bad_text", "a message has at least one character to read, and no control characters"}
	// ErrTooLong: a message is too long.
	ErrTooLong = &Error{"too_long", "a message has 500 characters at most"}
	// ErrName: a name is empty, too long, or has characters that cannot be shown.
	ErrName = &Error{"bad_name", "a name has 1 to 40 characters, and no control characters"}
	// ErrPicture: the address of a picture is none, or not of https.
	ErrPicture = &Error{"bad_picture", "a picture is an address that begins with https://, of 500 characters at most"}
	// ErrEmail: an e-mail address is none.
	ErrEmail = &Error{"bad_email", "write an e-mail address, such as noor@example.com"}
	// ErrPassword: a new password is too short or too long.
	ErrPassword = &Error{"bad_password", "a password has 12 to 72 bytes"}
	// ErrTitle: a stream's title is empty, too long, or has characters that cannot be shown.
	ErrTitle = &Error{"bad_title", "a title has 1 to 100 characters, and no control characters"}
	// ErrSignIn: nobody has this e-mail address and password, or may not sign in.
	ErrSignIn = &Error{"bad_sign_in", "there is no account with this e-mail address and password"}
	// ErrProvider: the provider at which one signs in cannot be asked. It may pass.
	ErrProvider = &Error{"provider_unavailable", "the provider cannot be asked now"}
	// ErrNoUser: there is no such user.
	ErrNoUser = &Error{"no_user", "there is no such user"}
	// ErrNotAllowed: the user may not do this, here or at all.
	ErrNotAllowed = &Error{"not_allowed", "you may not do this: it is for the stream's host"}
	// ErrNoGuests: only who has signed up may take part.
	ErrNoGuests = &Error{"no_guests", "guests may not take part: sign in"}
	// ErrLive: a host has a stream that is live, and one at a time.
	ErrLive = &Error{"already_live", "you have a stream that is live: end it first"}
	// ErrAccounts: accounts can be neither read nor written. It may pass.
	ErrAccounts = &Error{"accounts_unavailable", "accounts cannot be read or written now"}
	// ErrNotHere: a chat of several servers does not have it.
	ErrNotHere = &Error{"not_here", "a chat that several servers serve together does not have this: its viewers are guests"}
	// ErrToken: a token is missing, not from here, of another kind, or too old.
	ErrToken = &Error{"bad_token", "this token is missing, not from here, or too old: ask for another"}
	// ErrTooMany: the client does more than one may. It may pass.
	ErrTooMany = &Error{"too_many", "this is more than one may do: wait a moment"}
	// ErrFull: a room, or the server, has no place for one more viewer. It may pass.
	ErrFull = &Error{"full", "there is no room for one more viewer"}
	// ErrOverloaded: refused to be able to answer others; nothing was tried.
	ErrOverloaded = &Error{"overloaded", "too many messages are under way"}
	// ErrUnavailable: nothing can be stored, or read. What was acknowledged is stored.
	ErrUnavailable = &Error{"unavailable", "a part of the chat does not answer: try again in a moment"}
)
