json.next @next
json.posts @posts, :author, :comments, :id, :media, :pinned, :published, :reactions, :text, :title
