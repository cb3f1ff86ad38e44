package serve

import (
	"errors"
	"fmt"
	"os"

	"loadstone/block/route"
	"loadstone/block/service"
	"loadstone/block/webhook"
	"loadstone/system/menu"
	"loadstone/system/menu/notify"
)

// errNoLog says that the store does not tell what changed.
var errNoLog = errors.New("nobody can be told of changes in this store: write one that is a database")

// readWebhooks reads who is told of changes: nobody if path is empty.
func readWebhooks(path string) ([]webhook.Endpoint, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read who is told of changes: %w", err)
	}
	endpoints, err := webhook.ParseEndpoints(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return endpoints, nil
}

// addWebhooks tells the endpoints of the file of every change. An endpoint that is down
// makes nobody unready.
func addWebhooks(path string, s *service.Service, store menu.Store) error {
	endpoints, err := readWebhooks(path)
	if err != nil || endpoints == nil {
		return err
	}
	desk, ok := store.(menu.Desk)
	if !ok {
		return errNoLog
	}
	c, failures := notify.Config(desk), route.NewErrorLog(s.Logger, "a webhook does not work")
	c.Endpoints, c.Registerer = endpoints, s.Registry
	c.Failed = func(endpoint string, err error) { failures.Log("endpoint", endpoint, "error", err) }
	sender, err := webhook.New(c)
	if err != nil {
		return err
	}
	s.Add(service.Component{Name: "webhooks", Run: sender.Run})
	return nil
}
