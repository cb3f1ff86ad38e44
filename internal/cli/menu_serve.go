package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"loadstone/system/menu/serve"
	"loadstone/system/menu/stores"
)

func (a *app) menuServeCommand() *cobra.Command {
	c := serve.DefaultConfig()
	var proxies []string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve menus over HTTP",
		Long: `Serve menus over HTTP: GET /menu/{id} and what /openapi.json lists beside it, the page
/restaurants/{id} for guests, /healthz and /readyz; on the admin address /metrics for
Prometheus, and with MENU_ADMIN_TOKEN set, for requests that send it, /debug/pprof.

Menus can be changed where the store is a database, by who sends the token of MENU_TOKEN
(Authorization: Bearer TOKEN); without one nobody may. With --redis, proxies that look
menus up there are told of each change.

With --accounts people edit menus at /admin: they write drafts, look at them, publish them,
roll back, and see who changed what. 'menu account add' makes accounts.

With --webhooks the addresses in a file are told of each change, signed as the Standard
Webhooks specification says, and again until they answer 2xx. The file has a line for each
of them, with a name, and a second key while keys are changed:

  NAME URL whsec_KEY [whsec_KEY]

Every flag can be given as an environment variable as well: --admin-listen as
MENU_ADMIN_LISTEN. A flag wins. SIGTERM stops the server without losing a request.`,
		Example: `  loadstone menu serve --store record:menus.record --listen 127.0.0.1:8090
  MENU_TOKEN=$(openssl rand -hex 16) loadstone menu serve --store pebble:menus`,
		RunE: served(a, &c, serve.Run, func() (err error) {
			c.Proxies, err = parseProxies(proxies)
			return err
		}),
	}
	fl := cmd.Flags()
	serviceFlags(fl, &c.Config, "profiles")
	fl.StringVar(&c.Store, "store", c.Store, "what to serve: "+stores.Forms)
	fl.Int64Var(&c.CacheBytes, "cache-bytes", c.CacheBytes, "size of the memory for menus of a record file, decompressed; 0 for none")
	secretFlags(fl, "token", &c.Token, "what requests that change menus must send; without one they are refused")
	redisFlags(fl, &c.Redis, "the Redis of proxies, to tell of changes")
	menuDictionaryFlag(fl, &c.Dictionaries)
	fl.Var(onOff(&c.Page), "page", "the guests' page at /restaurants/{id}: on or off")
	officeFlags(fl, &c.Settings, &proxies, "menu", "edit menus")
	fl.StringVar(&c.SearchIndex, "search-index", "", "file of 'menu index' in which they find dishes, kept fresh by this server alone; without one they find numbers of restaurants")
	fl.StringVar(&c.Webhooks, "webhooks", "", "file of those who are told of each change; several servers may have it, and one of them sends")
	return cmd
}

func (a *app) menuProxyCommand() *cobra.Command {
	c := serve.DefaultProxyConfig()
	cmd := &cobra.Command{
		Use:   "proxy",
		Short: "Stand before menu servers, with menus in Redis",
		Long: `Stand before menu servers: GET /api/menu/{id} is answered from the Redis of --redis, which
all proxies share, else by one of --servers; everything else below /api/menu, such as
changes, goes to a menu server as it came. The page /restaurants/{id} is made here, of the
same menus. Paths of other services go where --route says. /healthz and /readyz are the
proxy's own; on the admin address there is /metrics for Prometheus.

Menu servers with the same --redis tell the proxies of each change: it is seen through all
of them at once. If Redis is lost, menu servers are asked, as many times as they can bear. With
--stale-if-error a proxy then serves what it answered of late, and for up to two minutes longer
if Redis is back with nothing in it. That keeps most of it from the database, and may be a menu
from before a change; of changes made after Redis is back every proxy knows.

Every flag can be given as an environment variable as well: --servers as MENU_SERVERS. A
flag wins. SIGTERM stops the proxy without losing a request.`,
		Example: `  loadstone menu proxy --servers http://menus-1:8080,http://menus-2:8080 --redis redis://cache

  # paths of other services, several separated by spaces
  loadstone menu proxy --servers http://menus:8080 --route "/api/reviews=http://reviews-1:8080,http://reviews-2:8080"`,
		RunE: served(a, &c, serve.RunProxy, func() error {
			c.Routes = strings.Fields(strings.Join(c.Routes, " "))
			return nil
		}),
	}
	fl := cmd.Flags()
	serviceFlags(fl, &c.Config, "profiles")
	fl.StringSliceVar(&c.Servers, "servers", nil, "the menu servers, as http://HOST:PORT, separated by commas")
	fl.StringArrayVar(&c.Routes, "route", nil, "where paths of another service go: PATH=http://HOST:PORT[,...]; may be given several times")
	fl.DurationVar(&c.StaleIfError, "stale-if-error", 0, "serve what was answered within this time while Redis does not answer, and just after; 0: ask a menu server")
	redisFlags(fl, &c.Redis, "the Redis of all proxies; without one every look-up goes to a menu server")
	menuDictionaryFlag(fl, &c.Dictionaries)
	fl.Var(onOff(&c.Page), "page", "the guests' page at /restaurants/{id}: on or off")
	return cmd
}
