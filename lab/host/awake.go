package host

import (
	"encoding/binary"
	"os"
)

// KeepAwake keeps idle cores from halting until release is called: it holds
// the kernel's request for the shortest wake-up latency (PM QoS, see
// Documentation/power/pm_qos_interface.rst), which the kernel drops by itself
// when the file is closed or this process dies.
//
// A core that halts has to be woken for every request that comes in one at a
// time, and the component pays for it, in a virtual machine with tens of
// microseconds. Its demand then says how idle the machine was, and three
// replicas seem to carry more than three times what one does. What is gained,
// with figures, is in docs/adr/005.
//
// awake is false where that may not be asked for (it takes root); the run is
// then only noisier.
func KeepAwake() (awake bool, release func()) {
	nothing := func() {}
	f, err := os.OpenFile("/dev/cpu_dma_latency", os.O_WRONLY, 0)
	if err != nil {
		return false, nothing
	}
	if err := binary.Write(f, binary.NativeEndian, int32(0)); err != nil {
		_ = f.Close()
		return false, nothing
	}
	return true, func() { _ = f.Close() } // closing it is all that there is to do
}
