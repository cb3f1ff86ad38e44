package rediscache_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"loadstone/block/cache/rediscache"
	"loadstone/block/servertest"
)

// students and page are the size of results' data.
const (
	students = 100_000
	first    = 10_000
)

var page = bytes.Repeat([]byte("0123456789abcdef"), 25)

func entries(n int) iter.Seq2[rediscache.Entry, error] {
	return func(yield func(rediscache.Entry, error) bool) {
		for i := range n {
			if !yield(rediscache.Entry{Key: strconv.Itoa(first + i), Value: page}, nil) {
				return
			}
		}
	}
}

// BenchmarkPreload compares the preload with redis-cli --pipe fed from a file that
// was made before, all over the same items.
func BenchmarkPreload(b *testing.B) {
	s := servertest.Redis(b)
	host, port, err := net.SplitHostPort(s.Addr())
	if err != nil {
		b.Fatal(err)
	}
	cli, err := exec.LookPath("redis-cli")
	if err != nil {
		b.Fatal(err) // Debian's redis-server brings it
	}
	file := filepath.Join(b.TempDir(), "pipe")
	if err := os.WriteFile(file, protocol(students), 0o600); err != nil {
		b.Fatal(err)
	}
	rate := func(b *testing.B) {
		b.ReportMetric(float64(students)*float64(b.N)/b.Elapsed().Seconds(), "items/s")
	}
	b.Run("redis-cli --pipe", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			s.Flush()
			in, err := os.Open(file)
			if err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
			cmd := exec.Command(cli, "-h", host, "-p", port, "--pipe")
			cmd.Stdin = in
			if out, err := cmd.CombinedOutput(); err != nil {
				b.Fatalf("%v: %s", err, out)
			}
			in.Close()
		}
		rate(b)
	})
	preload := rediscache.DefaultPreload(tierConfig(b, s.Addr()), time.Hour)
	preload.Jitter = 0.1
	b.Run("preload", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			s.Flush()
			b.StartTimer()
			if _, err := preload.Run(b.Context(), entries(students)); err != nil {
				b.Fatal(err)
			}
		}
		rate(b)
	})
}

// protocol is what the preload writes, as redis-cli --pipe takes it.
func protocol(n int) []byte {
	var buf bytes.Buffer
	value := append(make([]byte, 10), page...)
	for i := range n {
		key := "results:" + strconv.Itoa(first+i)
		fmt.Fprintf(&buf, "*5\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n$2\r\nPX\r\n$7\r\n3600000\r\n", len(key), key, len(value), value)
	}
	return buf.Bytes()
}

// BenchmarkLayout compares plain strings with hashes of 64 and 512 fields: memory
// for each item and reads per second of a pipelining client.
func BenchmarkLayout(b *testing.B) {
	for _, layout := range []struct {
		name   string
		bucket int // 0: strings
		ttl    bool
	}{{"strings with TTL", 0, true}, {"strings", 0, false}, {"hash of 64", 64, false}, {"hash of 512", 512, false}} {
		b.Run(layout.name, func(b *testing.B) {
			s := servertest.Redis(b, "--hash-max-listpack-entries", "512", "--hash-max-listpack-value", "1024")
			client := dial(b, s.Addr(), 0)
			value := string(append(make([]byte, 10), page...))
			empty := s.Memory()
			began := time.Now()
			for i := 0; i < students; i += 500 {
				commands := make(rueidis.Commands, 0, 500)
				for j := i; j < i+500; j++ {
					id := strconv.Itoa(first + j)
					switch {
					case layout.bucket > 0:
						commands = append(commands, client.B().Arbitrary("HSET").Keys("results:"+strconv.Itoa((first+j)/layout.bucket)).Args(id, value).Build())
					case layout.ttl:
						commands = append(commands, client.B().Set().Key("results:"+id).Value(value).PxMilliseconds(3_600_000).Build())
					default:
						commands = append(commands, client.B().Set().Key("results:"+id).Value(value).Build())
					}
				}
				for _, r := range client.DoMulti(b.Context(), commands...) {
					if err := r.Error(); err != nil {
						b.Fatal(err)
					}
				}
			}
			wrote := time.Since(began)
			used := s.Memory() - empty
			cpu := s.CPU()
			const batch = 500
			n := 0
			for b.Loop() {
				commands := make(rueidis.Commands, 0, batch)
				for range batch {
					n = (n*1103515245 + 12345) & (1<<31 - 1)
					id := first + n%students
					if layout.bucket > 0 {
						commands = append(commands, client.B().Hget().Key("results:"+strconv.Itoa(id/layout.bucket)).Field(strconv.Itoa(id)).Build())
					} else {
						commands = append(commands, client.B().Get().Key("results:"+strconv.Itoa(id)).Build())
					}
				}
				for _, r := range client.DoMulti(b.Context(), commands...) {
					if err := r.Error(); err != nil {
						b.Fatal(err)
					}
				}
			}
			reads := float64(b.N) * batch
			b.ReportMetric(float64(used)/students, "B/item")
			b.ReportMetric(students/wrote.Seconds(), "writes/s")
			b.ReportMetric(reads/b.Elapsed().Seconds(), "reads/s")
			b.ReportMetric(float64((s.CPU()-cpu).Nanoseconds())/reads, "redis-ns/read")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkFlushDelay says what the flush delay saves: CPU of both sides for one
// read at a fixed number of readers, and the time that one takes.
func BenchmarkFlushDelay(b *testing.B) {
	s := servertest.Redis(b)
	s.Command("SET", "results:1", string(page))
	for _, readers := range []int{1, 64} {
		for _, delay := range []time.Duration{0, 20 * time.Microsecond, 50 * time.Microsecond, 100 * time.Microsecond} {
			b.Run(fmt.Sprintf("readers=%d/delay=%v", readers, delay), func(b *testing.B) {
				client := dial(b, s.Addr(), delay)
				own, redis := ownCPU(), s.CPU()
				b.SetParallelism(max(1, readers/2)) // times GOMAXPROCS, 2 where it was measured
				read := func() {
					if err := client.Do(context.Background(), client.B().Get().Key("results:1").Build()).Error(); err != nil {
						b.Error(err)
					}
				}
				b.ResetTimer()
				if readers == 1 {
					for range b.N {
						read()
					}
				} else {
					b.RunParallel(func(pb *testing.PB) {
						for pb.Next() {
							read()
						}
					})
				}
				b.StopTimer()
				b.ReportMetric(float64(ownCPU()-own)/float64(b.N), "own-ns/op")
				b.ReportMetric(float64(s.CPU()-redis)/float64(b.N), "redis-ns/op")
			})
		}
	}
}

func dial(b *testing.B, addr string, delay time.Duration) rueidis.Client {
	b.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true, MaxFlushDelay: delay,
		ReadBufferEachConn: 64 << 10, WriteBufferEachConn: 64 << 10,
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(client.Close)
	return client
}

func ownCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkGet is a hit in Redis through the tier, with 64 readers.
func BenchmarkGet(b *testing.B) {
	s := servertest.Redis(b)
	cfg := tierConfig(b, s.Addr())
	tier := openTier(b, cfg)
	s.Command("SET", "results:1", string(encoded(time.Now(), page)))
	own, redis := ownCPU(), s.CPU()
	b.SetParallelism(32)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := tier.Get(context.Background(), "1"); err != nil {
				b.Error(err)
			}
		}
	})
	b.StopTimer()
	b.ReportMetric(float64(ownCPU()-own)/float64(b.N), "own-ns/op")
	b.ReportMetric(float64(s.CPU()-redis)/float64(b.N), "redis-ns/op")
}

// encoded is a present item, spelt out.
func encoded(born time.Time, value []byte) []byte {
	return append(binary.BigEndian.AppendUint64([]byte{1, 1}, uint64(born.UnixMicro())), value...)
}
