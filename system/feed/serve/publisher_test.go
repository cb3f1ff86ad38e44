package serve

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
)

// A publisher says where it reads, without the password.
func TestNoPasswordIsLogged(t *testing.T) {
	t.Parallel()
	cfg := DefaultPublisherConfig()
	cfg.From, cfg.To = "postgres://noor:hunter2@127.0.0.1:1/feed", "directory:"+t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var log bytes.Buffer
	err := RunPublisher(ctx, cfg, slog.New(slog.NewTextHandler(&log, nil)))
	if err == nil {
		t.Error("there is no database, and no error")
	} else if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the error has the password: %v", err)
	}
	if got := log.String(); !strings.Contains(got, "127.0.0.1:1/feed") || strings.Contains(got, "hunter2") {
		t.Errorf("it logged %q", got)
	}
}
