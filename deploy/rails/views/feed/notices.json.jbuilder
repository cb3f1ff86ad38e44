json.pinned @pinned do |post|
  json.post post.id
  json.published post.published
  json.title post.title
end
json.unread @unread
