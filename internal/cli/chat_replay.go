package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"loadstone/system/chat/analysis/replay"
	"loadstone/system/chat/logstore"
	"loadstone/system/chat/serve"
)

func (a *app) chatReplayCommand() *cobra.Command {
	var dir string
	var stream int64
	var from time.Duration
	pace := replay.Pace{Speed: 1}
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "Print a stream's chat at the time of its video",
		Long: `Print what was said in a stream, each message when it is its turn in the video, with its
time in it. What was deleted is left out. No server may have the log open meanwhile; a running
one has the page /app/replay.

Every flag can be given as an environment variable as well: --data as CHAT_DATA.`,
		Example: `  loadstone chat replay --data chat-data --stream 2 --from 1m30s --speed 4`,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if !(pace.Speed > 0 && pace.Speed <= 1e6) {
				return usageError{fmt.Errorf("the speed is %v: write a number above 0, to 1000000", pace.Speed)}
			}
			if from < 0 {
				return usageError{fmt.Errorf("it is to begin at %v: write a time from 0 on", from)}
			}
			c := logstore.DefaultConfig()
			c.Dir = dir
			log, err := logstore.OpenExisting(cmd.Context(), c)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, log.Close()) }()
			s, err := log.Stream(stream)
			if err != nil {
				return fmt.Errorf("stream %d: %w", stream, err)
			}
			return replay.New(log, s, replay.Place{}).Play(cmd.Context(), from.Milliseconds(), pace, func(m *replay.Message) error {
				_, err := fmt.Fprintf(a.Stdout, "%s %s: %s\n", videoTime(m.Video), m.Name, m.Text)
				return err
			})
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&dir, "data", serve.DefaultConfig().Data, "directory of the log")
	fl.Int64Var(&stream, "stream", 1, "id of the stream")
	fl.DurationVar(&from, "from", 0, "time of the video to begin at")
	fl.Float64Var(&pace.Speed, "speed", pace.Speed, "how many times as fast as it was said")
	fl.BoolVar(&pace.AtOnce, "at-once", false, "print all without waiting")
	return cmd
}

// videoTime is a time of a video as players show it, hours, minutes and seconds.
func videoTime(millis int64) string {
	s := millis / 1000
	return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
}
