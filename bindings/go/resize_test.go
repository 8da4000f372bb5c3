// SPDX-License-Identifier: Apache-2.0

package kvcache

import (
	"errors"
	"testing"
)

func TestPoolsHaveRoomOfTheirOwn(t *testing.T) {
	m, err := New(Config{Pools: []uint64{4, 2}, BlockSize: 4, Groups: []Group{{}, {Pool: 1}}, MaxBlocks: []uint64{4, 6}})
	must(t, err)
	defer m.Close()
	_, err = m.Resize(1, 6)
	must(t, err)
	if info, err := m.PoolInfo(1); err != nil || info.FirstBlock != 4 || info.NumBlocks != 6 {
		t.Fatal(info, err)
	}
	if _, err := New(Config{NumBlocks: 4, MaxBlocks: []uint64{8, 8}}); !errors.Is(err, ErrInvalidArgument) {
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
