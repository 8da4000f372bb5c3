// SPDX-License-Identifier: Apache-2.0

package kvcache

// How an engine in Go that names requests by strings, counts layer by layer and commits increments moves to this package:
// engineCache is all that it needs. The tests play such an engine's life and the faults that caches of this kind have had.

import (
	"errors"
	"fmt"
	"sync"
	"testing"
)

type engineConfig struct {
	NumBlocks, BlockSize, MaxSeqLen, MaxNumRequests int
}

type engineCache struct {
	m      *Manager
	config engineConfig
	mu     sync.Mutex
	ids    map[string]Request
}

func newEngineCache(config engineConfig) (*engineCache, error) {
	m, err := New(Config{NumBlocks: uint64(config.NumBlocks), BlockSize: uint32(config.BlockSize),
		MaxRequestTokens: uint64(config.MaxSeqLen), MaxRequests: uint64(config.MaxNumRequests)})
	return &engineCache{m: m, config: config, ids: map[string]Request{}}, err
}

func (e *engineCache) find(id string) (Request, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	request, known := e.ids[id]
	if !known {
		return 0, fmt.Errorf("request %q: %w", id, ErrNotFound)
	}
	return request, nil
}

func (e *engineCache) AllocateRequest(id string, tokens []int) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, known := e.ids[id]; known {
		return 0, fmt.Errorf("request %q exists: %w", id, ErrBusy)
	}
	narrow := make([]int32, len(tokens))
	for i, token := range tokens {
		narrow[i] = int32(token)
	}
	request, cached, err := e.m.AllocateRequest(narrow, nil)
	if err == nil {
		e.ids[id] = request
	}
	return cached, err
}

func (e *engineCache) GetComputedBlocks(id string) ([]int32, int, error) { // The same in every layer.
	request, err := e.find(id)
	if err != nil {
		return nil, 0, err
	}
	info, err := e.m.RequestInfo(request)
	if err != nil {
		return nil, 0, err
	}
	table, err := e.m.BlockTable(request, 0)
	if err != nil {
		return nil, 0, err
	}
	computed := int(info.NumCommitted)
	return table[:(computed+e.config.BlockSize-1)/e.config.BlockSize], computed, nil
}

func (e *engineCache) GetBlockForWrite(id string, position int) (block int32, offset int, err error) {
	request, err := e.find(id)
	if err != nil {
		return 0, 0, err
	}
	slot := make([]int64, 1)
	err = e.m.Slots(request, 0, position, slot)
	return int32(int(slot[0]) / e.config.BlockSize), int(slot[0]) % e.config.BlockSize, err
}

func (e *engineCache) NumComputedTokens(id string) (int, error) {
	_, computed, err := e.GetComputedBlocks(id)
	return computed, err
}

func (e *engineCache) CommitTokens(id string, more int) error {
	request, err := e.find(id)
	if err != nil {
		return err
	}
	info, err := e.m.RequestInfo(request)
	if err != nil {
		return err
	}
	return e.m.CommitTokens(request, int(info.NumCommitted)+more)
}

func (e *engineCache) AppendToken(id string, token int) error {
	request, err := e.find(id)
	if err != nil {
		return err
	}
	return e.m.AppendToken(request, int32(token))
}

func (e *engineCache) FreeRequest(id string) error {
	request, err := e.find(id)
	if err != nil {
		return err
	}
	e.mu.Lock()
	delete(e.ids, id)
	e.mu.Unlock()
	return e.m.FreeRequest(request)
}

func newEngine(t *testing.T, blocks int) *engineCache {
	e, err := newEngineCache(engineConfig{NumBlocks: blocks, BlockSize: 4, MaxSeqLen: 64, MaxNumRequests: 3})
	must(t, err)
	t.Cleanup(func() {
		if err := e.m.Check(); err != nil && err != ErrClosed {
			t.Error(err)
		}
		e.m.Close()
	})
	return e
}

func ints(first, count int) []int {
	tokens := make([]int, count)
	for i := range tokens {
		tokens[i] = first + i
	}
	return tokens
}

func TestEngineLivesThroughTwoTurns(t *testing.T) {
	e := newEngine(t, 32)
	cached, err := e.AllocateRequest("a", ints(0, 10))
	must(t, err)
	equal(t, cached, 0)
	must(t, e.CommitTokens("a", 10))
	for i := 0; i < 30; i++ { // Append, then commit: every block that fills is found by the next turn.
		block, offset, err := e.GetBlockForWrite("a", 9+i)
		must(t, err)
		equal(t, offset, (9+i)%4)
		if block < 0 {
			t.Fatal(block)
		}
		must(t, e.AppendToken("a", 10+i))
		must(t, e.CommitTokens("a", 1))
	}
	blocks, computed, err := e.GetComputedBlocks("a")
	must(t, err)
	equal(t, []int{len(blocks), computed}, []int{10, 40})
	must(t, e.FreeRequest("a"))
	usage, err := e.m.Usage()
	must(t, err)
	equal(t, usage, 0.0)
	cached, err = e.AllocateRequest("b", ints(0, 41))
	must(t, err)
	equal(t, cached, 40)
	must(t, e.FreeRequest("b"))
	stats, err := e.m.Stats()
	must(t, err)
	equal(t, stats.PublishedBlocks, uint64(10))
}

func TestEngineFailuresLeaveNothingBehind(t *testing.T) {
	e := newEngine(t, 8)
	_, err := e.AllocateRequest("a", ints(0, 20))
	must(t, err)
	must(t, e.CommitTokens("a", 20))
	before, _ := e.m.Digest()
	for i := 0; i < 3; i++ { // Shares five blocks, needs five more of three: must pin nothing.
		if _, err := e.AllocateRequest("b", ints(0, 40)); !errors.Is(err, ErrNoSpace) {
			t.Fatal(err)
		}
	}
	for i, call := range []func() error{
		func() error { return e.CommitTokens("a", 1) },  // More than there are.
		func() error { return e.CommitTokens("a", -1) }, // Backwards.
		func() error { _, _, err := e.GetBlockForWrite("a", -1); return err },
		func() error { _, _, err := e.GetBlockForWrite("a", 20); return err },
		func() error { _, err := e.AllocateRequest("a", ints(0, 1)); return err },
		func() error { return e.FreeRequest("nobody") },
		func() error { return e.CommitTokens("nobody", 1) },
		func() error { return e.AppendToken("a", -1) },
		func() error { _, err := e.AllocateRequest("c", ints(0, 65)); return err },
	} {
		if call() == nil {
			t.Error("call", i, "succeeded")
		}
	}
	after, _ := e.m.Digest()
	equal(t, after, before)
	must(t, e.FreeRequest("a"))
}

func TestEngineNeverWritesIntoASharedBlock(t *testing.T) {
	e := newEngine(t, 8)
	_, err := e.AllocateRequest("a", ints(0, 8))
	must(t, err)
	must(t, e.CommitTokens("a", 8))
	cached, err := e.AllocateRequest("b", ints(0, 8)) // A full hit recomputes its last block in a block of its own.
	must(t, err)
	equal(t, cached, 4)
	shared, _, err := e.GetBlockForWrite("a", 7)
	must(t, err)
	own, _, err := e.GetBlockForWrite("b", 7)
	must(t, err)
	if own == shared {
		t.Fatal("both write into block", own)
	}
}

func TestEngineCopiesTheCallersTokensAndKeepsLimits(t *testing.T) {
	e := newEngine(t, 32)
	tokens := ints(0, 9)
	_, err := e.AllocateRequest("a", tokens)
	must(t, err)
	tokens[0] = 99 // Must change nothing.
	must(t, e.CommitTokens("a", 9))
	info, err := e.m.Probe(0, sequence(0, 9), nil)
	must(t, err)
	equal(t, info.NumCached, uint64(8))
	for _, id := range []string{"b", "c"} {
		_, err := e.AllocateRequest(id, ints(100, 4))
		must(t, err)
	}
	if _, err := e.AllocateRequest("d", ints(0, 1)); !errors.Is(err, ErrLimit) {
		t.Fatal(err)
	}
	must(t, e.m.Close())
	if _, err := e.AllocateRequest("e", ints(0, 1)); err != ErrClosed {
		t.Fatal(err)
	}
}
