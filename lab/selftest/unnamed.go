package selftest

import (
	"loadstone/lab/selftest/plant"
	"loadstone/lab/verdict"
)

// unnamed are systems of which the verdict must not say what it says of the others: what
// limits is nothing that anybody declares, or more CPU would not help, or nothing limits by
// itself.
func unnamed() []Planted {
	return []Planted{
		{Name: "slots", What: "a server with a few slots that nobody declares, behind a proxy", Truth: waitsIn("server"), build: hiddenSlots},
		{Name: "hidden-pool", What: "a pool that nobody declares in front of a slow service", Truth: waitsIn("api"), build: hiddenPool},
		{Name: "database", What: "a lock in the database that nobody declares", Truth: waitsIn("database"), build: lockInDatabase},
		{Name: "thread", What: "a service of one thread that may use more than a core", Truth: named("loop", verdict.Thread), build: oneThread},
		{Name: "outside", What: "a slow service outside the file", Truth: waitsOutside(), build: slowOutside},
		{Name: "outside-pool", What: "a pool in front of a slow service outside the file", Truth: nobody(), build: poolBeforeOutside},
		{Name: "disk", What: "a store that waits for its disk, one request at a time", Truth: waitsIn("store"), build: slowDisk},
		{Name: "collector", What: "a service with little memory, which collects garbage", Truth: named("api", verdict.CPU).advised("less garbage"), build: collecting},
		{Name: "balancer", What: "a balancer that sends most to one of three", Truth: named("api", verdict.CPU).advised("balance api"), build: unevenBalancer},
		{Name: "think", What: "users who think, too few for any limit", Truth: nobody(), build: thinking},
		{Name: "tight", What: "an objective that is missed at 70 % of each of two pools", Truth: nobody(), build: tightObjective},
		{Name: "unlimited", What: "CPU limits that nothing enforces", Truth: nobody(), build: chain("store"), Unlimited: true},
	}
}

// hiddenSlots: the server works on so many at a time, each for a while in which it computes
// nothing.
func hiddenSlots(d *draw) project {
	proxy, server := one("proxy", 0.5, d.between(0.1, 0.2)).calls("server"), one("server", 0.5, d.between(0.1, 0.2))
	server.plant.SleepMillis, server.plant.Slots = d.between(15, 25), d.whole(3, 6)
	return project{feed: anyKey, atOnce: float64(server.plant.Slots), services: []service{proxy, server}}
}

// hiddenPool is poolOfFour without a word of its pool.
func hiddenPool(d *draw) project {
	p := poolOfFour(d)
	api := &p.services[0]
	api.plant.Pool, api.resources = &plant.Pool{Size: d.whole(3, 6)}, nil
	p.atOnce = float64(api.plant.Pool.Size)
	return p
}

// lockInDatabase: every request of the api holds one lock of the database.
func lockInDatabase(d *draw) project {
	api, database := one("api", 0.5, d.between(0.1, 0.3)).calls("database"), one("database", 0.5, d.between(0.1, 0.2))
	database.plant.Lock = &plant.Lock{CPUMillis: 0.1, SleepMillis: d.between(4, 7)}
	return project{feed: anyKey, atOnce: 1, services: []service{api, database}}
}

// oneThread: an event loop that may use one and a half cores, of which it can use one.
func oneThread(d *draw) project {
	front, loop := one("front", 0.3, 0.05).calls("loop"), one("loop", 1.5, d.between(2.2, 3.2))
	loop.plant.Thread = true
	return project{feed: anyKey, services: []service{front, loop}}
}

// slowOutside: what the api calls has a few slots, and is not in the file.
func slowOutside(d *draw) project {
	o := outside(d)
	return project{feed: anyKey, outside: o, atOnce: float64(o.Slots), services: []service{one("front", 0.5, 0.1).calls("api"), one("api", 0.5, d.between(0.1, 0.3))}}
}

func outside(d *draw) *plant.Config {
	c := plant.DefaultConfig()
	c.Listen, c.Admin = "127.0.0.1:0", "127.0.0.1:0"
	c.SleepMillis, c.Slots = d.between(15, 25), d.whole(3, 6)
	return &c
}

// poolBeforeOutside: the api's pool is twice as large as what is outside works on at a time.
// It is full, and more slots of it are of no use.
func poolBeforeOutside(d *draw) project {
	p := slowOutside(d)
	api := &p.services[1]
	api.plant.Pool, api.resources, p.atOnce = &plant.Pool{Size: 2 * p.outside.Slots}, []string{poolResource}, 0
	return p
}

// slowDisk: each request of the store waits until what it wrote is on the disk: so much that
// a disk of a gigabyte a second is slower than the CPU that copies it.
func slowDisk(d *draw) project {
	api, store := one("api", 0.5, d.between(0.1, 0.2)).calls("store"), one("store", 0.9, 0.05)
	store.plant.Disk = &plant.Disk{Bytes: 1_000_000 * d.whole(2, 4)}
	return project{feed: anyKey, services: []service{api, store}}
}

// collecting: most of the api's memory is kept, so that the collector has to look at all
// of it for the little that each of its rounds gives back.
func collecting(d *draw) project {
	front, api := one("front", 0.5, 0.1).calls("api"), one("api", d.between(0.25, 0.35), d.between(0.3, 0.5))
	kept := 1_000_000 * d.whole(30, 40)
	api.plant.Garbage = &plant.Garbage{LimitBytes: int64(1.3*float64(kept)) + 12_000_000, KeptBytes: kept, EachBytes: 1000 * d.whole(60, 90)}
	return project{feed: anyKey, services: []service{front, api}}
}

// unevenBalancer: three of four requests go to one of three replicas, which are alike.
func unevenBalancer(d *draw) project {
	front, api := one("front", 0.5, 0.1).calls("api"), one("api", d.between(0.14, 0.18), d.between(0.6, 0.8))
	api.replicas, front.plant.Calls[0].Uneven = 3, d.whole(2, 3)
	return project{feed: anyKey, services: []service{front, api}}
}

// thinking: what bounds the throughput is that there are so many users, who mostly think.
func thinking(d *draw) project {
	p := chain("store")(d)
	p.users = d.whole(20, 40)
	return p
}

// tightObjective: requests go through two pools, one after the other, which are alike. Of
// Poisson arrivals at seven tenths of what four slots of a fixed time can do, one of twenty
// waits for about 0.9 of that time, and at both together for not twice as long.
func tightObjective(d *draw) project {
	const slots = 4
	each := d.between(18, 24)
	pooled := func(name, behind string) service {
		s := one(name, 0.5, 0.1).calls(behind)
		s.plant.Pool, s.resources = &plant.Pool{Size: slots}, []string{poolResource}
		return s
	}
	sleeper := func(name string) service {
		s := one(name, 0.5, 0.05)
		s.plant.SleepMillis = each
		return s
	}
	front := one("front", 0.6, 0.1).calls("left").calls("right")
	return project{feed: anyKey, objective: 3.3 * each, services: []service{front, pooled("left", "one"), pooled("right", "two"), sleeper("one"), sleeper("two")}}
}
