package feed

// DeskQueries are those of a Desk in PostgreSQL's SQL, but for lock, which takes the turn of an id
// until the transaction ends. SQLite takes them with ? for $, without the schema and types.
func DeskQueries() map[string]string {
	return map[string]string{
		"state": `SELECT version, published, title, false FROM feed.posts WHERE id = $1
			UNION ALL SELECT version, published, title, true FROM feed.kept WHERE id = $1`,
		"next post":   `SELECT coalesce(max(id), 0) + 1 FROM (SELECT id FROM feed.posts UNION ALL SELECT id FROM feed.kept) AS all_posts WHERE id < $1`,
		"next author": `SELECT coalesce(max(id), 0) + 1 FROM feed.authors WHERE id < $1`,
		"author":      `SELECT id, name, role, team, about, photo FROM feed.authors WHERE id = $1`,
		"authors by name": `SELECT id, name, role, team, about, photo FROM feed.authors
			WHERE $1 = '' OR name = $1 ORDER BY name, id LIMIT $2`,

		"log":            `INSERT INTO feed.changes (at, editor, action, post, title) VALUES ($1, $2, $3, $4, $5) RETURNING number`,
		"forget changes": `DELETE FROM feed.changes WHERE number <= $1`,
		"changes": `SELECT number, at, editor, action, post, title FROM feed.changes
			WHERE number < $1 ORDER BY number DESC LIMIT $2`,
		"changes of post": `SELECT number, at, editor, action, post, title FROM feed.changes
			WHERE post = $1 AND number < $2 ORDER BY number DESC LIMIT $3`,
		"changes since": `SELECT number, at, editor, action, post, title FROM feed.changes
			WHERE number > $1 ORDER BY number LIMIT $2`,

		"stamp":          `UPDATE feed.posts SET version = $2 WHERE id = $1`,
		"drop media":     `DELETE FROM feed.media WHERE post = $1`,
		"drop reactions": `DELETE FROM feed.reactions WHERE post = $1`,
		"drop comments":  `DELETE FROM feed.comments WHERE post = $1`,
		"drop post":      `DELETE FROM feed.posts WHERE id = $1`,

		"keep":          `INSERT INTO feed.kept (id, version, published, title, editor, at, line) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		"kept":          `SELECT line FROM feed.kept WHERE id = $1`,
		"drop kept":     `DELETE FROM feed.kept WHERE id = $1`,
		"forget titles": `UPDATE feed.changes SET title = '' WHERE post = $1`,
		"down": `SELECT version, at, editor, 'taken_down', id, title FROM feed.kept
			WHERE version < $1 ORDER BY version DESC LIMIT $2`,

		"posts after": `SELECT id, published, author, pinned, media, comments, reactions, title, text FROM feed.posts
			WHERE id > $1 ORDER BY id LIMIT $2`,
		"count": `SELECT count(*) FROM feed.posts`,
	}
}
