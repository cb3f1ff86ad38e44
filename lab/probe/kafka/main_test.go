package kafka

import (
	"os"
	"testing"

	"loadstone/lab/probe/probetest"
)

var program = probetest.Program{Args: os.Args, Env: os.Environ()}

func TestMain(m *testing.M) { os.Exit(program.Main(m)) }
