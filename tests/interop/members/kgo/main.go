// A group member that uses franz-go (kgo) with group.protocol=consumer (KIP-848).
//
// It reports events and accepts words like the Python members; see ../lines.py.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"sort"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type settings struct {
	Bootstrap, Group, Name string
	Topics                 []string
}

type fields map[string]any

// The standard output, which the callbacks of the client share with the main goroutine.
var output sync.Mutex

func emit(event string, values fields) {
	line := fields{"event": event}
	for key, value := range values {
		line[key] = value
	}
	text, _ := json.Marshal(line)
	output.Lock()
	defer output.Unlock()
	os.Stdout.Write(append(text, '\n'))
}

// positions contains the next offset of each partition whose records are consumed.
type positions struct {
	sync.Mutex
	next map[string]map[int32]int64
}

func (p *positions) consumed(r *kgo.Record) {
	p.Lock()
	defer p.Unlock()
	if p.next[r.Topic] == nil {
		p.next[r.Topic] = map[int32]int64{}
	}
	p.next[r.Topic][r.Partition] = r.Offset + 1
	emit("record", fields{
		"topic": r.Topic, "partition": r.Partition, "offset": r.Offset, "value": string(r.Value),
	})
}

func (p *positions) all() map[string][]int32 {
	p.Lock()
	defer p.Unlock()
	found := map[string][]int32{}
	for topic, partitions := range p.next {
		for partition := range partitions {
			found[topic] = append(found[topic], partition)
		}
	}
	return found
}

func (p *positions) of(wanted map[string][]int32) map[string]map[int32]kgo.EpochOffset {
	p.Lock()
	defer p.Unlock()
	found := map[string]map[int32]kgo.EpochOffset{}
	for topic, partitions := range wanted {
		for _, partition := range partitions {
			if offset, ok := p.next[topic][partition]; ok {
				if found[topic] == nil {
					found[topic] = map[int32]kgo.EpochOffset{}
				}
				found[topic][partition] = kgo.EpochOffset{Epoch: -1, Offset: offset}
			}
		}
	}
	return found
}

func (p *positions) forget(lost map[string][]int32) {
	p.Lock()
	defer p.Unlock()
	for topic, partitions := range lost {
		for _, partition := range partitions {
			delete(p.next[topic], partition)
		}
	}
}

func pairs(partitions map[string][]int32) [][]any {
	found := [][]any{}
	for topic, numbers := range partitions {
		sort.Slice(numbers, func(i, j int) bool { return numbers[i] < numbers[j] })
		for _, number := range numbers {
			found = append(found, []any{topic, number})
		}
	}
	return found
}

// commit commits the positions of partitions and returns true if the broker accepted all of them.
func commit(client *kgo.Client, p *positions, partitions map[string][]int32) bool {
	offsets := p.of(partitions)
	if len(offsets) == 0 {
		return true
	}
	var failed error
	client.CommitOffsetsSync(context.Background(), offsets, func(
		_ *kgo.Client, _ *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error,
	) {
		failed = err
		if response == nil {
			return
		}
		for _, topic := range response.Topics {
			for _, each := range topic.Partitions {
				if e := kerr.ErrorForCode(each.ErrorCode); e != nil {
					failed = e
				}
			}
		}
	})
	if failed != nil {
		emit("commit_failed", fields{"error": failed.Error()})
		return false
	}
	committed := [][]any{}
	for topic, each := range offsets {
		for partition, at := range each {
			committed = append(committed, []any{topic, partition, at.Offset})
		}
	}
	emit("committed", fields{"offsets": committed})
	return true
}

// words returns the words that the test sends; the end of the standard input means leave.
func words() <-chan string {
	read := make(chan string, 16)
	go func() {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			read <- lines.Text()
		}
		read <- "leave"
	}()
	return read
}

func main() {
	var given settings
	if err := json.Unmarshal([]byte(os.Args[1]), &given); err != nil {
		panic(err)
	}
	held := &positions{next: map[string]map[int32]int64{}}
	type partitions = map[string][]int32
	client, err := kgo.NewClient(
		kgo.SeedBrokers(given.Bootstrap),
		kgo.ClientID(given.Name),
		kgo.ConsumerGroup(given.Group),
		kgo.ConsumeTopics(given.Topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.ServerSideBalancer(),
		kgo.Balancers(kgo.StickyBalancer()), // the server's assignor: uniform
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.FetchMaxWait(100*time.Millisecond),
		kgo.MetadataMinAge(100*time.Millisecond),
		kgo.MetadataMaxAge(time.Second),
		kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelInfo, nil)),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, added partitions) {
			emit("assigned", fields{"partitions": pairs(added)})
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, c *kgo.Client, revoked partitions) {
			commit(c, held, revoked)
			held.forget(revoked)
			emit("revoked", fields{"partitions": pairs(revoked)})
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, lost partitions) {
			held.forget(lost)
			emit("lost", fields{"partitions": pairs(lost)})
		}),
	)
	if err != nil {
		panic(err)
	}
	emit("started", nil)
	commands := words()
	for word := ""; word != "leave"; {
		polling, stop := context.WithTimeout(context.Background(), 50*time.Millisecond)
		fetches := client.PollFetches(polling)
		stop()
		fetches.EachError(func(_ string, _ int32, err error) {
			if err != context.DeadlineExceeded {
				emit("error", fields{"error": err.Error()})
			}
		})
		fetches.EachRecord(held.consumed)
		client.AllowRebalance()
		select {
		case word = <-commands:
			if word == "commit" && commit(client, held, held.all()) {
				emit("commit_done", nil)
			}
		default:
		}
	}
	client.CloseAllowingRebalance()
	emit("left", nil)
}
