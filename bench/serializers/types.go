package serializers

import "loadstone/system/feed"

// page and post are feed's, for easyjson, which adds methods to types:
//
//	go run github.com/mailru/easyjson/easyjson -all types.go
type page struct {
	Next  string `json:"next"`
	Posts []post `json:"posts"`
}

type post feed.Post
