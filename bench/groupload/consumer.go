package main

import (
	"flag"
	"fmt"
	"log"
	"sync"
	"sync/atomic"
	"time"
)

// Members of consumer groups (KIP-848) as Java client 4.x has them: ConsumerGroupHeartbeat v1. A
// heartbeat contains only what changed. A member that is assigned other partitions confirms them
// immediately; all other heartbeats follow after the interval of the last response, or of -interval.

const (
	apiConsumerHeartbeat = 68
	apiConsumerDescribe  = 69
	joinWithin           = 90 * time.Second // all members of a scenario are stable within this time
)

var (
	interval = flag.Int("interval", -1, "ms between heartbeats of a member without a change; -1: as the server says (consumer-join)")
	spread   = flag.Int("spread", 1000, "ms within which the members send their first heartbeats (consumer-join)")
)

type topicID [16]byte

// consumer is a member of a consumer group that subscribes to -topic.
type consumer struct {
	c     *conn
	group string
	id    string
	epoch int32
	topic topicID
	owned []int32
	lost  int // times at which the server did not know the member any more
}

// beat is the response to a heartbeat; got is nil if the assignment is null.
type beat struct {
	err      int16
	epoch    int32
	interval time.Duration
	topic    topicID
	got      []int32
}

// consumerHeartbeat returns a heartbeat. The first one of a member (epoch 0) has all fields, one with
// owned partitions only those, and all others none.
func consumerHeartbeat(g, m string, epoch int32, topicOf topicID, owned []int32, confirms bool) []byte {
	return flexible(apiConsumerHeartbeat, 1, func(e *enc) {
		joins := epoch == 0
		e.cstr(g)
		e.cstr(m)
		e.i32(epoch)
		e.uvarint(0)
		e.uvarint(0)
		if joins {
			e.i32(300000)
			e.uvarint(2)
			e.cstr(*topic)
		} else {
			e.i32(-1)
			e.uvarint(0)
		}
		e.uvarint(0)
		e.uvarint(0)
		switch {
		case confirms && len(owned) > 0:
			e.uvarint(2)
			e.b = append(e.b, topicOf[:]...)
			e.uvarint(uint64(len(owned) + 1))
			for _, p := range owned {
				e.i32(p)
			}
			e.tags()
		case joins || confirms:
			e.uvarint(1)
		default:
			e.uvarint(0)
		}
	})
}

func decBeat(d *dec) beat {
	var b beat
	d.tags()
	d.i32()
	b.err = d.i16()
	d.cstr()
	d.cstr()
	b.epoch = d.i32()
	b.interval = time.Duration(d.i32()) * time.Millisecond
	if d.i8() < 0 {
		return b
	}
	b.topic, b.got = d.assignment()
	return b
}

func (d *dec) i8() int8 { v := int8(d.b[d.p]); d.p++; return v }

// ctext returns a compact string.
func (d *dec) ctext() string {
	p := d.p
	n := int(d.uvarint())
	at := d.p
	d.p = p
	d.cstr()
	return string(d.b[at : at+max(0, n-1)])
}

// assignment returns the partitions of an assignment, in which there is at most one topic.
func (d *dec) assignment() (topicID, []int32) {
	var t topicID
	got := []int32{}
	for n := d.uvarint(); n > 1; n-- {
		d.p += copy(t[:], d.b[d.p:])
		got = append(got, d.indexes()...)
		d.tags()
	}
	d.tags()
	return t, got
}

func (d *dec) indexes() []int32 {
	var got []int32
	for n := d.uvarint(); n > 1; n-- {
		got = append(got, d.i32())
	}
	return got
}

func newConsumer(c *conn, g string, n int) *consumer {
	return &consumer{c: c, group: g, id: fmt.Sprintf("member-%s-%06d", g, n)}
}

// beat sends one heartbeat and takes over what the server answers. It returns the interval until the
// next one, and whether anything changed.
func (m *consumer) beat(confirms bool) (time.Duration, bool) {
	b := decBeat(m.c.call(consumerHeartbeat(m.group, m.id, m.epoch, m.topic, m.owned, confirms)))
	switch b.err {
	case 0:
	case 14, 15, 16:
		return 50 * time.Millisecond, true
	case 25, 110: // UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH
		m.lost++
		m.epoch, m.owned = 0, nil
		return 0, true
	default:
		log.Fatalf("ConsumerGroupHeartbeat: error %d", b.err)
	}
	changed := b.epoch != m.epoch || b.got != nil
	m.epoch = b.epoch
	if b.got != nil {
		m.topic, m.owned = b.topic, b.got
	}
	return b.interval, changed
}

// leave removes the member from its group.
func (m *consumer) leave() {
	m.c.call(consumerHeartbeat(m.group, m.id, -1, m.topic, nil, false))
}

// joinConsumer creates a group with one member that has all partitions and confirms them.
func joinConsumer(c *conn, g string) (string, int32) {
	m := newConsumer(c, g, 0)
	for end := time.Now().Add(joinWithin); len(m.owned) < *tparts; {
		if time.Now().After(end) {
			log.Fatalf("%d of %d partitions are assigned after %v", len(m.owned), *tparts, joinWithin)
		}
		wait, _ := m.beat(false)
		if len(m.owned) < *tparts {
			time.Sleep(min(wait, 50*time.Millisecond))
		}
	}
	m.beat(true)
	return m.id, m.epoch
}

// described is a consumer group in the response to ConsumerGroupDescribe v0.
type described struct {
	err     int16
	state   string
	epoch   int32
	members int
	behind  int // members that do not have the group's epoch, or not their target assignment
	held    map[int32]int
}

func describeConsumers(c *conn, g string) described {
	r := described{held: map[int32]int{}}
	d := c.call(flexible(apiConsumerDescribe, 0, func(e *enc) { e.uvarint(2); e.cstr(g); e.b = append(e.b, 0) }))
	d.tags()
	d.i32()
	d.uvarint()
	r.err = d.i16()
	d.cstr()
	d.cstr()
	r.state = d.ctext()
	r.epoch = d.i32()
	assigned := d.i32()
	d.cstr()
	for n := d.uvarint(); n > 1; n-- {
		r.members++
		d.cstr()
		d.cstr()
		d.cstr()
		epoch := d.i32()
		d.cstr()
		d.cstr()
		for k := d.uvarint(); k > 1; k-- {
			d.cstr()
		}
		d.cstr()
		has, wants := d.named(), d.named()
		for _, p := range has {
			r.held[p]++
		}
		if epoch != r.epoch || assigned != r.epoch || fmt.Sprint(has) != fmt.Sprint(wants) {
			r.behind++
		}
		d.tags()
	}
	return r
}

// named returns the partitions of an assignment whose topics also have names.
func (d *dec) named() []int32 {
	var got []int32
	for n := d.uvarint(); n > 1; n-- {
		d.p += len(topicID{})
		d.cstr()
		got = append(got, d.indexes()...)
		d.tags()
	}
	d.tags()
	return got
}

// isStable reports whether all members have the last epoch, and each partition one of them.
func (r described) isStable(members int) bool {
	for _, n := range r.held {
		if n != 1 {
			return false
		}
	}
	return r.err == 0 && r.state == "Stable" && r.members == members && r.behind == 0 && len(r.held) == *tparts
}

func awaitTopic() {
	ensureTopic()
	for end := time.Now().Add(60 * time.Second); !*raw && len(leadersOf(*topic)) < *tparts; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			log.Fatalf("%s has fewer than %d partitions", *topic, *tparts)
		}
	}
}

// gathering is a group whose members join: who has which partition, in which epoch.
type gathering struct {
	mu      sync.Mutex
	members []*consumer
	epochs  []int32
	holder  []int // of each partition; -1: none
	free    int   // partitions without a holder
	twice   int   // partitions that were assigned to a member while another one had them
	changed time.Time
	done    chan struct{}
}

// note takes over what a member knows now.
func (g *gathering) note(i int, before []int32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.changed = time.Now()
	m := g.members[i]
	g.epochs[i] = m.epoch
	for _, p := range before {
		if g.holder[p] == i {
			g.holder[p] = -1
			g.free++
		}
	}
	for _, p := range m.owned {
		if g.holder[p] != -1 {
			g.twice++
		} else {
			g.free--
		}
		g.holder[p] = i
	}
}

// settled reports whether all partitions have a holder and all members the same epoch, and since when.
// Each join raises the epoch, so the last epoch is not below the number of members.
func (g *gathering) settled() (time.Time, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.free > 0 {
		return g.changed, false
	}
	for _, e := range g.epochs {
		if int(e) < len(g.members) || e != g.epochs[0] {
			return g.changed, false
		}
	}
	return g.changed, true
}

// run lets one member join after a pause, and send heartbeats until all members are stable.
func (g *gathering) run(i int, after time.Duration) {
	m := g.members[i]
	confirms := false
	for wait := after; ; {
		select {
		case <-g.done:
			return
		case <-time.After(wait):
		}
		before := m.owned
		next, changed := m.beat(confirms)
		moved := fmt.Sprint(before) != fmt.Sprint(m.owned)
		if changed {
			g.note(i, before)
		}
		wait = next
		if *interval >= 0 && m.epoch > 0 {
			wait = time.Duration(*interval) * time.Millisecond
		}
		if confirms = moved && m.epoch > 0; confirms {
			wait = 0
		}
	}
}

// gather lets -members members join one group within -spread. It returns the time until all were
// stable and the server's CPU time until then, in seconds, the number of lost members, and how often a
// partition was assigned to a member while another one had it.
func gather(g string) (float64, float64, int, int) {
	a := coordinatorOf(g)
	all := &gathering{done: make(chan struct{}), epochs: make([]int32, *members), holder: make([]int, *tparts), free: *tparts}
	for p := range all.holder {
		all.holder[p] = -1
	}
	for i := 0; i < *members; i++ {
		all.members = append(all.members, newConsumer(dial(a), g, i))
	}
	within := time.Duration(*spread) * time.Millisecond
	asks := dial(a)
	defer asks.c.Close()
	var wg sync.WaitGroup
	c0, began := cpu(), time.Now()
	for i := range all.members {
		wg.Add(1)
		go func() {
			defer wg.Done()
			all.run(i, within*time.Duration(i)/time.Duration(*members))
		}()
	}
	var took, used float64
	for {
		time.Sleep(time.Millisecond)
		since, ok := all.settled()
		if ok {
			took, used = since.Sub(began).Seconds(), cpu()-c0
			if describeConsumers(asks, g).isStable(*members) {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		if time.Since(began) > joinWithin {
			log.Fatalf("not all members are stable after %v: %+v", joinWithin, describeConsumers(asks, g).state)
		}
	}
	close(all.done)
	wg.Wait()
	lost := 0
	for _, m := range all.members {
		lost += m.lost
		wg.Add(1)
		go func() {
			defer wg.Done()
			m.leave()
			m.c.c.Close()
		}()
	}
	wg.Wait()
	return took, used, lost, all.twice
}

// consumerJoin forms groups one after the other; the first one is not measured.
func consumerJoin(gname func(int) string) {
	awaitTopic()
	gather(gname(0))
	var l []float64
	var cpus float64
	var lost, twice int
	for r := 1; r <= *rounds; r++ {
		took, used, gone, double := gather(gname(r))
		l = append(l, took*1000)
		cpus += used
		lost += gone
		twice += double
	}
	report(map[string]any{"members": *members, "lost": lost, "bad": twice, "stable_p50_ms": pct(l, .5), "stable_max_ms": pct(l, 1),
		"server_cpu_us_member_round": float64(int(cpus/float64(*rounds**members)*1e7)) / 10, "rss_MiB": int(rssMiB())})
}

// crowd is the members of one connection, whose heartbeats it sends together.
type crowd struct {
	c       *conn
	members []*consumer
	frames  []byte // the heartbeat of each member without a change, in one write
	at      []int  // the position of each member's frame
}

// consumerHeartbeats lets -members members of -groups groups share -conns connections. Each connection
// keeps -depth heartbeats of each of its members in flight, and writes the heartbeats of all its members
// together.
func consumerHeartbeats(gname func(int) string) {
	awaitTopic()
	if *members%*groups != 0 {
		log.Fatal("-members must be a multiple of -groups")
	}
	crowds := make([]*crowd, *conns)
	var all []*consumer
	server := *addr
	if !*raw {
		server = coordinatorOf(gname(0))
	}
	for i := range crowds {
		crowds[i] = &crowd{c: dial(server)}
	}
	for n := 0; n < *members; n++ {
		each := crowds[n%*conns]
		m := newConsumer(each.c, gname(n%*groups), n)
		each.members = append(each.members, m)
		all = append(all, m)
	}
	if *raw {
		for _, m := range all {
			m.epoch = 1
		}
	} else {
		settle(crowds, all, gname)
	}
	var m measured
	var bad atomic.Int64
	var mu sync.Mutex
	var lat []float64
	var wg sync.WaitGroup
	for _, each := range crowds {
		each.prepare()
		wg.Add(1)
		go func() {
			defer wg.Done()
			mine := each.pump(&m, &bad)
			mu.Lock()
			lat = append(lat, mine...)
			mu.Unlock()
		}()
	}
	found := m.run(&wg)
	found["members"], found["groups"], found["conns"], found["depth"] = *members, *groups, *conns, *depth
	found["bad"], found["p50_ms"], found["p99_ms"] = bad.Load(), pct(lat, .5), pct(lat, .99)
	if !*raw {
		found["lost"] = *members - present(gname)
		parallel(crowds, func(c *crowd) {
			for _, m := range c.members {
				m.leave()
			}
		})
	}
	report(found)
}

// settle lets all members join, and beat until all groups are stable.
func settle(crowds []*crowd, all []*consumer, gname func(int) string) {
	end := time.Now().Add(joinWithin)
	parallel(crowds, func(c *crowd) {
		for _, m := range c.members {
			for m.epoch == 0 {
				wait, _ := m.beat(false)
				if m.epoch == 0 {
					time.Sleep(wait)
				}
				if time.Now().After(end) {
					log.Fatalf("not all members have joined after %v", joinWithin)
				}
			}
		}
	})
	owed := *groups * *tparts
	for ; ; time.Sleep(100 * time.Millisecond) {
		var changes atomic.Int64
		parallel(crowds, func(c *crowd) {
			for _, m := range c.members {
				confirms := false
				for {
					_, changed := m.beat(confirms)
					if !changed {
						break
					}
					confirms = true
					changes.Add(1)
				}
			}
		})
		owned := 0
		for _, m := range all {
			owned += len(m.owned)
		}
		if changes.Load() == 0 && owned == owed && stable(gname) == *groups {
			return
		}
		if time.Now().After(end) {
			log.Fatalf("%d of %d partitions are assigned after %v", owned, owed, joinWithin)
		}
	}
}

func parallel(crowds []*crowd, work func(*crowd)) {
	var wg sync.WaitGroup
	for _, each := range crowds {
		wg.Add(1)
		go func() {
			defer wg.Done()
			work(each)
		}()
	}
	wg.Wait()
}

// present returns the number of members that are in their groups.
func present(gname func(int) string) int {
	n := 0
	eachGroup(gname, func(r described) { n += r.members })
	return n
}

// stable returns the number of groups that have all their members, all of them stable.
func stable(gname func(int) string) int {
	n := 0
	eachGroup(gname, func(r described) {
		if r.isStable(*members / *groups) {
			n++
		}
	})
	return n
}

func eachGroup(gname func(int) string, use func(described)) {
	c := dial(*addr)
	defer c.c.Close()
	for g := 0; g < *groups; g++ {
		use(describeConsumers(c, gname(g)))
	}
}

func (c *crowd) prepare() {
	for _, m := range c.members {
		c.at = append(c.at, len(c.frames))
		c.frames = append(c.frames, consumerHeartbeat(m.group, m.id, m.epoch, m.topic, nil, false)...)
	}
}

// pump sends the heartbeats of all members repeatedly and checks each response; it returns the
// latencies of whole batches in ms.
func (c *crowd) pump(m *measured, bad *atomic.Int64) []float64 {
	sent := make(chan time.Time, *depth)
	go func() {
		for !m.stop.Load() {
			sent <- time.Now()
			if _, err := c.c.c.Write(c.frames); err != nil {
				log.Fatalf("write: %v", err)
			}
		}
		close(sent)
	}()
	var mine []float64
	for t := range sent {
		for _, each := range c.members {
			d := &dec{c.c.recv(), 4}
			if !*raw {
				if b := decBeat(d); b.err != 0 || b.epoch != each.epoch || b.got != nil {
					bad.Add(1)
				}
			}
		}
		if m.measuring.Load() {
			m.done.Add(int64(len(c.members)))
			mine = append(mine, time.Since(t).Seconds()*1000)
		}
	}
	return mine
}
