// SPDX-License-Identifier: Apache-2.0

package kvcache

import (
	"bytes"
	"errors"
	"math/rand"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

const tierPage = 4096

func openTier(t *testing.T, url string) *Tier {
	t.Helper()
	tier, err := OpenTier(TierConfig{URL: url, PageBytes: tierPage, Fingerprint: [32]byte{1}})
	must(t, err)
	t.Cleanup(func() { tier.Close() })
	return tier
}

// randomPages are keys and pages of some number.
func randomPages(seed int64, count int) (keys [][32]byte, pages []byte) {
	draw := rand.New(rand.NewSource(seed))
	keys, pages = make([][32]byte, count), make([]byte, count*tierPage)
	for i := range keys {
		draw.Read(keys[i][:])
	}
	draw.Read(pages)
	return
}

func TestTiersGiveBackWhatWasPut(t *testing.T) {
	for _, url := range []string{"memory:?bytes=1MiB", "memory:?bytes=1MiB&threads=0", "dir:" + t.TempDir() + "/d?bytes=8MiB", "slab:" + t.TempDir() + "/s?bytes=8MiB"} {
		tier := openTier(t, url)
		keys, pages := randomPages(1, 20)
		back := make([]byte, len(pages))
		missed, err := tier.Get(keys, back, nil)
		must(t, err)
		equal(t, missed.Results[19], PageMiss)
		put, err := tier.Put(keys, pages, nil)
		must(t, err)
		equal(t, put.NumOK, 20)
		got, err := tier.Get(keys, back, &JobOptions{Timeout: time.Minute, Priority: TierPrefetch})
		must(t, err)
		if got.NumOK != 20 || got.Results[3] != PageOK || !bytes.Equal(back, pages) {
			t.Fatal(url, got)
		}
		part := make([]byte, 20*12)
		got, err = tier.Get(keys, part, &JobOptions{Runs: []Run{{0, 4}, {4000, 8}}})
		must(t, err)
		if got.NumOK != 20 || !bytes.Equal(part[12:16], pages[tierPage:tierPage+4]) || !bytes.Equal(part[16:24], pages[tierPage+4000:tierPage+4008]) {
			t.Fatal(url, got)
		}
		removed, err := tier.Remove(keys[:1], nil)
		must(t, err)
		exists, err := tier.Exists(keys, nil)
		must(t, err)
		if removed.NumOK != 1 || exists.NumOK != 19 || exists.Results[0] != PageMiss {
			t.Fatal(url, removed, exists)
		}
		must(t, tier.Drain())
		counts, err := tier.Counts(TierGet)
		must(t, err)
		stats, err := tier.Stats()
		must(t, err)
		if counts.Jobs != 3 || counts.Items != 60 || counts.OK != 40 || counts.Misses != 20 || stats.Pages != 19 || stats.DoneJobs != 0 {
			t.Fatalf("%+v %+v", counts, stats)
		}
	}
}

func TestLeasesAndGenerationsArePromises(t *testing.T) {
	tier := openTier(t, "memory:?bytes=1MiB")
	keys, pages := randomPages(2, 3)
	_, err := tier.Put(keys, pages, nil)
	must(t, err)
	found, err := tier.Exists(keys, &JobOptions{NowNs: 1000, Lease: time.Second})
	must(t, err)
	if found.LeaseUntilNs[2] < 1000001000 || found.Generations[2] == 0 {
		t.Fatal(found)
	}
	kept, err := tier.Remove(keys, &JobOptions{NowNs: 1001})
	must(t, err)
	equal(t, kept.Results[0], PagePending)
	_, err = tier.Get(keys, pages, &JobOptions{Generations: found.Generations})
	must(t, err)
	_, err = tier.Remove(keys, &JobOptions{NowNs: 1 << 60})
	must(t, err)
	_, err = tier.Put(keys, pages, nil)
	must(t, err)
	gone, err := tier.Get(keys, pages, &JobOptions{Generations: found.Generations})
	must(t, err)
	equal(t, gone.Results[1], PageExpired)
}

func TestGoroutinesShareATier(t *testing.T) {
	tier := openTier(t, "memory:?bytes=1MiB")
	keys, pages := randomPages(3, 64)
	_, err := tier.Put(keys, pages, nil)
	must(t, err)
	var all sync.WaitGroup
	for g := 0; g < 12; g++ {
		all.Add(1)
		go func(g int) {
			defer all.Done()
			draw := rand.New(rand.NewSource(int64(g)))
			for turn := 0; turn < 100; turn++ {
				first := draw.Intn(60)
				back := make([]byte, 4*tierPage)
				got, err := tier.Get(keys[first:first+4], back, &JobOptions{Timeout: time.Duration(g%2) * time.Minute})
				if err != nil || got.NumOK != 4 || !bytes.Equal(back, pages[first*tierPage:(first+4)*tierPage]) {
					t.Error(g, turn, got, err)
					return
				}
				if turn%10 == 0 {
					runtime.GC()
				}
			}
		}(g)
	}
	all.Wait()
}

func TestWhatIsNotBegunInTimeEndsWithTimeout(t *testing.T) {
	tier := openTier(t, "memory:?bytes=1MiB&threads=1")
	keys, pages := randomPages(4, 100)
	var all sync.WaitGroup
	for g := 0; g < 8; g++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for turn := 0; turn < 50; turn++ {
				got, err := tier.Put(keys, pages, &JobOptions{Timeout: time.Nanosecond})
				if err != nil {
					t.Error(err)
				}
				for _, result := range got.Results {
					if result != PageTimeout && result != PageOK && result != PagePending {
						t.Error(result)
					}
				}
			}
		}()
	}
	all.Wait()
}

func TestWrongUseOfTiersIsNamed(t *testing.T) {
	tier := openTier(t, "memory:?bytes=1MiB&jobs=1")
	keys, pages := randomPages(5, 2)
	for text, call := range map[string]func() error{
		"pages has 8191 elements; it needs a multiple of 2": func() error { _, err := tier.Put(keys, pages[1:], nil); return err },
		"keys has no elements":                              func() error { _, err := tier.Get(nil, nil, nil); return err },
		"a job without items":                               func() error { _, err := tier.Exists(nil, nil); return err },
		"Generations has 1 elements; it needs 2":            func() error { _, err := tier.Get(keys, pages, &JobOptions{Generations: make([]uint64, 1)}); return err },
		"pages has 4096 bytes for a page; the runs":         func() error { _, err := tier.Get(keys, pages, &JobOptions{Runs: []Run{{0, 5000}}}); return err },
		"runs[0]":         func() error { _, err := tier.Get(keys, pages, &JobOptions{Runs: []Run{{4090, 7}}}); return err },
		"priority is":     func() error { _, err := tier.Get(keys, pages, &JobOptions{Priority: 9}); return err },
		"Timeout is -1ns": func() error { _, err := tier.Exists(keys, &JobOptions{Timeout: -1}); return err },
		"kind is 7":       func() error { _, err := tier.Counts(7); return err },
		"bytes='much'":    func() error { _, err := OpenTier(TierConfig{URL: "memory:?bytes=much", PageBytes: 1}); return err },
		"page_bytes is 0": func() error { _, err := OpenTier(TierConfig{URL: "memory:?bytes=1MiB"}); return err },
		"Looked for":      func() error { return OpenPlugin("nowhere", "") },
		"malformed":       func() error { return OpenPlugin("No Where", "/tmp") },
	} {
		if err := call(); err == nil || !strings.Contains(err.Error(), text) {
			if text == "malformed" && errors.Is(err, ErrInvalidArgument) {
				continue
			}
			t.Errorf("%q: %v", text, err)
		}
	}
	must(t, tier.Close())
	must(t, tier.Close())
	if _, err := tier.Exists(keys, nil); err != ErrClosed {
		t.Fatal(err)
	}
}

func TestClosingATierWaitsForCalls(t *testing.T) {
	for turn := 0; turn < 20; turn++ {
		tier, err := OpenTier(TierConfig{URL: "memory:?bytes=1MiB", PageBytes: tierPage, Fingerprint: [32]byte{1}})
		must(t, err)
		keys, pages := randomPages(6, 8)
		var all sync.WaitGroup
		for g := 0; g < 4; g++ {
			all.Add(1)
			go func() {
				defer all.Done()
				own := append([]byte{}, pages...)
				for {
					if _, err := tier.Get(keys, own, nil); err == ErrClosed {
						return
					} else if err != nil {
						t.Error(err)
						return
					}
				}
			}()
		}
		must(t, tier.Close())
		all.Wait()
	}
}

func TestTiersLeaveNoDescriptors(t *testing.T) {
	count := func() int {
		files, err := os.ReadDir("/proc/self/fd")
		must(t, err)
		return len(files)
	}
	before := 0
	for turn := 0; turn < 20; turn++ {
		tier, err := OpenTier(TierConfig{URL: "memory:?bytes=1MiB", PageBytes: tierPage, Fingerprint: [32]byte{1}})
		must(t, err)
		_, err = tier.Exists(make([][32]byte, 300), nil)
		must(t, err)
		must(t, tier.Close())
		if turn == 0 {
			before = count()
		}
	}
	equal(t, count(), before)
}

func TestPagesOfAStorageAreKeptInATier(t *testing.T) {
	m := newManager(t, Config{NumBlocks: 8, BlockSize: 4, EventCapacity: 16})
	newStorage := func() *Storage {
		s, err := NewStorage(StorageConfig{NumBlocks: 8, NumLayers: 2, NumHeads: 2, HeadDim: 8, BlockSize: 4, DType: Float16})
		must(t, err)
		t.Cleanup(func() { s.Close() })
		return s
	}
	s, other := newStorage(), newStorage()
	slots, k := make([]int64, 32), make([]float32, 2*32*2*8)
	for i := range slots {
		slots[i] = int64(i)
	}
	for i := range k {
		k[i] = float32(i % 97)
	}
	must(t, s.Store(0, 2, k, k, slots))
	config := PageConfig{Model: []byte("m"), Weights: []byte("w")}
	info, err := s.PageInfo(config)
	must(t, err)
	runs, err := s.PageRuns(config)
	must(t, err)
	if info.PageBytes != 2*2*2*4*8*2 || info.PartBytes != info.PageBytes || len(runs) != 1 || runs[0] != (Run{0, info.PageBytes}) {
		t.Fatal(info, runs)
	}
	digests, err := m.PositionDigests(0, sequence(0, 33), nil)
	must(t, err)
	keys, err := PageKeys(digests, 0, info.Fingerprint)
	must(t, err)
	again, err := PageKeys(digests, 1, info.Fingerprint)
	must(t, err)
	if len(keys) != 8 || keys[0] == keys[1] || keys[0] == again[0] {
		t.Fatal(keys)
	}
	tier, err := OpenTier(TierConfig{URL: "memory:?bytes=1MiB", PageBytes: info.PageBytes, Fingerprint: info.Fingerprint})
	must(t, err)
	defer tier.Close()
	blocks, pages, back := []int32{0, 1, 2, 3, 4, 5, 6, 7}, make([]byte, 8*info.PageBytes), make([]byte, 8*info.PageBytes)
	must(t, s.PackPages(blocks, pages, 0))
	_, err = tier.Put(keys, pages, nil)
	must(t, err)
	got, err := tier.Get(keys, back, nil)
	must(t, err)
	equal(t, got.NumOK, 8)
	must(t, other.UnpackPages(blocks, back, info.PageBytes))
	if !bytes.Equal(s.Slab(), other.Slab()) {
		t.Fatal("another slab")
	}
	if _, err := s.PageInfo(PageConfig{Model: []byte("m")}); !errors.Is(err, ErrInvalidArgument) {
		t.Fatal(err)
	}
	if err := s.PackPages(blocks, pages[1:], 0); !errors.Is(err, ErrInvalidArgument) {
		t.Fatal(err)
	}
}
