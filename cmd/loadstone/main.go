// Loadstone loads a system and points at its bottleneck.
package main

import (
	"os"

	// Authorities that are trusted where the system has none, as in the image: Mozilla's.
	_ "golang.org/x/crypto/x509roots/fallback"

	"loadstone/internal/cli"
)

func main() { os.Exit(cli.Main(cli.ProcessEnv())) }
