package main

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"log"
	"sync"
	"time"
)

// Transactions as Java client 4.x writes them (TV2): Produce v12, which adds the partitions, and
// EndTxn v5, which returns the epoch of the next transaction. Each connection has one producer,
// with one transaction at a time.

const (
	apiProduce   = 0
	apiFetch     = 1
	apiInitPid   = 22
	apiEndTxn    = 26
	retryPause   = 20 * time.Millisecond
	recordSize   = 100
	errRetriable = 51 // CONCURRENT_TRANSACTIONS: markers of the previous transaction are still missing
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (e *enc) uvarint(v uint64) { e.b = binary.AppendUvarint(e.b, v) }
func (e *enc) varint(v int64)   { e.b = binary.AppendVarint(e.b, v) }
func (e *enc) cstr(s string)    { e.uvarint(uint64(len(s) + 1)); e.b = append(e.b, s...) }
func (e *enc) tags()            { e.b = append(e.b, 0) }

func (d *dec) uvarint() uint64 {
	v, n := binary.Uvarint(d.b[d.p:])
	d.p += n
	return v
}
func (d *dec) cstr() { // skipped
	if n := d.uvarint(); n > 0 {
		d.p += int(n) - 1
	}
}
func (d *dec) tags() { // skipped
	for n := d.uvarint(); n > 0; n-- {
		d.uvarint()
		d.p += int(d.uvarint())
	}
}

// flexible returns a request with header v2.
func flexible(key, ver int16, body func(*enc)) []byte {
	return req(key, ver, func(e *enc) { e.tags(); body(e); e.tags() })
}

// batchOf returns a batch of n records of size bytes, without its checksum.
func batchOf(n, size int, pid int64, epoch int16, sequence int32, attributes int16) []byte {
	records := &enc{}
	value := make([]byte, size)
	for i := 0; i < n; i++ {
		one := &enc{}
		one.i8(0)
		one.varint(0)
		one.varint(int64(i))
		one.varint(-1)
		one.varint(int64(size))
		one.b = append(one.b, value...)
		one.varint(0)
		records.varint(int64(len(one.b)))
		records.b = append(records.b, one.b...)
	}
	now := time.Now().UnixMilli()
	e := &enc{}
	e.i64(0)
	e.i32(int32(49 + len(records.b)))
	e.i32(-1)
	e.i8(2)
	e.i32(0)
	e.i16(attributes)
	e.i32(int32(n - 1))
	e.i64(now)
	e.i64(now)
	e.i64(pid)
	e.i16(epoch)
	e.i32(sequence)
	e.i32(int32(n))
	e.b = append(e.b, records.b...)
	return e.b
}

// seal sets a batch's checksum.
func seal(b []byte) {
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], castagnoli))
}

// stamp sets a batch's producer epoch and its checksum.
func stamp(b []byte, epoch int16) {
	binary.BigEndian.PutUint16(b[51:], uint16(epoch))
	seal(b)
}

// producer writes the transactions of one transactional id.
type producer struct {
	c     *conn
	id    string
	pid   int64
	epoch int16
	frame []byte // the Produce request
	at    []int  // positions of the batches in frame
	size  int    // size of each batch
}

func initProducer(i int, run string, records, parts int) *producer {
	p := &producer{id: fmt.Sprintf("t%s-%d", run, i)}
	for k := 0; ; k++ { // the first request makes the broker create __transaction_state
		c := dial(*addr)
		d := c.call(req(apiFindCoord, 1, func(e *enc) { e.str(p.id); e.i8(1) }))
		d.i32()
		code := d.i16()
		d.str()
		d.i32()
		h, port := d.str(), d.i32()
		c.c.Close()
		if code == 0 {
			p.c = dial(fmt.Sprintf("%s:%d", h, port))
			break
		}
		if k > 600 {
			log.Fatal("no coordinator of transactions")
		}
		time.Sleep(50 * time.Millisecond)
	}
	for k := 0; ; k++ {
		d := p.c.call(flexible(apiInitPid, 4, func(e *enc) { e.cstr(p.id); e.i32(60000); e.i64(-1); e.i16(-1) }))
		d.tags()
		d.i32()
		code := d.i16()
		p.pid, p.epoch = d.i64(), d.i16()
		if code == 0 {
			break
		}
		if k > 600 {
			log.Fatalf("InitProducerId: error %d", code)
		}
		time.Sleep(50 * time.Millisecond)
	}
	b := batchOf(records, recordSize, p.pid, 0, 0, 1<<4) // each transaction begins at sequence 0
	p.size = len(b)
	p.frame = flexible(apiProduce, 12, func(e *enc) {
		e.cstr(p.id)
		e.i16(-1)
		e.i32(30000)
		e.uvarint(2)
		e.cstr(*topic)
		e.uvarint(uint64(parts + 1))
		for q := 0; q < parts; q++ {
			e.i32(int32((i*parts + q) % *tparts))
			e.uvarint(uint64(len(b) + 1))
			p.at = append(p.at, len(e.b))
			e.b = append(e.b, b...)
			e.tags()
		}
		e.tags()
	})
	return p
}

// produceError returns the first error code of a Produce response.
func produceError(d *dec) int16 {
	d.tags()
	for n := d.uvarint(); n > 1; n-- {
		d.cstr()
		for k := d.uvarint(); k > 1; k-- {
			d.i32()
			if code := d.i16(); code != 0 {
				return code
			}
			d.i64()
			d.i64()
			d.i64()
			for r := d.uvarint(); r > 1; r-- {
				d.i32()
				d.cstr()
				d.tags()
			}
			d.cstr()
			d.tags()
		}
		d.tags()
	}
	return 0
}

// transact writes and ends one transaction; it returns the duration of EndTxn.
func (p *producer) transact(commit bool) time.Duration {
	for _, at := range p.at {
		stamp(p.frame[at:at+p.size], p.epoch)
	}
	for k := 0; ; k++ {
		code := produceError(p.c.call(p.frame))
		if code == 0 {
			break
		}
		if code != errRetriable || k > 100 {
			log.Fatalf("Produce: error %d", code)
		}
		time.Sleep(retryPause)
	}
	t := time.Now()
	d := p.c.call(flexible(apiEndTxn, 5, func(e *enc) {
		e.cstr(p.id)
		e.i64(p.pid)
		e.i16(p.epoch)
		if commit {
			e.i8(1)
		} else {
			e.i8(0)
		}
	}))
	took := time.Since(t)
	d.tags()
	d.i32()
	code := d.i16()
	pid, epoch := d.i64(), d.i16()
	if code != 0 || pid != p.pid {
		log.Fatalf("EndTxn: error %d", code)
	}
	p.epoch = epoch
	return took
}

// pace returns the interval between the starts of one producer's transactions.
func pace() time.Duration {
	if *rate == 0 {
		return 0
	}
	return time.Duration(float64(*conns) / *rate * float64(time.Second))
}

// transactions lets each connection's producer write transactions, without pause or at -rate.
func transactions(run string) {
	ensureTopic()
	var m measured
	var mu sync.Mutex
	var lat []float64
	var wg sync.WaitGroup
	for i := 0; i < *conns; i++ {
		p := initProducer(i, run, *records, *parts)
		wg.Add(1)
		go func() {
			defer wg.Done()
			var mine []float64
			due := time.Now().Add(pace() / time.Duration(*conns) * time.Duration(i))
			for !m.stop.Load() {
				time.Sleep(time.Until(due))
				due = due.Add(pace())
				took := p.transact(true)
				if m.measuring.Load() {
					m.done.Add(1)
					mine = append(mine, took.Seconds()*1000)
				}
			}
			mu.Lock()
			lat = append(lat, mine...)
			mu.Unlock()
		}()
	}
	found := m.run(&wg)
	found["conns"], found["parts"], found["records"] = *conns, *parts, *records
	found["p50_ms"], found["p99_ms"] = pct(lat, .5), pct(lat, .99)
	report(found)
}

const readBytes = 1 << 20

// fetchFrame returns a Fetch v4 of a partition from an offset, at an isolation level.
func fetchFrame(partition int32, offset int64, isolation int8) []byte {
	return req(apiFetch, 4, func(e *enc) {
		e.i32(-1)
		e.i32(500)
		e.i32(1)
		e.i32(readBytes)
		e.i8(isolation)
		e.i32(1)
		e.str(*topic)
		e.i32(1)
		e.i32(partition)
		e.i64(offset)
		e.i32(readBytes)
	})
}

// read fetches a partition of transactions repeatedly; one transaction in ten is aborted.
func read(run string) {
	*topic = "read" + run
	*tparts = 1
	ensureTopic()
	p := initProducer(0, run, 100, 1)
	for k := 0; k < 2000; k++ {
		p.transact(k%10 != 0)
	}
	time.Sleep(time.Second)
	var lat []float64
	var bytes, fetches int64
	offset := int64(0)
	once := func() {
		t := time.Now()
		d := p.c.call(fetchFrame(0, offset, int8(*isolation)))
		lat = append(lat, time.Since(t).Seconds()*1000)
		d.i32()
		d.i32()
		d.str()
		d.i32()
		d.i32()
		if code := d.i16(); code != 0 {
			log.Fatalf("Fetch: error %d", code)
		}
		d.i64()
		stable := d.i64()
		if n := d.i32(); n > 0 {
			d.p += 16 * int(n)
		}
		data := d.byts()
		bytes += int64(len(data))
		fetches++
		for at := 0; at+61 <= len(data); { // the last complete batch gives the next offset
			size := 12 + int(binary.BigEndian.Uint32(data[at+8:]))
			if at+size > len(data) {
				break
			}
			offset = int64(binary.BigEndian.Uint64(data[at:])) + int64(binary.BigEndian.Uint32(data[at+23:])) + 1
			at += size
		}
		if offset >= stable { // everything is read: start again
			offset = 0
		}
	}
	for t := time.Now(); time.Since(t).Seconds() < *warm; {
		once()
	}
	lat, bytes, fetches = nil, 0, 0
	c0, t0 := cpu(), time.Now()
	for time.Since(t0).Seconds() < *secs {
		once()
	}
	el := time.Since(t0).Seconds()
	c1 := cpu()
	report(map[string]any{"isolation": *isolation, "ops_s": int(float64(fetches) / el), "MB_s": int(float64(bytes) / el / 1e6), "p50_ms": pct(lat, .5), "p99_ms": pct(lat, .99),
		"server_cpu_us_op": float64(int((c1-c0)/float64(fetches)*1e7)) / 10, "rss_MiB": int(rssMiB())})
}
