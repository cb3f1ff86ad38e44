package selftest

import (
	"fmt"

	"loadstone/lab/selftest/plant"
	"loadstone/lab/verdict"
)

// anyKey is the feed of systems that do not care about keys.
const anyKey = "uniform: [0, 999]"

// Systems returns all planted systems, in the order in which they are run.
func Systems() []Planted { return append(plain(), unnamed()...) }

// plain are systems whose limit is to be named.
func plain() []Planted {
	return []Planted{
		{Name: "front", What: "the front has too little CPU", Truth: named("front", verdict.CPU), build: chain("front")},
		{Name: "middle", What: "the middle has too little CPU", Truth: named("middle", verdict.CPU), build: chain("middle")},
		{Name: "store", What: "the store has too little CPU", Truth: named("store", verdict.CPU), build: chain("store"), Quick: true},
		{Name: "pool", What: "a pool of 4 in front of a slow service", Truth: named("api", verdict.Pool).called("connections"), build: poolOfFour, Quick: true},
		{Name: "lock", What: "one global lock", Truth: named("api", verdict.Lock).called("ledger"), build: globalLock, Quick: true},
		{Name: "partition", What: "one hot partition of eight", Truth: named("store", verdict.CPU), build: hotPartition},
		{Name: "replica", What: "one slow replica of three", Truth: named("api", verdict.CPU), build: slowReplica},
		{Name: "queue", What: "a queue whose consumer is too slow", Truth: named("intake", verdict.Queue).called("jobs"), build: slowConsumer},
		{Name: "pipeline", What: "a pipeline whose middle stage is too slow", Truth: named("enrich", verdict.Stage).called("enriched"), build: slowStage},
		{Name: "network", What: "large bodies over a slow network", Truth: named("network", verdict.Lock).called("wire"), build: largeBodies},
		{Name: "cache", What: "a cache with too little memory, so that its store has too little CPU", Truth: named("store", verdict.CPU), build: thrashing},
		{Name: "generator", What: "a load generator slower than the system", Truth: lowerBound(), build: slowGenerator},
		{Name: "two", What: "two services that limit equally", Truth: equally("left", "right"), build: twoEqual},
		{Name: "none", What: "no limit inside the tested range", Truth: lowerBound(), build: noLimit, Quick: true},
	}
}

// chain is front → middle → store, one of them with the work of all three. The
// others sustain at least twice as much.
func chain(limit string) func(*draw) project {
	return func(d *draw) project {
		share := func(name string) service {
			if name == limit {
				return one(name, d.between(0.15, 0.25), d.between(0.7, 1.1))
			}
			return one(name, d.between(0.35, 0.5), d.between(0.15, 0.3))
		}
		return project{feed: anyKey, services: []service{
			share("front").calls("middle"), share("middle").calls("store"), share("store"),
		}}
	}
}

// poolOfFour: each request holds one of four slots while a service sleeps that
// has CPU to spare.
func poolOfFour(d *draw) project {
	api, slow := one("api", 0.5, d.between(0.1, 0.3)).calls("slow"), one("slow", 0.5, d.between(0.1, 0.2))
	api.plant.Pool, api.resources = &plant.Pool{Size: 4}, []string{poolResource}
	slow.plant.SleepMillis = d.between(12, 22)
	return project{feed: anyKey, services: []service{api, slow}}
}

// globalLock: the lock is held while nothing is computed, as when a file is
// written under it, so that it is the lock and not the CPU that has no more.
func globalLock(d *draw) project {
	api := one("api", 0.6, d.between(0.1, 0.3)).calls("store")
	api.plant.Lock, api.resources = &plant.Lock{CPUMillis: 0.1, SleepMillis: d.between(3, 5)}, []string{lockResource}
	return project{feed: anyKey, services: []service{api, one("store", 0.4, d.between(0.1, 0.2))}}
}

// hotPartition: eight single-threaded instances, each with the keys that are its
// number modulo eight, and keys of which the first is asked for by two of five
// requests. The other seven have more than half of their CPU left.
func hotPartition(d *draw) project {
	front, store := one("front", 0.5, 0.1), one("store", d.between(0.1, 0.14), d.between(0.8, 1.1))
	front.plant.Calls = []plant.Call{{Hosts: hosts("store"), Port: port, Visits: 1, ByKey: true}}
	store.replicas, store.plant.Workers = 8, 1
	feeds := []string{"zipf: [1, 1000, 1.5]", "zipf: [1, 1000, 1.6]", "zipf: [1, 1000, 1.7]"}
	return project{feed: feeds[d.whole(0, len(feeds)-1)], services: []service{front, store}}
}

// slowReplica: taking turns gives every replica the same requests, and one needs
// more than twice as long for them.
func slowReplica(d *draw) project {
	front, api := one("front", 0.5, 0.1).calls("api"), one("api", d.between(0.14, 0.18), d.between(0.6, 0.8))
	api.replicas = 3
	api.plant.Slow = &plant.Slow{Peers: hosts("api"), Index: d.whole(0, 2), Factor: d.between(2.3, 3)}
	return project{feed: anyKey, services: []service{front, api}}
}

// slowConsumer: the answer does not wait for the work, so nothing but the queue
// shows that there is too much of it. It is short, because a try of the search
// lasts a second: a long one would take in the excess of a whole try. The search
// starts below what the consumer does, because closed load, which it starts with
// else, finds how fast requests are refused.
func slowConsumer(d *draw) project {
	intake := one("intake", 0.5, d.between(0.1, 0.3))
	intake.plant.Queue = &plant.Queue{Capacity: d.whole(18, 26), SleepMillis: d.between(3, 5)}
	intake.resources = []string{queueResource}
	return project{feed: anyKey, rate: 900 / intake.plant.Queue.SleepMillis, services: []service{intake}}
}

// slowStage: intake takes what comes, enrich works on it and store keeps it, each
// with a small buffer, so that intake is held back and store waits for work. The
// buffers are small for the reason that the queue of slowConsumer is. Handing on
// costs each of the first two about half a millisecond.
func slowStage(d *draw) project {
	intake := one("intake", 0.5, 0.05).calls("enrich").stage("taken", d.between(0.8, 1.2), d.whole(3, 5), "")
	enrich := one("enrich", 0.5, 0.05).calls("store").stage("enriched", d.between(4, 6), d.whole(3, 5), "intake.taken")
	store := one("store", 0.5, 0.05).stage("stored", d.between(1, 1.6), d.whole(3, 5), "enrich.enriched")
	return project{feed: anyKey, services: []service{intake, enrich, store}}
}

// largeBodies: the network is a service that carries one answer after the other
// at a fixed pace. Over loopback there is no other honest way: the kernel copies
// there, so large bodies are bounded by CPU, and shaping the interface would need
// rights and would slow down everything else on it. To whoever measures, a wire
// that is used one at a time is a serial section; it is declared and expected as
// that.
func largeBodies(d *draw) project {
	network, files := one("network", 0.6, 0.05).calls("files"), one("files", 0.5, d.between(0.1, 0.2))
	files.plant.BodyBytes = 1000 * d.whole(40, 80)
	network.plant.Wire = &plant.Wire{BytesPerSecond: float64(files.plant.BodyBytes) * float64(d.whole(180, 260))}
	network.resources = []string{wireResource}
	return project{feed: anyKey, services: []service{network, files}}
}

// thrashing: the keys that are asked for need four to five times the cache's
// memory, so most requests go on to the store. What is used up is the store's
// CPU, and that is what has to be named; with a cache of the working set's size
// the store would have nothing to do.
func thrashing(d *draw) project {
	const entry = 16 << 10
	keys := d.whole(1000, 1400)
	cache, store := one("cache", 0.6, 0.1).calls("store"), one("store", d.between(0.15, 0.22), d.between(0.8, 1.1))
	cache.plant.Cache = &plant.Cache{Bytes: keys * entry / d.whole(4, 5), EntryBytes: entry}
	cache.memory = "64M"
	return project{feed: fmt.Sprintf("uniform: [0, %d]", keys-1), services: []service{cache, store}}
}

// slowGenerator: a service that sends large answers, which costs it little, and a
// generator of one thread that searches each of them several times.
func slowGenerator(d *draw) project {
	api := one("api", 0, 0)
	api.plant.BodyBytes = 1000 * d.whole(150, 250)
	return project{feed: anyKey, checks: d.whole(3, 5), services: []service{api}}
}

// twoEqual: two services that every request goes to, with the same share and the
// same work.
func twoEqual(d *draw) project {
	cpus, work := d.between(0.15, 0.25), d.between(0.8, 1.2)
	front := one("front", 0.6, 0.1).calls("left").calls("right")
	return project{feed: anyKey, services: []service{front, one("left", cpus, work), one("right", cpus, work)}}
}

// noLimit: everything sustains at least three times the highest rate that may be
// tried.
func noLimit(d *draw) project {
	return project{feed: anyKey, maxRate: float64(d.whole(120, 200)), services: []service{
		one("front", 0.5, d.between(0.2, 0.4)).calls("store"), one("store", 0.5, d.between(0.2, 0.4)),
	}}
}
