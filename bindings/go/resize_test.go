// SPDX-License-Identifier: Apache-2.0

package kvcache

import (
	"errors"
	"testing"
)

func TestAPoolGrowsAndShrinks(t *testing.T) {
	m, err := New(Config{NumBlocks: 4, BlockSize: 4, MaxBlocks: []uint64{8}})
	must(t, err)
	defer m.Close()
	low, _, err := m.AllocateRequest(count(8), nil)
	must(t, err)
	high, _, err := m.AllocateRequest([]int32{50, 51, 52, 53, 54, 55, 56, 57}, nil)
	must(t, err)
	if moves, err := m.Resize(0, 8); err != nil || len(moves) != 0 {
		t.Fatal(moves, err)
	}
	if info, err := m.PoolInfo(0); err != nil || info.NumBlocks != 8 || info.MaxBlocks != 8 || info.Free != 4 {
		t.Fatal(info, err)
	}
	if p, err := m.Properties(); err != nil || p.NumBlocks != 4 || p.MaxBlocks != 8 {
		t.Fatal(p, err)
	}
	must(t, m.FreeRequest(low))
	moves, err := m.Resize(0, 2)
	must(t, err)
	table, err := m.BlockTable(high, 0)
	must(t, err)
	if len(moves) != 2 {
		t.Fatal(moves)
	}
	for _, move := range moves {
		if table[move.Source-2] != move.Destination {
			t.Fatal(moves, table)
		}
	}
	if _, err := m.Resize(0, 1); !errors.Is(err, ErrNoSpace) {
		t.Fatal(err)
	}
	if _, err := m.Resize(0, 9); !errors.Is(err, ErrInvalidArgument) {
		t.Fatal(err)
	}
	must(t, m.Check())
	if _, err := New(Config{NumBlocks: 4, MaxBlocks: []uint64{8, 8}}); !errors.Is(err, ErrInvalidArgument) {
		t.Fatal(err)
	}
}

func TestPoolsHaveRoomOfTheirOwn(t *testing.T) {
	m, err := New(Config{Pools: []uint64{4, 2}, BlockSize: 4, Groups: []Group{{}, {Pool: 1}}, MaxBlocks: []uint64{4, 6}})
	must(t, err)
	defer m.Close()
	_, err = m.Resize(1, 6)
	must(t, err)
	if info, err := m.PoolInfo(1); err != nil || info.FirstBlock != 4 || info.NumBlocks != 6 {
		t.Fatal(info, err)
	}
}

func TestAnAdmissionHasHeadroomForWhatEndedRequestsGot(t *testing.T) {
	m, err := New(Config{NumBlocks: 64, BlockSize: 4, Headroom: true})
	must(t, err)
	defer m.Close()
	r, _, err := m.AllocateRequest(count(4), nil)
	must(t, err)
	must(t, m.AppendTokens(r, count(10)))
	must(t, m.FreeRequest(r))
	if tokens, err := m.ExpectedTokens(HeadroomBalanced, 4); err != nil || tokens != 6 {
		t.Fatal(tokens, err)
	}
	r, _, err = m.AllocateRequest(count(4), &RequestOptions{Headroom: HeadroomMinimal})
	must(t, err)
	if info, err := m.RequestInfo(r); err != nil || info.Capacity != 14 {
		t.Fatal(info, err)
	}
	if _, err := m.ExpectedTokens(4, 0); !errors.Is(err, ErrInvalidArgument) {
		t.Fatal(err)
	}
}

func TestMemoryOfUnusedBlocksGoesBack(t *testing.T) {
	s, err := NewStorage(StorageConfig{NumBlocks: 64, NumLayers: 1, NumHeads: 2, HeadDim: 128, BlockSize: 16, DType: Float32})
	must(t, err)
	defer s.Close()
	if bytes, err := s.DiscardBlocks(0, 64); err != nil || bytes < 62*2*16*2*128*4 {
		t.Fatal(bytes, err)
	}
	if _, err := s.DiscardBlocks(60, 5); !errors.Is(err, ErrInvalidArgument) {
		t.Fatal(err)
	}
}
