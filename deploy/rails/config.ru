# frozen_string_literal: true

# The batched page of the feed (system/feed) as a program on Rails, for a comparison: the same posts from the same
# PostgreSQL, in the same JSON. It is written as one writes Rails: models, includes, views in jbuilder, which Oj makes
# JSON of. It takes DATABASE_URL; `scripts/setup rails` installs what it needs.
#
#   puma --bind tcp://127.0.0.1:8080 --threads 5:5 deploy/rails/config.ru

ENV["RAILS_ENV"] ||= "production"
# libpq reads a password file only if nobody else may.
ENV["PGPASSWORD"] ||= File.read(ENV["PGPASSFILE"]).strip.split(":").last if ENV["PGPASSFILE"]

require "rails"
require "active_record/railtie"
require "action_controller/railtie"
require "action_view/railtie"
require "jbuilder"
require "oj"

class Feed < Rails::Application
  config.root = __dir__
  config.load_defaults 6.1
  config.api_only = true
  config.cache_classes = config.eager_load = true
  config.cache_store = :null_store
  config.consider_all_requests_local = false
  config.logger = Logger.new($stderr, level: Logger::ERROR)
  config.secret_key_base = "there are no sessions"
  config.paths["app/views"] = "views"
end
Oj.optimize_rails
Feed.initialize!

class Record < ActiveRecord::Base
  self.abstract_class = true
  self.table_name_prefix = "feed."
end

class Author < Record; end

class Picture < Record
  self.table_name = "feed.media"
end

class Reaction < Record; end
class Comment < Record; end

class Post < Record
  SHOWN_COMMENTS = 20

  belongs_to :writer, class_name: "Author", foreign_key: :author
  with_options foreign_key: :post do
    has_many :pictures, -> { order(:place) }
    has_many :kinds, -> { order(:place) }, class_name: "Reaction"
    has_many :replies, -> { where(place: ...SHOWN_COMMENTS).order(:place) }, class_name: "Comment"
  end

  scope :newest, -> { order(published: :desc, id: :desc) }
  scope :behind, ->(cursor) { where("(published, id) < (?, ?)", *cursor.split("-").map(&:to_i)) if cursor.present? }
  scope :since, ->(time) { where("published > ?", time.to_i) }
end

class FeedController < ActionController::API
  def list
    limit = params.fetch(:limit, 20).to_i.clamp(1, 100)
    @posts = Post.newest.behind(params[:cursor]).limit(limit + 1).to_a
    @next = @posts.size > limit ? @posts.tap(&:pop).last.then { |last| "#{last.published}-#{last.id}" } : ""
  end

  def bundle
    ids = params.require(:posts).split(",").map(&:to_i).first(50)
    @posts = Post.where(id: ids).includes(:writer, :pictures, :kinds, :replies).index_by(&:id).values_at(*ids).compact
  end

  def notices
    @pinned = Post.newest.where(pinned: true).since(params[:seen]).limit(3)
    @unread = Post.since(params[:seen]).limit(100).count
  end

  def readyz
    Post.connection.select_value("SELECT 1")
    head :ok
  end
end

Feed.routes.draw do
  defaults format: :json do
    get "feed", to: "feed#list"
    get "bundle", to: "feed#bundle"
    get "notices", to: "feed#notices"
    get "readyz", to: "feed#readyz"
  end
end

run Feed
