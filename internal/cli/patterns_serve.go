package cli

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"loadstone/system/patterns/activity/stores"
	"loadstone/system/patterns/event"
	"loadstone/system/patterns/serve"
)

func (a *app) patternsServeCommand() *cobra.Command {
	c := serve.DefaultConfig()
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve all six patterns over HTTP",
		Long: `Serve all six patterns over HTTP, each off or on:

  GET  /getPopularMovies   --refresh-ahead off|on
  GET  /getBook/{id}       --do-once off|local|redis
  GET  /handle             --pool off|reject|wait
  POST /handle             --events
  POST /activities         --activities
  GET  /activities/{id}

and /healthz and /readyz; on the admin address /metrics for Prometheus, and with
PATTERNS_ADMIN_TOKEN set, for requests that send it (Authorization: Bearer TOKEN),
/debug/pprof and PUT /pool with the number of workers as the body. SIGTERM stops the
server without losing a request.

Every flag can be given as an environment variable as well: --job-cpu as
PATTERNS_JOB_CPU. A flag wins.`,
		Example: `  loadstone patterns serve --refresh-ahead on --movies-delay 500ms --movies-max-age 2s

  # one of several replicas that read each book once for all
  loadstone patterns serve --do-once redis --redis cache:6379 --listen 0.0.0.0:8080

  # at most four jobs at a time, sixteen in the queue, the rest refused
  loadstone patterns serve --pool reject --pool-workers 4 --pool-queue 16 --job-cpu 2ms --job-wait 18ms`,
		RunE: served(a, &c, serve.Run),
	}
	fl := cmd.Flags()
	serviceFlags(fl, &c.Config, "profiles and the pool's size")
	fl.Var(onOff(&c.Movies.RefreshAhead), "refresh-ahead", "refresh the popular movies before they expire: off or on")
	fl.DurationVar(&c.Movies.MaxAge, "movies-max-age", c.Movies.MaxAge, "maximum age of a served list of movies")
	fl.DurationVar(&c.Movies.Delay, "movies-delay", c.Movies.Delay, "how long the source of movies takes")
	fl.StringVar((*string)(&c.Books.Mode), "do-once", string(c.Books.Mode), "share one read of a book among all concurrent requests: off, local or redis")
	fl.StringVar(&c.Books.Redis, "redis", c.Books.Redis, "HOST:PORT of the Redis for --do-once redis")
	fl.DurationVar(&c.Books.Delay, "book-delay", c.Books.Delay, "how long the source of books takes")
	fl.DurationVar(&c.Books.ReadTimeout, "book-timeout", c.Books.ReadTimeout, "maximum time to read a book")
	fl.DurationVar(&c.Books.Keep, "book-keep", c.Books.Keep, "how long a book stays in Redis for the other replicas")
	jobFlags(fl, &c)
	fl.StringVar(&c.Events, "events", c.Events, "where POST /handle sends an event: "+event.TargetForms)
	fl.StringVar(&c.Activities, "activities", c.Activities, "where /activities stores: off, "+stores.Forms)
	return cmd
}

// jobFlags are the flags of GET /handle.
func jobFlags(fl *pflag.FlagSet, c *serve.Config) {
	j := &c.Jobs
	fl.StringVar(&j.Pool, "pool", j.Pool, "limit the jobs: off, reject or wait")
	fl.IntVar(&j.Workers, "pool-workers", j.Workers, "jobs that run at a time")
	fl.IntVar(&j.Queue, "pool-queue", j.Queue, "jobs that wait for a worker")
	fl.DurationVar(&j.Wait, "pool-wait", j.Wait, "maximum time that a job waits until it starts")
	fl.IntVar(&j.Callers, "pool-callers", j.Callers, "maximum number of requests that wait for a place in the queue, with --pool wait")
	fl.Var(onOff(&j.Adaptive), "pool-adaptive", "shorten the queue while it only adds delay: off or on")
	fl.DurationVar(&j.CPU, "job-cpu", j.CPU, "CPU time of a job")
	fl.DurationVar(&j.Sleep, "job-wait", j.Sleep, "how long a job waits after its CPU time")
	fl.IntVar(&j.Memory, "job-memory", j.Memory, "memory of a job, in bytes")
}
