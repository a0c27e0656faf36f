package main

import (
	"encoding/binary"
	"flag"
	"fmt"
	"log"
	"sync"
	"sync/atomic"
	"time"
)

// Members of a share group (KIP-932): ShareGroupHeartbeat v1, and ShareFetch v2 that acknowledges the
// records of the last response and acquires up to -records others. Each member has one connection and one
// request in flight. All records are in the log before a group begins, so each run uses another group.

const (
	apiListOffsets    = 2
	apiAlterConfigs   = 44
	apiShareHeartbeat = 76
	apiShareFetch     = 78
	groupResource     = 32
	typeAccept        = 1
	shareWaitMs       = 500
	fillDepth         = 16       // Produce requests in flight for each partition
)

var (
	batch = flag.Int("batch", 1, "records in each batch of the topic (share)")
	bytes = flag.Int("bytes", 50<<20, "max_bytes of a ShareFetch; the default is that of Java clients (share)")
	fill  = flag.Int("fill", 100000, "records in all partitions of the topic (share)")
)

// taken is a range of records that a member acquired.
type taken struct {
	partition   int32
	first, last int64
}

// worker is a member of a share group.
type worker struct {
	c     *conn
	group string
	id    string
	epoch int32
	topic topicID
	owned []int32
	asked map[int32]bool // the partitions of the share session
	next  int32          // epoch of the share session
	held  []taken        // what the next ShareFetch acknowledges
	due   time.Time      // of the next heartbeat
}

func (w *worker) heartbeat() {
	d := w.c.call(flexible(apiShareHeartbeat, 1, func(e *enc) {
		e.cstr(w.group)
		e.cstr(w.id)
		e.i32(w.epoch)
		e.uvarint(0)
		if w.epoch == 0 {
			e.uvarint(2)
			e.cstr(*topic)
		} else {
			e.uvarint(0)
		}
	}))
	b := decBeat(d)
	w.due = time.Now().Add(50 * time.Millisecond)
	switch b.err {
	case 0:
	case 14, 15, 16:
		return
	default:
		log.Fatalf("ShareGroupHeartbeat: error %d", b.err)
	}
	w.epoch = b.epoch
	if b.got != nil {
		w.topic, w.owned = b.topic, b.got
	}
	if len(w.owned) > 0 {
		w.due = time.Now().Add(b.interval)
	}
}

// fetchFrame returns a ShareFetch that acknowledges what the member holds.
func (w *worker) fetchFrame(epoch int32) []byte {
	acks := map[int32][]taken{}
	var order []int32
	name := func(p int32) {
		if _, ok := acks[p]; !ok {
			acks[p] = nil
			order = append(order, p)
		}
	}
	for _, t := range w.held {
		name(t.partition)
		acks[t.partition] = append(acks[t.partition], t)
	}
	if epoch >= 0 {
		for _, p := range w.owned {
			if !w.asked[p] {
				w.asked[p] = true
				name(p)
			}
		}
	}
	return flexible(apiShareFetch, 2, func(e *enc) {
		e.cstr(w.group)
		e.cstr(w.id)
		e.i32(epoch)
		if epoch < 0 {
			for range 4 {
				e.i32(0)
			}
		} else {
			e.i32(shareWaitMs)
			e.i32(1)
			e.i32(int32(*bytes))
			e.i32(int32(*records))
		}
		e.i32(int32(*records))
		e.i8(0)
		e.i8(0)
		if len(order) == 0 {
			e.uvarint(1)
		} else {
			e.uvarint(2)
			e.b = append(e.b, w.topic[:]...)
			e.uvarint(uint64(len(order) + 1))
			for _, p := range order {
				e.i32(p)
				e.uvarint(uint64(len(acks[p]) + 1))
				for _, t := range acks[p] {
					e.i64(t.first)
					e.i64(t.last)
					e.uvarint(2)
					e.i8(typeAccept)
					e.tags()
				}
				e.tags()
			}
			e.tags()
		}
		e.uvarint(1)
	})
}

// delivered is the records that the members of a group have acquired.
type delivered struct {
	mu    sync.Mutex
	seen  [][]bool // of each partition, each offset
	count atomic.Int64
	bad   atomic.Int64
	done  chan struct{} // closed when all records are delivered
}

// fetch sends one ShareFetch and notes what the member acquired.
func (w *worker) fetch(epoch int32, all *delivered) int {
	d := w.c.call(w.fetchFrame(epoch))
	w.held = w.held[:0]
	d.tags()
	d.i32()
	if code := d.i16(); code != 0 {
		log.Fatalf("ShareFetch: error %d", code)
	}
	d.cstr()
	d.i32()
	got := 0
	for n := d.uvarint(); n > 1; n-- {
		d.p += len(w.topic)
		for k := d.uvarint(); k > 1; k-- {
			p := d.i32()
			if code := d.i16(); code != 0 {
				log.Fatalf("ShareFetch: error %d of partition %d", code, p)
			}
			d.cstr()
			if code := d.i16(); code != 0 {
				log.Printf("acknowledgement: error %d of partition %d", code, p)
				all.bad.Add(1)
			}
			d.cstr()
			d.i32()
			d.i32()
			d.tags()
			var data []byte
			if size := int(d.uvarint()); size > 1 {
				data = d.b[d.p : d.p+size-1]
				d.p += size - 1
			}
			for r := d.uvarint(); r > 1; r-- {
				t := taken{p, d.i64(), d.i64()}
				if count := d.i16(); count != 1 || !has(data, t) {
					all.bad.Add(1)
				}
				d.tags()
				w.held = append(w.held, t)
				got += int(t.last - t.first + 1)
			}
			d.tags()
		}
		d.tags()
	}
	all.note(w.held)
	return got
}

// has reports whether batches contain all records of a range.
func has(data []byte, t taken) bool {
	next := t.first
	for at := 0; at+61 <= len(data); {
		base := int64(binary.BigEndian.Uint64(data[at:]))
		last := base + int64(binary.BigEndian.Uint32(data[at+23:]))
		if base <= next && next <= last {
			next = last + 1
		}
		at += 12 + int(binary.BigEndian.Uint32(data[at+8:]))
	}
	return next > t.last
}

// note counts the records of a response; a record that was delivered before is bad.
func (all *delivered) note(held []taken) {
	n := int64(0)
	all.mu.Lock()
	for _, t := range held {
		for o := t.first; o <= t.last; o++ {
			if all.seen[t.partition][o] {
				all.bad.Add(1)
			}
			all.seen[t.partition][o] = true
		}
		n += t.last - t.first + 1
	}
	all.mu.Unlock()
	if n > 0 && all.count.Add(n) == int64(len(all.seen)*len(all.seen[0])) {
		close(all.done)
	}
}

// missing returns the number of records that were passed over: records of greater offsets were delivered.
func (all *delivered) missing() int {
	n := 0
	for _, seen := range all.seen {
		gap := 0
		for _, is := range seen {
			if is {
				n += gap
				gap = 0
			} else {
				gap++
			}
		}
	}
	return n
}

// endOf returns the end offset of a partition of -topic.
func endOf(c *conn, p int32) int64 {
	d := c.call(req(apiListOffsets, 1, func(e *enc) {
		e.i32(-1)
		e.i32(1)
		e.str(*topic)
		e.i32(1)
		e.i32(p)
		e.i64(-1)
	}))
	d.i32()
	d.str()
	d.i32()
	d.i32()
	if code := d.i16(); code != 0 {
		log.Fatalf("ListOffsets: error %d", code)
	}
	d.i64()
	return d.i64()
}

// fillPartition produces the records that a partition does not have yet.
func fillPartition(p int32, wanted int64) {
	c := dial(*addr)
	defer c.c.Close()
	frame := produceFrame(p, plainBatch(*batch, recordSize))
	sent := make(chan bool, fillDepth)
	go func() {
		for n := endOf(dial(*addr), p); n < wanted; n += int64(*batch) {
			sent <- true
			if _, err := c.c.Write(frame); err != nil {
				log.Fatalf("write: %v", err)
			}
		}
		close(sent)
	}()
	for range sent {
		if !produced(&dec{c.recv(), 4}) {
			log.Fatal("Produce is refused")
		}
	}
}

// startAtEarliest sets share.auto.offset.reset of a group.
func startAtEarliest(g string) {
	c := dial(*addr)
	defer c.c.Close()
	d := c.call(req(apiAlterConfigs, 0, func(e *enc) {
		e.i32(1)
		e.i8(groupResource)
		e.str(g)
		e.i32(1)
		e.str("share.auto.offset.reset")
		e.i8(0)
		e.str("earliest")
		e.i8(0)
	}))
	d.i32()
	d.i32()
	if code := d.i16(); code != 0 {
		log.Fatalf("IncrementalAlterConfigs: error %d, %s", code, d.str())
	}
}

// share lets -members members of one group acquire and acknowledge all records once. An operation is a
// record. The measurement ends after -secs, or when all records are delivered.
func share(g string) {
	*topic = fmt.Sprintf("share-%d-%d", *batch, *tparts)
	awaitTopic()
	each := int64((*fill / *tparts + *batch - 1) / *batch * *batch)
	all := &delivered{done: make(chan struct{})}
	var wg sync.WaitGroup
	for p := range *tparts {
		all.seen = append(all.seen, make([]bool, each))
		wg.Add(1)
		go func() {
			defer wg.Done()
			fillPartition(int32(p), each)
		}()
	}
	wg.Wait()
	startAtEarliest(g)
	a := coordinatorOf(g)
	workers := make([]*worker, *members)
	for i := range workers {
		workers[i] = &worker{c: dial(a), group: g, id: newUUID(i), asked: map[int32]bool{}}
	}
	assign(workers)
	var m measured
	var mu sync.Mutex
	var lat []float64
	for _, w := range workers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			var mine []float64
			for !m.stop.Load() {
				if time.Now().After(w.due) {
					w.heartbeat()
				}
				t := time.Now()
				n := w.fetch(w.next, all)
				w.next++
				if m.measuring.Load() {
					m.done.Add(int64(n))
					mine = append(mine, time.Since(t).Seconds()*1000)
				}
			}
			w.fetch(-1, all)
			mu.Lock()
			lat = append(lat, mine...)
			mu.Unlock()
		}()
	}
	found := m.runUntil(&wg, all.done)
	for _, w := range workers {
		w.epoch = -1
		w.heartbeat()
	}
	found["members"], found["records"], found["fetches"] = *members, all.count.Load(), len(lat)
	found["bad"], found["lost"] = all.bad.Load(), all.missing()
	found["p50_ms"], found["p99_ms"] = pct(lat, .5), pct(lat, .99)
	report(found)
}

// assign lets all members join, until each has partitions and together they have all.
func assign(workers []*worker) {
	for end := time.Now().Add(joinWithin); ; time.Sleep(100 * time.Millisecond) {
		has := map[int32]bool{}
		ready := true
		for _, w := range workers {
			w.heartbeat()
			ready = ready && len(w.owned) > 0
			for _, p := range w.owned {
				has[p] = true
			}
		}
		if ready && len(has) == *tparts {
			return
		}
		if time.Now().After(end) {
			log.Fatalf("%d of %d partitions are assigned after %v", len(has), *tparts, joinWithin)
		}
	}
}

// newUUID returns a member id in the form that Kafka's clients use.
func newUUID(i int) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], uint64(time.Now().UnixNano()))
	binary.BigEndian.PutUint64(b[8:], uint64(i))
	return fmt.Sprintf("%x", b)
}
