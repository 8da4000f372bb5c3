// SPDX-License-Identifier: Apache-2.0

package kvcache

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestPublisherGivesBatches(t *testing.T) {
	m, err := New(Config{NumBlocks: 16, BlockSize: 4, EventCapacity: 64})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	p, err := NewPublisher(m, PublisherConfig{Medium: "CPU", Arrays: true})
	if err != nil {
		t.Fatal(err)
	}
	if batches, err := p.Poll(); err != nil || batches != 1 {
		t.Fatalf("%d batches, %v; want the one that clears", batches, err)
	}
	request, _, err := m.AllocateRequest([]int32{1, 2, 3, 4, 5, 6, 7, 8}, nil)
	if err == nil {
		err = m.CommitTokens(request, 8)
	}
	if err != nil {
		t.Fatal(err)
	}
	if batches, err := p.Poll(); err != nil || batches != 1 {
		t.Fatalf("%d batches, %v; want 1", batches, err)
	}
	number, batch, err := p.Read(1)
	if err != nil || number != 1 || !bytes.Contains(batch, []byte("BlockStored")) || !bytes.Contains(batch, []byte("CPU")) {
		t.Fatalf("batch %d is %q, %v", number, batch, err)
	}
	if _, _, err := p.Read(2); !errors.Is(err, ErrNotFound) {
		t.Errorf("Read of a batch to come: %v", err)
	}
	if err := p.Resync(); err != nil {
		t.Error(err)
	}
	if err := p.NameNamespace(0, NamespaceNames{LoraName: "sql"}); err != nil {
		t.Error(err)
	}
	if _, err := p.Poll(); err != nil {
		t.Error(err)
	}
	stats, err := p.Stats()
	if err != nil || stats.NextSequence != 3 || stats.StoredBlocks != 4 || stats.Resyncs != 2 {
		t.Errorf("%+v, %v", stats, err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if err := p.Close(); err != nil {
		t.Error("closing again: ", err)
	}
	if _, err := p.Poll(); err != ErrClosed {
		t.Errorf("Poll of a closed publisher: %v", err)
	}
}

func TestPublisherRefusesWithAText(t *testing.T) {
	m, err := New(Config{NumBlocks: 16, BlockSize: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if _, err := NewPublisher(m, PublisherConfig{}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("no events: %v", err)
	}
	if _, err := NewPublisher(m, PublisherConfig{Interval: -1}); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("a negative interval: %v", err)
	}
}

// publisher makes one of a manager of its own, with any configuration.
func (f *fuzzer) publisher(use func(*Publisher) error) error {
	m, err := New(Config{NumBlocks: 16, BlockSize: 4, EventCapacity: f.oneOf(0, 8, 64)})
	if err != nil {
		return err
	}
	defer m.Close()
	p, err := NewPublisher(m, PublisherConfig{URL: []string{"", "", "", "nothere:x", "x"}[f.Intn(5)], Topic: f.text(), Medium: f.text(), Hash: PublisherHash(f.small(3)),
		HashSeed: f.text(), Thread: f.Intn(3) == 0, Arrays: f.Intn(2) == 0, BytesHashes: f.Intn(2) == 0, NoRank: f.Intn(2) == 0, NoGroups: f.Intn(2) == 0,
		Rank: uint32(f.oneOf(0, 1, 1<<31)), Groups: f.oneOf(0, 1, 2), MaxBlocks: uint32(f.oneOf(0, 1, 5, 1<<31)), ReplayBatches: uint32(f.oneOf(0, 1, 1<<31)),
		ReplayBytes: f.oneOf(0, 1<<20, 1), Interval: time.Duration(f.oneOf(0, 1, 1<<40)), ResyncInterval: time.Duration(f.small(3))})
	if err != nil {
		return err
	}
	defer p.Close()
	request, _, err := m.AllocateRequest([]int32{1, 2, 3, 4, 5, 6, 7, 8}, nil)
	if err == nil {
		err = m.CommitTokens(request, 8)
	}
	if err != nil || use == nil {
		return err
	}
	return use(p)
}

func (f *fuzzer) text() string {
	return []string{"", "kv@pod", "a\x00b", strings.Repeat("x", 300)}[f.Intn(4)]
}
