package reconcile

import (
	"net"
	"strconv"
	"syscall"
	"testing"
	"time"

	"loadstone/block/browsertest"
	"loadstone/block/servertest"
)

// tab is the page of a stream in a browser of its own, whose processes can be stopped. It counts the messages
// that it said were left out.
type tab struct {
	*browsertest.Tab
	t         *testing.T
	renderers []int
}

func openTab(t *testing.T, address string) *tab {
	t.Helper()
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	b := browsertest.Start(t, "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE "+host)
	v := &tab{Tab: b.Open(t, browsertest.Screen{Width: 390, Height: 800}), t: t}
	v.Visit("http://" + address + "/app?stream=1")
	v.Eval(`document.querySelector("#enter input").value = "Noor"; document.querySelector("#enter button").click()`)
	v.Until("live", `document.querySelector("#state").textContent === "live"`)
	v.Eval(`globalThis.skipped = 0; const skippedThen = hear.skipped; hear.skipped = (m) => {
		skippedThen(m);
		if ($("messages").lastElementChild.textContent === ` + "`+${m.count} messages`" + `) skipped += m.count;
	}`)
	v.renderers = b.Renderers(t)
	t.Cleanup(func() { v.signal(syscall.SIGCONT) }) // so that it can be closed
	return v
}

func (v *tab) signal(s syscall.Signal) {
	v.t.Helper()
	for _, pid := range v.renderers {
		if err := syscall.Kill(pid, s); err != nil {
			v.t.Error(err)
		}
	}
}

// live says something in the tab and waits until it is shown as everybody's.
func (v *tab) live(text string) {
	v.t.Helper()
	v.Eval(`document.querySelector("#say input").value = "` + text + `"; document.querySelector("#say button").click()`)
	v.Until("what it says itself", `[...document.querySelectorAll("#messages li:not(.waits)")].some(e => e.textContent.endsWith("`+text+`"))`)
}

// A browser's tab that was stopped is told what it missed, and is live again. How much a browser and the
// kernel take before anything is left out is theirs: each time twice as much is said. When the tab wakes up nobody
// talks any more: on a busy machine it would read no faster than that, and answer nobody.
func TestATabIsStopped(t *testing.T) {
	t.Parallel()
	_, address := server(t)
	v := openTab(t, address)
	c := talk("http://"+address, 32, 32, 4000)
	c.Streams = c.Streams[:1]
	const first, most = 2000, 64_000
	said := int64(0)
	for messages := int64(first); ; messages *= 2 {
		v.signal(syscall.SIGSTOP)
		r := begin(t, c)
		reach(t, "much is said", func() bool { return r.now().Acked >= messages })
		said += r.balanced().Acked
		v.signal(syscall.SIGCONT)
		v.Until("what was said", `next >= `+strconv.FormatInt(said, 10))
		if v.Eval(`skipped > 0`) == true {
			break
		}
		if messages >= most {
			t.Fatalf("after %d messages nothing was left out", messages)
		}
	}
	v.live("awake")
}

// For a minute under the load of 250 messages a second, beside 100 others: no memory is kept for a stopped tab.
func TestATabIsStoppedForAMinuteLarge(t *testing.T) {
	servertest.Large(t)
	process, address := server(t)
	v := openTab(t, address)
	c := talk("http://"+address, 100, 50, 250)
	c.Streams = c.Streams[:1]
	r := begin(t, c)
	reach(t, "all talk", func() bool { return r.now().Acked > 5000 })
	before := memory(t, process)
	v.signal(syscall.SIGSTOP)
	time.Sleep(time.Minute)
	growth, said := memory(t, process)-before, r.now().Acked
	v.signal(syscall.SIGCONT)
	v.Until("a notice of what was left out", `skipped > 0`)
	v.Until("what was said until it woke", `next >= `+strconv.FormatInt(said, 10))
	v.live("awake")
	t.Logf("%d bytes more after a minute; %v", growth, r.balanced())
	const flat = 8 << 20 // the garbage of a running server comes and goes
	if growth > flat {
		t.Errorf("%d bytes more", growth)
	}
}
