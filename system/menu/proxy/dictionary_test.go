package proxy_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/dictionary"
	"loadstone/block/lookaside"
	"loadstone/block/servertest"
	"loadstone/system/menu"
	"loadstone/system/menu/menutest"
	"loadstone/system/menu/proxy"
	"loadstone/system/menu/recordfile"
)

func trained(tb testing.TB, seed uint64) *dictionary.Dictionary {
	tb.Helper()
	d, err := menu.TrainDictionary(tb.Context(), menutest.Generator(tb, seed, 400))
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

func with(known ...*dictionary.Dictionary) func(*proxy.Config) {
	return func(c *proxy.Config) { c.Dictionaries = dictionary.NewSet(known...) }
}

func having(d *dictionary.Dictionary) []string {
	return []string{"Accept-Encoding: gzip, dcz", "Available-Dictionary: " + d.Available()}
}

// From the file through Redis to the client, a menu is the same frame: nobody compresses it again.
func TestOneDictionaryEndToEnd(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "menus")
	if err := recordfile.Build(t.Context(), path, menutest.Generator(t, 1, 400), nil, nil); err != nil {
		t.Fatal(err)
	}
	file, err := recordfile.Follow(path, recordfile.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	closing(t, file)
	d, redis := file.Dictionary(), servertest.Redis(t)
	server, _ := menuServer(t, file, "")
	p := start(t, redis.Addr(), with(d), server)
	for id := range int64(20) {
		target := fmt.Sprint("/menu/", id+1)
		frame, err := file.Compressed(id + 1)
		if err != nil {
			t.Fatal(err)
		}
		text := ask(t, server, "GET", target, "")
		for range 2 { // from the server, and from Redis
			want := ask(t, server, "GET", target, "", having(d)...)
			got := ask(t, p.addr, "GET", "/api"+target, "", having(d)...)
			if got.body != want.body || got.body != string(d.Header())+string(frame.Data) || got.status != 200 {
				t.Fatalf("%s: got %+v, want %+v", target, got, want)
			}
			for _, h := range []string{"ETag", "Vary", "Content-Encoding", "Cache-Control", "Content-Type", "X-Menu-Version", "Link"} {
				if got.header.Get(h) != want.header.Get(h) {
					t.Errorf("%s: header %s: got %q, want %q", target, h, got.header.Get(h), want.header.Get(h))
				}
			}
			if got := ask(t, p.addr, "GET", "/api"+target, "", append(having(d), "If-None-Match: "+got.header.Get("ETag"))...); got.status != 304 || got.header.Get("ETag") != want.header.Get("ETag") {
				t.Errorf("%s: got %+v, want 304", target, got)
			}
			if got := ask(t, p.addr, "GET", "/api"+target, ""); got.body != text.body || got.header.Get("ETag") != text.header.Get("ETag") {
				t.Errorf("%s without the dictionary: got %+v, want %+v", target, got, text)
			}
		}
		if stored := redis.Command("GETRANGE", proxy.CacheName+":"+itoa(int(id)+1), "34", "-1"); !strings.HasSuffix(stored, string(frame.Data)) || len(stored) != dictionary.PackedSize+len(frame.Data) {
			t.Errorf("%s: Redis has %q, want the frame", target, stored)
		}
	}
	// The dictionary is the proxy's to offer, for its own paths.
	linked := ask(t, p.addr, "GET", "/api/menu/1", "", "Accept-Encoding: zstd").header.Get("Link")
	at, _, _ := strings.Cut(strings.TrimPrefix(linked, "<"), ">")
	got := ask(t, p.addr, "GET", at, "")
	if got.body != string(d.Content()) || got.header.Get("Use-As-Dictionary") != `match="/api/menu/*"` {
		t.Errorf("Link: %s leads to %d bytes for %s", linked, len(got.body), got.header.Get("Use-As-Dictionary"))
	}
}

// While proxies and servers learn of a dictionary, one after the other, each reads what any other stored,
// or loads it again; a change is seen through all of them.
func TestDictionaryIsRolledOut(t *testing.T) {
	t.Parallel()
	redis, db, a, b := servertest.Redis(t), database(t), trained(t, 1), trained(t, 2)
	var proxies []started
	var servers []string
	for _, known := range [][]*dictionary.Dictionary{nil, {a}, {a, b}, {b, a}, {b}} {
		server, _ := menuServer(t, db, redis.Addr(), known...)
		servers = append(servers, server)
		proxies = append(proxies, start(t, redis.Addr(), with(known...), server))
	}
	step := int64(1)
	for i, first := range proxies {
		for j, second := range proxies {
			step++
			m := menutest.Example(7, step)
			text := string(m.AppendJSON(nil))
			// One stores it as it reads it or as it changes.
			if got := ask(t, servers[i], "PUT", "/menu/7", text, bearer, asJSON); got.status != 200 {
				t.Fatalf("got %+v", got)
			}
			if j%2 == 0 {
				redis.Flush()
			}
			for _, p := range []started{first, second, first} {
				if got := ask(t, p.addr, "GET", "/api/menu/7", ""); got.body != text || got.status != 200 {
					t.Errorf("%d after %d: got %+v, want %s", j, i, got, text)
				}
				page, err := p.Lookup(t.Context(), 7)
				if err != nil || string(page.Body) != text {
					t.Errorf("%d after %d: got %s and %v", j, i, page.Body, err)
				}
				for _, d := range []*dictionary.Dictionary{a, b} {
					got := ask(t, p.addr, "GET", "/api/menu/7", "", having(d)...)
					if got.header.Get("Content-Encoding") == "dcz" {
						plain, err := d.Decompress(nil, []byte(strings.TrimPrefix(got.body, string(d.Header()))))
						got.body = string(plain)
						if err != nil {
							t.Error(err)
						}
					}
					if got.body != text {
						t.Errorf("%d after %d, with a dictionary: got %+v, want %s", j, i, got, text)
					}
				}
			}
		}
	}
}

// What Redis has under a menu's key is a miss if it is no menu, though it was put there as one.
func TestForeignMenusInRedis(t *testing.T) {
	t.Parallel()
	redis, db, d, lost := servertest.Redis(t), database(t), trained(t, 1), trained(t, 2)
	server, _ := menuServer(t, db, redis.Addr(), d)
	p := start(t, redis.Addr(), with(d), server)
	pack := func(d *dictionary.Dictionary, frame []byte) []byte {
		packed, err := dictionary.NewSet(d).Pack(nil, []byte("text of another menu"), frame)
		if err != nil {
			t.Fatal(err)
		}
		return packed
	}
	big, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	want := ask(t, server, "GET", "/menu/7", "")
	for name, bytes := range map[string][]byte{
		"lost":    pack(lost, nil),
		"another": pack(d, nil),
		"bomb":    pack(d, big.EncodeAll(make([]byte, 64<<20), nil)),
		"garbage": pack(d, []byte("no frame")),
		"nothing": pack(d, []byte{}),
		"mark":    {0},
		"marks":   bytes.Repeat([]byte{0}, 100),
	} {
		redis.Flush()
		cfg := cacheConfig(redis.Addr(), prometheus.NewRegistry())
		cfg.Load = func(context.Context, string) (lookaside.Value, error) {
			return lookaside.Value{Bytes: bytes, Version: 1}, nil
		}
		foreign, err := lookaside.New(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := foreign.Get(t.Context(), proxy.Key(7)); err != nil {
			t.Fatal(err)
		}
		if err := foreign.Close(); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if got := ask(t, p.addr, "GET", "/api/menu/7", ""); got.status != 200 || got.body != want.body || got.header.Get("ETag") != want.header.Get("ETag") {
				t.Errorf("%s: got %+v, want %+v", name, got, want)
			}
		}
	}
}

// It is what the dictionary is for: the same menus take less than half of Redis's memory.
func TestMemoryOfRedis(t *testing.T) {
	t.Parallel()
	const count, most = 20_000, 0.45
	redis, source, d := servertest.Redis(t), menutest.Generator(t, 1, count), trained(t, 1)
	before := redis.Memory()
	fill := func(known *dictionary.Set) (keys, all float64) {
		redis.Flush()
		cfg := cacheConfig(redis.Addr(), prometheus.NewRegistry())
		cfg.Shed.Wait = patience
		proxy.Filling(&cfg, known, func(_ context.Context, id int64) (menu.Page, []byte, error) {
			m := source.Menu(id)
			body := m.AppendJSON(nil)
			return menu.Page{Body: body, Tag: menu.Tag(body), Version: 1}, nil, nil
		})
		cache, err := lookaside.New(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = cache.Close() }()
		const readers = 64
		var busy sync.WaitGroup
		for r := range int64(readers) {
			busy.Go(func() {
				for id := r + 1; id <= count; id += readers {
					if _, err := cache.Get(t.Context(), proxy.Key(id)); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		busy.Wait()
		if n := redis.Command("DBSIZE"); n != itoa(count) {
			t.Fatalf("Redis has %s menus, want %d", n, count)
		}
		for id := int64(1); id <= count; id += 97 {
			var n float64
			if _, err := fmt.Sscan(redis.Command("MEMORY", "USAGE", proxy.CacheName+":"+proxy.Key(id)), &n); err != nil {
				t.Fatal(err)
			}
			keys += n
		}
		return keys, float64(redis.Memory() - before)
	}
	plainKeys, plain := fill(nil)
	packedKeys, packed := fill(dictionary.NewSet(d))
	t.Logf("%.0f bytes in all, %.0f with the dictionary: %.2f; by keys %.2f", plain, packed, packed/plain, packedKeys/plainKeys)
	if packed > most*plain || packedKeys > most*plainKeys {
		t.Errorf("got %.2f of the memory, %.2f by keys, want at most %.2f", packed/plain, packedKeys/plainKeys, most)
	}
}
