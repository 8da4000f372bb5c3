// SPDX-License-Identifier: Apache-2.0

package kvcache

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
)

// index makes one with a worker 1, fuzzed settings and some events, and uses it.
func (f *fuzzer) index(use func(*Index) error) error {
	i, err := NewIndex(IndexConfig{MaxBlocks: f.oneOf(9, 100, 1), MaxWorkers: uint32(f.oneOf(3, 1, 2000)), NumMedia: uint32(f.oneOf(2, 1, 9)), TTLNs: f.number()})
	if err != nil {
		return err
	}
	defer i.Close()
	if use == nil {
		return nil
	}
	if err := i.AddWorker(1, "", 0); err != nil {
		return err
	}
	if _, err := i.Apply(1, 0, []Event{{Kind: 1}, {Kind: 1, Sequence: 1, Digest: [32]byte{1}}}, 0); err != nil {
		return err
	}
	return use(i)
}

func (f *fuzzer) root() *[32]byte {
	if f.Intn(2) == 0 {
		return nil
	}
	return &[32]byte{byte(f.Intn(256))}
}

func serve(t *testing.T, m *Manager, tokens []int32, options *RequestOptions) {
	r, _, err := m.AllocateRequest(tokens, options)
	must(t, err)
	must(t, m.CommitTokens(r, len(tokens)))
	must(t, m.FreeRequest(r))
}

func follow(t *testing.T, i *Index, worker uint64, m *Manager) IndexApplied {
	events := make([]Event, 64)
	count, _, err := m.Events(0, events, nil)
	must(t, err)
	applied, err := i.Apply(worker, 0, events[:count], 0)
	must(t, err)
	return applied
}

func TestIndexHasWhatTheManagersHave(t *testing.T) {
	prompt := make([]int32, 64)
	for i := range prompt {
		prompt[i] = int32(i)
	}
	index, err := NewIndex(IndexConfig{NumMedia: 2, TTLNs: 10})
	must(t, err)
	defer index.Close()
	for worker, tokens := range map[uint64][]int32{7: prompt, 9: prompt[:32]} {
		m, err := New(Config{NumBlocks: 64, BlockSize: 16, EventCapacity: 100})
		must(t, err)
		defer m.Close()
		serve(t, m, tokens, nil)
		must(t, index.AddWorker(worker, "engine", 3))
		if applied := follow(t, index, worker, m); applied.Applied != uint64(len(tokens)/16) || applied.IsStale() {
			t.Fatal(applied)
		}
		digests, err := m.PositionDigests(0, tokens, nil)
		must(t, err)
		own, err := PrefixDigests(nil, tokens, 16)
		must(t, err)
		if !reflect.DeepEqual(digests, own) {
			t.Fatal("other digests than the manager's")
		}
	}
	matches, err := index.MatchTokens(nil, prompt, 16)
	must(t, err)
	found := map[uint64]IndexMatch{}
	for _, match := range matches {
		found[match.Worker] = match
	}
	if want := map[uint64]IndexMatch{7: {7, 4, []uint32{4, 0}}, 9: {9, 2, []uint32{2, 0}}}; !reflect.DeepEqual(found, want) {
		t.Fatal(found)
	}
	worker, err := index.Worker(7)
	must(t, err)
	if want := (IndexWorker{"engine", 3, []uint64{4, 0}, []uint64{4, 0}, []bool{false, false}}); !reflect.DeepEqual(worker, want) {
		t.Fatal(worker)
	}
	dump, err := index.Dump()
	must(t, err)
	other, err := NewIndex(IndexConfig{NumMedia: 2})
	must(t, err)
	defer other.Close()
	must(t, other.Load(dump))
	again, err := other.Dump()
	must(t, err)
	if !bytes.Equal(dump, again) {
		t.Fatal("the dump came back as another one")
	}
	if err := other.Load(dump); !errors.Is(err, ErrBusy) {
		t.Fatal(err)
	}
	must(t, index.TouchWorker(9, 12))
	if removed, err := index.Expire(15); err != nil || removed != 1 {
		t.Fatal(removed, err)
	}
	if workers, err := index.Workers(); err != nil || !reflect.DeepEqual(workers, []uint64{9}) {
		t.Fatal(workers, err)
	}
	if stats, err := index.Stats(); err != nil || stats.ExpiredWorkers != 1 || stats.NumBlocks != 2 {
		t.Fatal(stats, err)
	}
}

func TestIndexIsMendedByAList(t *testing.T) {
	m, err := New(Config{NumBlocks: 64, BlockSize: 4, EventCapacity: 100})
	must(t, err)
	defer m.Close()
	prompt := make([]int32, 16)
	namespace, err := m.OpenNamespace(Identity{Tenant: []byte("one")})
	must(t, err)
	serve(t, m, prompt, &RequestOptions{Namespace: namespace})
	index, err := NewIndex(IndexConfig{})
	must(t, err)
	defer index.Close()
	must(t, index.AddWorker(1, "", 0))
	events := make([]Event, 64)
	count, _, err := m.Events(2, events, nil)
	must(t, err)
	if applied, err := index.Apply(1, 0, events[:count], 0); err != nil || !applied.IsStale() {
		t.Fatal(applied, err)
	}
	must(t, index.BeginResync(1, AllMedia))
	count, _, cursor, err := m.Prefixes(0, events, nil)
	must(t, err)
	_, err = index.Apply(1, 0, events[:count], 0)
	must(t, err)
	must(t, index.EndResync(1, AllMedia, cursor))
	root, err := NamespaceRoot(nil, nil, []byte("one"))
	must(t, err)
	matches, err := index.MatchTokens(&root, prompt, 4)
	must(t, err)
	if len(matches) != 1 || matches[0].Blocks != 4 {
		t.Fatal(matches)
	}
	must(t, index.RemoveWorker(1))
	if _, err := index.Worker(1); !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
}
