package corpus

import (
	"strconv"

	"loadstone/block/random"
	"loadstone/system/chat"
	"loadstone/system/chat/analysis"
)

// Invent makes up what is said in a stream, of the messages to learn from. It is the same each
// time: people talk, and now and then something happens, and many say the same kind of thing
// at once.
func Invent(stream *chat.Stream, count int) []chat.Message {
	const (
		calm, rush = 3000, 300 // milliseconds between two messages at most
		between    = 120       // messages from one moment to the next
		moment     = 40        // messages of a moment
	)
	names := [...]string{"Noor", "올가", "민수", "Ada", "지우", "Samir", "Yara", "Kofi", "하린", "Mia", "Tariq", "서준"}
	texts := [][]Message{Training("en"), Training("ko")}
	draw := random.New(2, stream.ID)
	at := stream.Started.UnixMilli()
	all := make([]chat.Message, count)
	var label analysis.Label
	for i := range all {
		many := i%between >= between-moment
		if i%between == between-moment {
			label = [...]analysis.Label{analysis.Laughter, analysis.Praise, analysis.Criticism, analysis.Question}[draw.Below(4)]
		}
		pace := calm
		if many {
			pace = rush
		}
		at += int64(draw.Below(pace))
		said := texts[draw.Below(len(texts))]
		m := said[draw.Below(len(said))]
		for many && m.Label != label {
			m = said[draw.Below(len(said))]
		}
		who := draw.Below(len(names))
		all[i] = chat.Message{At: at, Sender: "seed-" + strconv.Itoa(who), Name: names[who], ID: "seed-" + strconv.Itoa(i), Text: m.Text}
	}
	return all
}
