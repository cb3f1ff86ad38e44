package flink

import (
	"os"
	"testing"

	"loadstone/lab/driver/drivertest/probetest"
)

var program = probetest.Program{Args: os.Args, Env: os.Environ()}

func TestMain(m *testing.M) { os.Exit(program.Main(m)) }
