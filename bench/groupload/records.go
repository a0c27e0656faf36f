package main

import (
	"encoding/binary"
	"flag"
	"log"
	"os"
)

// The same Produce frame, repeated, and the same Fetch of its records, repeated.

var (
	batchFile = flag.String("file", "", "file with the record batch of each Produce, without a producer id; default: 16 plain records of 1 kB (produce, consume)")
	acks      = flag.Int("acks", -1, "acks of each Produce: 1, or -1 for all (produce)")
)

const (
	plainRecords = 16
	plainValue   = 1000
)

// plainBatch returns a batch of n records of size bytes, without a producer id.
func plainBatch(n, size int) []byte {
	b := batchOf(n, size, -1, -1, -1, 0)
	seal(b)
	return b
}

// chosenBatch returns the batch of -file, or 16 plain records of 1 kB.
func chosenBatch() []byte {
	if *batchFile == "" {
		return plainBatch(plainRecords, plainValue)
	}
	b, err := os.ReadFile(*batchFile)
	if err != nil {
		log.Fatal(err)
	}
	return b
}

// produceFrame returns a Produce v8 of a batch to a partition, with the acks of -acks.
func produceFrame(partition int32, b []byte) []byte {
	return req(apiProduce, 8, func(e *enc) {
		e.null()
		e.i16(int16(*acks))
		e.i32(30000)
		e.i32(1)
		e.str(*topic)
		e.i32(1)
		e.i32(partition)
		e.byts(b)
	})
}

// produced reports whether a Produce v8 succeeded.
func produced(d *dec) bool {
	d.i32()
	d.str()
	d.i32()
	d.i32()
	return d.i16() == 0
}

// produce lets each connection write to one partition, at its leader.
func produce() {
	ensureTopic()
	leaders := leadersOf(*topic)
	b := chosenBatch()
	pump(func(i int) *plan {
		p := int32(i % *tparts)
		return &plan{c: dial(leaders[p]), frames: [][]byte{produceFrame(p, b)}, ok: produced}
	})
}

// consume lets each connection fetch the same mebibyte of records, repeated.
func consume(run string) {
	*topic = "plain" + run
	*tparts = 1
	ensureTopic()
	c := dial(*addr)
	b := chosenBatch()
	f := produceFrame(0, b)
	for written := 0; written < 2*readBytes; written += len(b) {
		if !produced(c.call(f)) {
			panic("Produce is refused")
		}
	}
	pump(func(i int) *plan {
		return &plan{c: dial(*addr), frames: [][]byte{fetchFrame(0, 0, 0)}, ok: func(d *dec) bool {
			d.i32()
			d.i32()
			d.str()
			d.i32()
			d.i32()
			return d.i16() == 0 && int(binary.BigEndian.Uint32(d.b[d.p+20:])) > readBytes/2
		}}
	})
}
