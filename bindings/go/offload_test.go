// SPDX-License-Identifier: Apache-2.0

package kvcache

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var lifePages = PageConfig{Model: []byte("a model"), Weights: []byte("of May")}

// life is a manager with its storage, and an offload to a tier.
type life struct {
	t       *testing.T
	m       *Manager
	s       *Storage
	tier    *Tier
	offload *Offload
}

func newLife(t *testing.T, url string, policy OffloadPolicy) *life {
	t.Helper()
	l := &life{t: t, m: newManager(t, Config{NumBlocks: 16, BlockSize: 4, EventCapacity: 256}), s: lifeStorage(t, 16)}
	info, err := l.s.PageInfo(lifePages)
	must(t, err)
	l.tier, err = OpenTier(TierConfig{URL: url, PageBytes: info.PageBytes, Fingerprint: info.Fingerprint})
	must(t, err)
	t.Cleanup(func() { l.tier.Close() })
	l.offload, err = NewOffload(l.m, OffloadConfig{Storages: []*Storage{l.s}, Tiers: []*Tier{l.tier}, Pages: lifePages, Policy: policy})
	must(t, err)
	t.Cleanup(func() { l.offload.Close() })
	return l
}

func lifeStorage(t *testing.T, blocks uint64) *Storage {
	t.Helper()
	s, err := NewStorage(StorageConfig{NumBlocks: blocks, NumLayers: 2, NumHeads: 2, HeadDim: 8, BlockSize: 4, DType: Float32})
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// compute admits a prompt, stores rows for it that follow from its tokens, and publishes them.
func compute(t *testing.T, m *Manager, s *Storage, tokens []int32, options *RequestOptions) []float32 {
	t.Helper()
	r, _, err := m.AllocateRequest(tokens, options)
	must(t, err)
	rows := make([]float32, 2*len(tokens)*2*8)
	for i := range rows {
		rows[i] = float32(tokens[0]) + float32(i)/8
	}
	slots := make([]int64, len(tokens))
	must(t, m.Slots(r, 0, 0, slots))
	must(t, s.Store(0, 2, rows, rows, slots))
	must(t, m.CommitTokens(r, len(tokens)))
	must(t, m.FreeRequest(r))
	return rows
}

// stored is what a storage has for the first tokens of a request, of the first layer.
func stored(t *testing.T, m *Manager, s *Storage, r Request, tokens int) []float32 {
	t.Helper()
	k, slots := make([]float32, tokens*2*8), make([]int64, tokens)
	must(t, m.Slots(r, 0, 0, slots))
	must(t, s.Gather(0, 1, k, make([]float32, len(k)), slots))
	return k
}

func (l *life) until(done func() bool) {
	l.t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		must(l.t, l.offload.Poll(0))
		if done() {
			return
		}
		if time.Now().After(end) {
			l.t.Fatal("a minute is over")
		}
		must(l.t, l.offload.Wait(10*time.Millisecond))
	}
}

func (l *life) settle() {
	l.t.Helper()
	l.until(func() bool {
		stats, err := l.offload.Stats()
		must(l.t, err)
		return stats.WaitingBlocks == 0 && stats.BusyPages == 0
	})
}

func (l *life) load(r Request) (info OffloadInfo) {
	l.t.Helper()
	must(l.t, l.offload.Lookup(r, 0))
	l.until(func() bool {
		var err error
		info, err = l.offload.Query(r)
		must(l.t, err)
		return info.State == OffloadReady
	})
	return info
}

func TestWhatWasEvictedComesBack(t *testing.T) {
	l := newLife(t, "memory:?bytes=1MiB", OffloadWriteThrough)
	prompt := sequence(100, 21)
	rows := compute(t, l.m, l.s, prompt, nil)
	l.settle()
	must(t, l.m.ResetAll())
	must(t, l.s.ZeroBlocks([]int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}))
	r, err := l.m.CreateRequest(prompt, nil)
	must(t, err)
	info := l.load(r)
	if info.Reason != OffloadLoaded || info.NumCached != 0 || info.NumFound != 20 || info.NumLoaded != 20 {
		t.Fatalf("%+v", info)
	}
	cached, err := l.m.AdmitRequest(r)
	must(t, err)
	equal(t, cached, 20)
	equal(t, stored(t, l.m, l.s, r, 20), rows[:20*2*8])
	stats, err := l.offload.Stats()
	must(t, err)
	tier, err := l.offload.TierStats(0)
	must(t, err)
	if stats.PublishedBlocks != 5 || stats.LoadedTokens != 20 || stats.Loads != 1 || tier.StoredPages != 5 || tier.LoadedPages != 5 || tier.Hits != 5 {
		t.Fatalf("%+v %+v", stats, tier)
	}
}

func TestAPreemptedRequestIsStoredAndComesBack(t *testing.T) {
	l := newLife(t, "memory:?bytes=1MiB", 0)
	r, _, err := l.m.AllocateRequest(sequence(0, 21), nil)
	must(t, err)
	must(t, l.m.CommitTokens(r, 21))
	blocks, err := l.offload.StoreRequest(r)
	must(t, err)
	equal(t, blocks, uint64(5))
	l.settle()
	must(t, l.m.PreemptRequest(r))
	must(t, l.m.ResetAll())
	equal(t, l.load(r).NumLoaded, uint64(20))
	must(t, l.offload.Cancel(r))
	info, err := l.offload.Query(r)
	must(t, err)
	equal(t, info.State, OffloadNone)
}

func TestATierIsItsOffloadsUntilThatIsClosed(t *testing.T) {
	l := newLife(t, "memory:?bytes=1MiB", OffloadWriteThrough)
	if _, err := l.tier.Exists(make([][32]byte, 1), nil); !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "is an Offload's") {
		t.Fatal(err)
	}
	if err := l.tier.Drain(); !errors.Is(err, ErrBusy) {
		t.Fatal(err)
	}
	config := OffloadConfig{Storages: []*Storage{l.s}, Tiers: []*Tier{l.tier}, Pages: lifePages}
	if _, err := NewOffload(l.m, config); !errors.Is(err, ErrBusy) {
		t.Fatal(err)
	}
	_, err := l.tier.Stats()
	must(t, err)
	must(t, l.offload.Close())
	must(t, l.offload.Close())
	_, err = l.tier.Exists(make([][32]byte, 1), nil)
	must(t, err)
	again, err := NewOffload(l.m, config)
	must(t, err)
	must(t, again.Close())
}

func TestWrongUseOfOffloadsIsNamed(t *testing.T) {
	l := newLife(t, "memory:?bytes=1MiB", 0)
	must(t, l.offload.Close())
	silent := newManager(t, Config{NumBlocks: 16, BlockSize: 4})
	closed := newManager(t, Config{NumBlocks: 16, BlockSize: 4})
	must(t, closed.Close())
	good := OffloadConfig{Storages: []*Storage{l.s}, Tiers: []*Tier{l.tier}, Pages: lifePages}
	for text, change := range map[string]func(m **Manager, c *OffloadConfig){
		"Storages has 2 elements; it needs 1":  func(_ **Manager, c *OffloadConfig) { c.Storages = []*Storage{l.s, l.s} },
		"Storages[0] is nil":                   func(_ **Manager, c *OffloadConfig) { c.Storages = []*Storage{nil} },
		"PageSizes has 0 elements; it needs 1": func(_ **Manager, c *OffloadConfig) { c.Storages = nil },
		"Tiers[0] is nil":                      func(_ **Manager, c *OffloadConfig) { c.Tiers = []*Tier{nil} },
		"num_tiers is 0":                       func(_ **Manager, c *OffloadConfig) { c.Tiers = nil },
		"the tier is an Offload's":             func(_ **Manager, c *OffloadConfig) { c.Tiers = []*Tier{l.tier, l.tier} },
		"Timeout is -1ns":                      func(_ **Manager, c *OffloadConfig) { c.Timeout = -1 },
		"policy is 64":                         func(_ **Manager, c *OffloadConfig) { c.Policy = 64 },
		"model":                                func(_ **Manager, c *OffloadConfig) { c.Pages.Model = nil },
		"event_capacity":                       func(m **Manager, _ *OffloadConfig) { *m = silent },
		"kvcache: closed":                      func(m **Manager, _ *OffloadConfig) { *m = closed },
	} {
		m, config := l.m, good
		change(&m, &config)
		if _, err := NewOffload(m, config); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", text, err)
		}
		_, err := l.tier.Exists(make([][32]byte, 1), nil) // given back
		must(t, err)
	}
	o, err := NewOffload(l.m, good)
	must(t, err)
	defer o.Close()
	for text, err := range map[string]error{"timeout is -1ns": o.Wait(-1), "tier is 7": second(o.TierStats(7))} {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestOffloadsEndInAnyOrder(t *testing.T) {
	before := atomic.LoadInt64(&liveObjects)
	for order := 0; order < 24; order++ {
		l := newLife(t, "memory:?bytes=1MiB", OffloadWriteThrough)
		compute(t, l.m, l.s, sequence(order, 40), nil)
		must(t, l.offload.Poll(0)) // stores are on the way
		all, left := []func() error{l.m.Close, l.s.Close, l.tier.Close, l.offload.Close}, order
		for n := 4; n > 0; n-- {
			at := left % n
			left /= n
			must(t, all[at]())
			all = append(all[:at:at], all[at+1:]...)
		}
		if err := l.offload.Poll(0); err != ErrClosed {
			t.Fatal(err)
		}
	}
	equal(t, atomic.LoadInt64(&liveObjects), before)
}

func TestAnOffloadThatIsForgottenEnds(t *testing.T) {
	before := atomic.LoadInt64(&liveObjects)
	func() {
		m, err := New(Config{NumBlocks: 16, BlockSize: 4, EventCapacity: 16})
		must(t, err)
		s, err := NewStorage(StorageConfig{NumBlocks: 16, NumLayers: 2, NumHeads: 2, HeadDim: 8, BlockSize: 4})
		must(t, err)
		info, err := s.PageInfo(lifePages)
		must(t, err)
		tier, err := OpenTier(TierConfig{URL: "memory:?bytes=1MiB", PageBytes: info.PageBytes, Fingerprint: info.Fingerprint})
		must(t, err)
		o, err := NewOffload(m, OffloadConfig{Storages: []*Storage{s}, Tiers: []*Tier{tier}, Pages: lifePages, Policy: OffloadWriteThrough})
		must(t, err)
		must(t, o.Poll(0))
		equal(t, atomic.LoadInt64(&liveObjects), before+4)
	}()
	equal(t, collect(func() bool { return atomic.LoadInt64(&liveObjects) <= before }), true)
}

func TestClosingBesideCallsOfAnOffload(t *testing.T) {
	for round := 0; round < 20; round++ {
		l := newLife(t, "memory:?bytes=1MiB", OffloadWriteThrough)
		r, err := l.m.CreateRequest(sequence(0, 30), nil)
		must(t, err)
		var all sync.WaitGroup
		use := func(call func() error) {
			all.Add(1)
			go func() {
				defer all.Done()
				for {
					if err := call(); err == ErrClosed {
						return
					} else if err != nil && !errors.Is(err, ErrBusy) {
						t.Error(err)
						return
					}
				}
			}()
		}
		use(func() error { return l.offload.Poll(0) })
		use(func() error { return l.offload.Lookup(r, 0) })
		use(func() error { return l.offload.Wait(time.Millisecond) })
		use(func() error { return second(l.offload.Query(r)) })
		use(func() error { // what is made while another goroutine closes what it uses
			o, err := NewOffload(l.m, OffloadConfig{Storages: []*Storage{l.s}, Tiers: []*Tier{l.tier}, Pages: lifePages})
			if err == nil {
				err = o.Close()
			}
			return err
		})
		time.Sleep(time.Duration(round%5) * 100 * time.Microsecond)
		closers := []func() error{l.m.Close, l.s.Close, l.tier.Close, l.offload.Close}
		for i := range closers {
			all.Add(1)
			go func(end func() error) { defer all.Done(); end() }(closers[(i+round)%4])
		}
		all.Wait()
	}
}

func TestInspectPageFileReadsASlab(t *testing.T) {
	path := t.TempDir() + "/slab"
	tier := openTier(t, "slab:"+path+"?bytes=1MiB")
	keys, pages := randomPages(1, 5)
	_, err := tier.Put(keys, pages, nil)
	must(t, err)
	must(t, tier.Close())
	info, err := InspectPageFile(path, true)
	must(t, err)
	if info.Kind != PageFileSlab || info.NumPages != 5 || info.StoredBytes != 5*tierPage || info.PageBytes != tierPage || info.BadPages != 0 || info.Fingerprint != [32]byte{1} {
		t.Fatalf("%+v", info)
	}
	if _, err := InspectPageFile(path+"x", false); !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
}

// The blocks of a prompt go to a tier when they are published, and come back to a manager that has lost them.
func ExampleOffload() {
	m, _ := New(Config{NumBlocks: 64, EventCapacity: 1024})
	defer m.Close()
	storage, _ := NewStorage(StorageConfig{NumBlocks: 64, NumLayers: 2, NumHeads: 4, HeadDim: 32})
	defer storage.Close()
	pages := PageConfig{Model: []byte("my-model"), Weights: []byte("weights of May")}
	info, _ := storage.PageInfo(pages)
	tier, _ := OpenTier(TierConfig{URL: "memory:?bytes=64MiB", PageBytes: info.PageBytes, Fingerprint: info.Fingerprint})
	defer tier.Close()
	offload, err := NewOffload(m, OffloadConfig{Storages: []*Storage{storage}, Tiers: []*Tier{tier}, Pages: pages, Policy: OffloadWriteThrough})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer offload.Close()

	prompt := sequence(1000, 100)
	request, _, _ := m.AllocateRequest(prompt, nil)
	m.CommitTokens(request, len(prompt)) // published
	m.FreeRequest(request)
	for stats := (OffloadStats{WaitingBlocks: 1}); stats.WaitingBlocks+stats.BusyPages != 0; stats, _ = offload.Stats() {
		offload.Poll(0) // in the engine's loop
	}
	m.ResetAll() // all is lost

	request, _ = m.CreateRequest(prompt, nil)
	offload.Lookup(request, 0)
	for state := OffloadLooking; state != OffloadReady && state != OffloadNone; {
		offload.Poll(0)
		offload.Wait(time.Millisecond) // or serve other requests
		found, _ := offload.Query(request)
		state = found.State
	}
	cached, _ := m.AdmitRequest(request)
	fmt.Println(cached, "tokens came back")
	// Output: 96 tokens came back
}
