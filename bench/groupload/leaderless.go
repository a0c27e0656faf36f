package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// The leaders of a cluster's partitions, and the time without a leader while leadership moves.

const acksOfLeader = 1

// leadersOf returns the address of each partition's leader, without partitions that have none.
func leadersOf(topic string) map[int32]string {
	found, _ := metadata(dial(*addr), topic)
	return found
}

// metadata asks one broker (Metadata v1) for a topic's leaders and the addresses of all brokers.
func metadata(c *conn, topic string) (map[int32]string, []string) {
	defer c.c.Close()
	d := c.call(req(apiMetadata, 1, func(e *enc) { e.i32(1); e.str(topic) }))
	brokers, all := map[int32]string{}, []string{}
	for n := d.i32(); n > 0; n-- {
		id := d.i32()
		host := d.str()
		brokers[id] = fmt.Sprintf("%s:%d", host, d.i32())
		d.str()
		all = append(all, brokers[id])
	}
	d.i32()
	leaders := map[int32]string{}
	for n := d.i32(); n > 0; n-- {
		d.i16()
		d.str()
		d.p++
		for k := d.i32(); k > 0; k-- {
			d.i16()
			index := d.i32()
			if a, ok := brokers[d.i32()]; ok {
				leaders[index] = a
			}
			for lists := 0; lists < 2; lists++ {
				d.p += 4 * int(d.i32())
			}
		}
	}
	return leaders, all
}

// probed is the state of one partition: its last write and its longest pause between two writes.
type probed struct {
	at         string
	ok         int64 // time of the last write
	from, till int64 // start and end of the longest pause before a write to another broker
	to         string
	code       int16 // error code of the last refused write; -1 for a lost connection
}

// prober writes without end to the partitions that one broker led at first. It writes each to its
// last known leader, and to all brokers while no leader is known.
type prober struct {
	mu    sync.Mutex
	parts []*probed // nil for partitions that other brokers led
	batch []byte
}

// pause returns the wait between two rounds at a broker: short while a partition has no leader.
func (p *prober) pause() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, each := range p.parts {
		if each != nil && each.at == "" {
			return 5 * time.Millisecond
		}
	}
	return 20 * time.Millisecond
}

// wanted returns the partitions to write to at a broker now.
func (p *prober) wanted(at string) []int32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []int32
	for i, each := range p.parts {
		if each != nil && (each.at == at || each.at == "") {
			out = append(out, int32(i))
		}
	}
	return out
}

func (p *prober) took(at string, i int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	each, now := p.parts[i], time.Now().UnixNano()
	if each.to != at && each.ok != 0 && now-each.ok > each.till-each.from {
		each.from, each.till = each.ok, now
	}
	each.at, each.to, each.ok = at, at, now
}

func (p *prober) refused(at string, i int32, code int16) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.parts[i].code = code
	if p.parts[i].at == at {
		p.parts[i].at = ""
	}
}

// round writes once to each partition that a broker may lead; false if the connection is lost.
func (p *prober) round(at string, c *conn) bool {
	wanted := p.wanted(at)
	if len(wanted) == 0 {
		return true
	}
	frame := req(apiProduce, 8, func(e *enc) {
		e.null()
		e.i16(acksOfLeader)
		e.i32(30000)
		e.i32(1)
		e.str(*topic)
		e.i32(int32(len(wanted)))
		for _, i := range wanted {
			e.i32(i)
			e.byts(p.batch)
		}
	})
	answer := exchange(c, frame)
	if answer == nil {
		for _, i := range wanted {
			p.refused(at, i, -1)
		}
		return false
	}
	d := &dec{answer, 4}
	d.i32()
	d.str()
	for n := d.i32(); n > 0; n-- {
		i := d.i32()
		if code := d.i16(); code == 0 {
			p.took(at, i)
		} else {
			p.refused(at, i, code)
		}
		d.p += 8 + 8 + 8
		for k := d.i32(); k > 0; k-- {
			d.i32()
			d.str()
		}
		d.str()
	}
	return true
}

// exchange is call for a server that may die; it then returns nil.
func exchange(c *conn, frame []byte) []byte {
	if _, err := c.c.Write(frame); err != nil {
		return nil
	}
	var h [4]byte
	if _, err := io.ReadFull(c.r, h[:]); err != nil {
		return nil
	}
	b := make([]byte, int(h[0])<<24|int(h[1])<<16|int(h[2])<<8|int(h[3]))
	if _, err := io.ReadFull(c.r, b); err != nil {
		return nil
	}
	return b
}

// leaderless probes until its standard input ends, for -secs at most. It prints the line "ready"
// once all partitions are written. For each partition that moved, it prints the times of the last
// write before and the first write after the longest pause (nanoseconds since 1970).
func leaderless() {
	leaders, brokers := metadata(dial(strings.Split(*addr, ",")[0]), *topic)
	p := &prober{batch: plainBatch(1, 10)}
	p.parts = make([]*probed, *tparts)
	probing := 0
	for i := range p.parts {
		if at := leaders[int32(i)]; at == *leader {
			p.parts[i] = &probed{at: at}
			probing++
		}
	}
	stop := time.Now().Add(time.Duration(*secs * float64(time.Second)))
	for _, a := range brokers {
		go func(a string) {
			var c *conn
			for {
				if c == nil {
					if s, err := net.DialTimeout("tcp", a, 100*time.Millisecond); err == nil {
						c = &conn{s, bufio.NewReaderSize(s, 1<<16)}
					}
				}
				if c != nil && !p.round(a, c) {
					c.c.Close()
					c = nil
				}
				time.Sleep(p.pause())
			}
		}(a)
	}
	var told atomic.Bool
	go func() {
		io.Copy(io.Discard, os.Stdin)
		told.Store(true)
	}()
	ready := false
	for time.Now().Before(stop) && !told.Load() {
		time.Sleep(50 * time.Millisecond)
		p.mu.Lock()
		written := 0
		for _, each := range p.parts {
			if each != nil && each.ok != 0 {
				written++
			}
		}
		p.mu.Unlock()
		if !ready && written == probing {
			ready = true
			fmt.Println("ready")
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	moved := [][2]int64{}
	lost := map[int]int16{}
	for i, each := range p.parts {
		if each == nil {
			continue
		}
		if each.till != 0 {
			moved = append(moved, [2]int64{each.from, each.till})
		}
		if each.at == "" {
			lost[i] = each.code
		}
	}
	report(map[string]any{"moved": moved, "without_leader": lost})
}
