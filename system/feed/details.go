package feed

// Details collects parts of posts from rows, which come in the order in which they are shown.
type Details map[int64]Detail

// AddMedium adds one to a post's media.
func (d Details) AddMedium(post int64, m Medium) {
	media, ok := d[post].(*Media)
	if !ok {
		media = &Media{Post: post}
		d[post] = media
	}
	media.Media = append(media.Media, m)
}

// AddReaction adds one to a post's responses.
func (d Details) AddReaction(post int64, r Reaction) {
	all := d.responses(post)
	all.Reactions = append(all.Reactions, r)
}

// AddComment adds one to a post's responses.
func (d Details) AddComment(post int64, c Comment) {
	all := d.responses(post)
	all.Comments = append(all.Comments, c)
}

func (d Details) responses(post int64) *Responses {
	all, ok := d[post].(*Responses)
	if !ok {
		all = &Responses{Post: post, Comments: []Comment{}, Reactions: []Reaction{}}
		d[post] = all
	}
	return all
}
