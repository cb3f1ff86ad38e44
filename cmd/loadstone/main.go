// Loadstone loads a system and points at its bottleneck.
package main

import (
	"os"

	"loadstone/internal/cli"
)

func main() { os.Exit(cli.Main(cli.ProcessEnv())) }
