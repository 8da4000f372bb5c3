// SPDX-License-Identifier: Apache-2.0

package kvcache

import (
	"math"
	"os"
	"testing"
	"time"
)

var fuzzPages = PageConfig{Model: []byte("m"), Weights: []byte("w")}

// storages are one for each group.
func (f *fuzzer) storages(m *Manager, s *Storage) []*Storage {
	properties, _ := m.Properties()
	all := make([]*Storage, properties.NumGroups)
	for i := range all {
		all[i] = s
	}
	return all
}

// newOffload is an offload to a tier of its own; a closed one, if the manager has no events.
func (f *fuzzer) newOffload(t *testing.T) (*Tier, *Offload) {
	info, err := f.s.PageInfo(fuzzPages)
	must(t, err)
	tier, err := OpenTier(TierConfig{URL: "memory:?bytes=64KiB", PageBytes: info.PageBytes, Fingerprint: info.Fingerprint})
	must(t, err)
	o, err := NewOffload(f.m, OffloadConfig{Storages: f.storages(f.m, f.s), Tiers: []*Tier{tier}, Pages: fuzzPages, Policy: OffloadPolicy(f.Intn(8)), NumPages: 4})
	if err != nil {
		return tier, f.closedOffload
	}
	return tier, o
}

func (f *fuzzer) checkpoint() CheckpointConfig {
	config := CheckpointConfig{Folder: f.folder, Pages: fuzzPages, NoSync: true, KeepLast: uint32(f.oneOf(1, 1, 2, 3, f.number()))}
	switch f.Intn(8) {
	case 0:
		config.Folder = []string{"", f.folder + "/nowhere/at/all", "\x00", "/proc/self/mem"}[f.Intn(4)]
	case 1:
		config.Pages = f.pageConfig()
	case 2:
		config.Codec, config.Level = []string{"none", "absent", "a b", "\x00"}[f.Intn(4)], int32(f.number())
	case 3:
		config.ID, config.Interval, config.LastNs, config.NowNs = f.number(), time.Duration(f.number()), f.number(), f.number()
	case 4:
		config.Full, config.Increment, config.BytesElsewhere = f.Intn(2) == 0, f.Intn(2) == 0, f.Intn(2) == 0
	}
	config.Requests = f.Intn(2) == 0
	return config
}

func (f *fuzzer) offloadCalls(t *testing.T) map[string]func() error {
	first := func(_ any, err error) error { return err }
	id := func() uint64 { return f.oneOf(0, 0, f.number()) }
	return map[string]func() error{
		"NewOffload": func() error {
			info, err := f.s.PageInfo(fuzzPages)
			if err != nil {
				return err
			}
			tier, err := OpenTier(TierConfig{URL: "memory:?bytes=64KiB", PageBytes: info.PageBytes, Fingerprint: info.Fingerprint})
			must(t, err)
			defer tier.Close()
			config := OffloadConfig{Storages: f.storages(f.m, f.s), Tiers: []*Tier{tier}, Pages: fuzzPages, Policy: OffloadPolicy(f.oneOf(0, 7, f.number())),
				NumPages: uint32(f.oneOf(0, 4, 8, f.number()&0xffff)), CleanBlocks: f.uint32(), Timeout: time.Duration(f.oneOf(0, f.number())),
				Hold: time.Duration(f.oneOf(0, f.number())), ComputeNsPerToken: []float64{0, 1e9, math.NaN(), -1}[f.Intn(4)], NoPromote: f.Intn(2) == 0,
				MinLoadTokens: f.oneOf(0, f.number()), Retry: time.Duration(f.oneOf(0, f.number()))}
			switch f.Intn(6) {
			case 0:
				config.Storages = slice(f, f.Intn(4), func() *Storage { return []*Storage{f.s, f.closedS, nil}[f.Intn(3)] })
			case 1:
				config.Tiers = slice(f, f.Intn(12), func() *Tier { return []*Tier{tier, f.offloadTier, f.closedTier, nil}[f.Intn(4)] })
			case 2:
				config.Storages, config.PageSizes = nil, slice(f, f.Intn(4), f.number)
			}
			made, err := NewOffload(f.m, config)
			if err == nil {
				err = made.Close()
			}
			return err
		},
		"Manager.SaveCheckpoint": func() error {
			storages := f.storages(f.m, f.s)
			if f.Intn(4) == 0 {
				storages = slice(f, f.Intn(4), func() *Storage { return []*Storage{f.s, f.s, f.closedS, nil}[f.Intn(4)] })
			}
			return first(f.m.SaveCheckpoint(storages, f.checkpoint()))
		},
		"Manager.RestoreCheckpoint": func() error {
			m, err := New(Config{NumBlocks: 12, BlockSize: 4, Hints: true, MaxRequestTokens: 64})
			must(t, err)
			defer m.Close()
			config := f.checkpoint()
			config.BytesElsewhere = f.Intn(4) != 0
			return first(m.RestoreCheckpoint([]*Storage{nil}, config))
		},
		"Checkpoints":        func() error { return first(Checkpoints(f.checkpoint().Folder)) },
		"ReadCheckpointInfo": func() error { return first(ReadCheckpointInfo(f.checkpoint().Folder, id())) },
		"ValidateCheckpoint": func() error { return first(ValidateCheckpoint(f.checkpoint().Folder, id())) },
		"RemoveCheckpoint": func() error {
			info, _ := ReadCheckpointInfo(f.folder, 0)
			return RemoveCheckpoint(f.checkpoint().Folder, f.oneOf(0, info.ID, f.number()))
		},
		"CompactCheckpoint": func() error { return first(CompactCheckpoint(f.checkpoint())) },
		"InspectPageFile": func() error {
			path := f.folder + "/../slab"
			if _, err := os.Stat(path); err != nil {
				tier, err := OpenTier(TierConfig{URL: "slab:" + path + "?bytes=64KiB", PageBytes: 64, Fingerprint: [32]byte{1}})
				must(t, err)
				must(t, tier.Close())
			}
			return first(InspectPageFile([]string{path, "", f.folder, "/dev/null", "\x00"}[f.Intn(5)], f.Intn(2) == 0))
		},
	}
}
