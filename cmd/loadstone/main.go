// Loadstone loads a system and points at what holds it back.
package main

import (
	"os"

	"loadstone/internal/cli"
)

func main() { os.Exit(cli.Main(cli.ProcessEnv())) }
