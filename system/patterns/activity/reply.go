package activity

import (
	"encoding/json"

	"github.com/valyala/fasthttp"

	"loadstone/system/patterns"
)

// refuseInput answers what a client sent wrong. Unlike patterns.Fail it takes any
// text: the message may quote what was sent.
func refuseInput(ctx *fasthttp.RequestCtx, status int, code, message string) {
	var body struct {
		Error struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	body.Error.Code, body.Error.Message = code, message
	text, err := json.Marshal(body)
	if err != nil { // two texts always have a form in JSON
		text = []byte(`{"error":{"code":"internal","message":"the server made a mistake"}}`)
	}
	patterns.Answer(ctx, status, text)
}
