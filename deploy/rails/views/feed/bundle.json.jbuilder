missing = {error: {code: "not_found", message: "there is no such post, or it has nothing of this kind"}}

json.bundles @posts do |post|
  json.post post.id
  json.media do
    json.status post.pictures.empty? ? 404 : 200
    if post.pictures.empty?
      json.body missing
    else
      json.body do
        json.media post.pictures, :alt, :height, :kind, :url, :width
        json.post post.id
      end
    end
  end
  json.author do
    json.status 200
    json.body do
      json.author post.writer, :about, :id, :name, :photo, :role, :team
      json.post post.id
    end
  end
  json.responses do
    silent = post.kinds.empty? && post.replies.empty?
    json.status silent ? 404 : 200
    if silent
      json.body missing
    else
      json.body do
        json.comments post.replies, :author, :published, :text
        json.post post.id
        json.reactions post.kinds, :count, :kind
      end
    end
  end
end
