// SPDX-License-Identifier: Apache-2.0

package kvcache

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unsafe"
)

func sequence(first, count int) []int32 {
	tokens := make([]int32, count)
	for i := range tokens {
		tokens[i] = int32(first + i)
	}
	return tokens
}

// rounds is how often a test repeats: KVC_TEST_ROUNDS times as often as in the gate. scripts/deep sets it to 5.
func rounds(inTheGate int) int {
	text := os.Getenv("KVC_TEST_ROUNDS")
	if text == "" {
		return inTheGate
	}
	number, err := strconv.Atoi(text)
	if err != nil || number < 1 {
		panic("KVC_TEST_ROUNDS is " + text + "; give a number from 1 on")
	}
	return inTheGate * number
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal(t testing.TB, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}

func newManager(t testing.TB, config Config) *Manager {
	t.Helper()
	m, err := New(config)
	must(t, err)
	t.Cleanup(func() { m.Close() })
	return m
}

func ExampleManager() {
	m, err := New(Config{NumBlocks: 64}) // blocks of 16 tokens
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	prompt := sequence(1000, 40)
	request, cached, _ := m.AllocateRequest(prompt, nil)
	table, _ := m.BlockTable(request, 0)
	fmt.Println(cached, "cached, in blocks", table)
	// ... run the model on prompt[cached:] ...
	m.CommitTokens(request, len(prompt)) // written: others may share it
	m.AppendToken(request, 7)            // one decode step
	m.FreeRequest(request)               // stays cached until evicted
	_, cached, _ = m.AllocateRequest(prompt, nil)
	fmt.Println(cached, "cached")
	// Output:
	// 0 cached, in blocks [0 1 2]
	// 32 cached
}

func ExampleError() {
	m, _ := New(Config{NumBlocks: 1})
	defer m.Close()
	_, _, err := m.AllocateRequest(make([]int32, 40), nil)
	fmt.Println(errors.Is(err, ErrNoSpace), errors.Is(err, ErrNeverFits), errors.Is(err, ErrAgain))
	// Output: true true false
}

func TestTablesHaveACommonPrefix(t *testing.T) {
	m := newManager(t, Config{NumBlocks: 40})
	a, _, err := m.AllocateRequest(sequence(0, 100), nil)
	must(t, err)
	must(t, m.CommitTokens(a, 100))
	b, _, err := m.AllocateRequest(sequence(0, 40), nil)
	must(t, err)
	common, err := m.CommonPrefix([]Request{a, b}, 0)
	must(t, err)
	equal(t, common, uint64(2))
	common, err = m.CommonPrefix(nil, 0)
	must(t, err)
	equal(t, common, uint64(0))
	if _, err = m.CommonPrefix([]Request{a, 99}, 0); !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
}

func TestABatchIsAdmittedWholeOrNotAtAll(t *testing.T) {
	m := newManager(t, Config{NumBlocks: 3})
	wait := func(first, tokens int) Request {
		r, err := m.CreateRequest(sequence(first, tokens), nil)
		must(t, err)
		return r
	}
	a, b, large, never := wait(0, 16), wait(100, 20), wait(200, 30), wait(300, 60)
	refused := func(requests []Request, is error, text string, want ...Status) {
		t.Helper()
		statuses := make([]Status, len(requests))
		cached, err := m.AdmitBatch(requests, statuses)
		if !errors.Is(err, is) || !strings.Contains(err.Error(), text) || cached != nil {
			t.Fatal(cached, err)
		}
		equal(t, statuses, want)
	}
	refused([]Request{a, large, b}, ErrNoSpace, "requests[2]: ", StatusSkipped, StatusSkipped, StatusNoSpace)
	refused([]Request{never, a}, ErrNeverFits, "requests[0]: ", StatusNeverFits, StatusSkipped)
	refused([]Request{a, 99}, ErrNotFound, "requests[1]: ", StatusSkipped, Status(ErrNotFound.Status))
	if _, err := m.AdmitBatch([]Request{a}, make([]Status, 2)); !errors.Is(err, ErrInvalidArgument) {
		t.Fatal(err)
	}
	cached, err := m.AdmitBatch([]Request{a, b}, nil)
	must(t, err)
	equal(t, cached, []uint64{0, 0})
	cached, err = m.AdmitBatch(nil, nil)
	must(t, err)
	equal(t, len(cached), 0)
}

func TestNoSpaceUntilAStepIsRetiredIsNoSpace(t *testing.T) {
	m := newManager(t, Config{NumBlocks: 4})
	s, err := m.NewStep(StepLimits{MaxRequests: 1, MaxFrees: 1, MaxTokens: 1})
	must(t, err)
	r, _, err := m.AllocateRequest(sequence(0, 60), nil)
	must(t, err)
	s.Requests[0], s.NumRequests, s.Committed[0], s.ExtendTokens[0], s.ExtendOffsets[1] = uint64(r), 1, 60, 7, 1
	must(t, s.Run()) // it is in flight
	s.Frees[0], s.NumRequests, s.NumFrees = uint64(r), 0, 1
	must(t, s.Run())
	_, _, err = m.AllocateRequest(sequence(100, 60), nil)
	if !errors.Is(err, ErrNoSpace) || !errors.Is(err, ErrAgain) || errors.Is(err, ErrLimit) || errors.Is(ErrNoSpace, ErrAgain) ||
		errors.Is(err, ErrNeverFits) || errors.Is(ErrNoSpace, ErrNeverFits) {
		t.Fatal(err)
	}
	s.NumFrees, s.RetiredStep = 0, s.StepID
	must(t, s.Run())
	_, _, err = m.AllocateRequest(sequence(100, 60), nil)
	must(t, err)
}

func TestStructsHaveTheLayoutOfC(t *testing.T) {
	for _, value := range []any{logReplay{}, Event{}, ExtraKey{}, BlockCopy{},
		TableChange{}, requestConfig{}, Metrics{}, Run{}, EncoderInput{}, EncoderRun{},
		EndedRequest{}} {
		kind := reflect.TypeOf(value)
		if size, known := sizesInC[kind.Name()]; !known || size != kind.Size() {
			t.Errorf("%s has %d bytes, in C %d", kind.Name(), kind.Size(), size)
		}
	}
	m := newManager(t, Config{NumBlocks: 9})
	stats, err := m.Stats()
	must(t, err)
	if stats.BlocksTotal != 9 || stats.BlocksFree != 9 || stats.MetadataBytes == 0 || stats.size != uint64(unsafe.Sizeof(stats)) {
		t.Errorf("%+v", stats)
	}
}

func TestTheCallersTokensAreCopied(t *testing.T) {
	m, tokens := newManager(t, Config{NumBlocks: 12, BlockSize: 4}), sequence(0, 9)
	r, _, err := m.AllocateRequest(tokens, nil)
	must(t, err)
	tokens[0] = 99
	must(t, m.CommitTokens(r, 9))
	info, err := m.Probe(0, sequence(0, 9), nil)
	must(t, err)
	usage, err := m.Usage()
	must(t, err)
	equal(t, []any{info.NumCached, usage}, []any{uint64(8), 0.25})
}

func TestErrorsCarryStatusAndText(t *testing.T) {
	m := newManager(t, Config{NumBlocks: 4, VocabSize: 100})
	before, _ := m.Digest()
	_, _, err := m.AllocateRequest([]int32{100}, nil)
	var failure *Error
	if !errors.As(err, &failure) || !errors.Is(err, ErrInvalidArgument) || !strings.Contains(err.Error(), "100") {
		t.Fatal(err)
	}
	if err := m.FreeRequest(12345); !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
	if err := m.CommitTokens(12345, -1); err == nil {
		t.Fatal("a negative count was accepted")
	}
	if _, err := New(Config{}); !errors.Is(err, ErrInvalidArgument) {
		t.Fatal(err)
	}
	after, _ := m.Digest()
	equal(t, after, before)
	equal(t, StatusNoSpace.String(), "KVC_ERROR_NO_SPACE")
}

func TestNamespacesPinsAndKeys(t *testing.T) {
	m := newManager(t, Config{NumBlocks: 16, BlockSize: 4})
	a, err := m.OpenNamespace(Identity{Model: []byte("a")})
	must(t, err)
	b, err := m.OpenNamespace(Identity{Model: []byte("a"), Tenant: []byte{}})
	must(t, err)
	if a == b {
		t.Fatal("an empty tenant is none")
	}
	keys := []ExtraKey{{0, 4, [32]byte{1}}}
	r, _, err := m.AllocateRequest(sequence(0, 9), &RequestOptions{Namespace: a, ExtraKeys: keys, Lookahead: 2, UserData: 5})
	must(t, err)
	must(t, m.CommitTokens(r, 9))
	info, _ := m.RequestInfo(r)
	equal(t, []uint64{info.Capacity, info.UserData, info.NamespaceID}, []uint64{11, 5, uint64(a)})
	must(t, m.FreeRequest(r))
	for _, probe := range []struct {
		namespace Namespace
		keys      []ExtraKey
		hit       uint64
	}{{a, keys, 8}, {a, nil, 0}, {b, keys, 0}, {0, keys, 0}} {
		info, err := m.Probe(probe.namespace, sequence(0, 9), probe.keys)
		must(t, err)
		equal(t, info.NumCached, probe.hit)
	}
	pin, pinned, err := m.PinPrefix(a, sequence(0, 8), keys)
	must(t, err)
	equal(t, pinned, 8)
	pins, err := m.Pins()
	must(t, err)
	equal(t, pins, []Pin{pin})
	namespaces, err := m.Namespaces()
	must(t, err)
	equal(t, namespaces, []Namespace{a, b})
	must(t, m.ResetNamespace(0))
	waiting, err := m.CreateRequest(sequence(0, 70), &RequestOptions{Slots: 4})
	must(t, err)
	whole, err := m.Probe(0, sequence(0, 70), nil)
	must(t, err)
	part, err := m.ProbeRequest(waiting)
	must(t, err)
	equal(t, []uint32{whole.Fits, part.Fits}, []uint32{0, 1})
	evicted, err := m.EvictBlocks(-1, 9)
	must(t, err)
	equal(t, evicted, 0)
	must(t, m.Unpin(pin))
	dropped, err := m.DropPrefix(a, sequence(0, 8), keys)
	must(t, err)
	equal(t, dropped, 2)
	must(t, m.CloseNamespace(b))
}

func TestExternalHoldsAndEvents(t *testing.T) {
	m := newManager(t, Config{NumBlocks: 8, BlockSize: 4, EventCapacity: 16})
	blocks := make([]int32, 2)
	must(t, m.AcquireBlocks(0, blocks))
	must(t, m.PublishBlocks(0, 0, sequence(0, 8), nil, blocks))
	held, err := m.AcquirePrefix(0, 0, sequence(0, 8), nil)
	must(t, err)
	equal(t, held, blocks)
	must(t, m.ReleaseBlocks(append(held, blocks...)))
	events, tokens := make([]Event, 8), make([]int32, 64)
	count, next, err := m.Events(0, events, tokens)
	must(t, err)
	equal(t, []any{count, next}, []any{2, uint64(2)})
	equal(t, events[1].ParentDigest, events[0].Digest)
	equal(t, tokens[4:8], sequence(4, 4))
	for _, room := range []struct{ events, tokens int }{{0, 64}, {8, 3}} {
		_, _, err = m.Events(0, events[:room.events], tokens[:room.tokens])
		equal(t, errors.Is(err, ErrInvalidArgument), true)
		_, _, _, err = m.Prefixes(0, events[:room.events], tokens[:room.tokens])
		equal(t, errors.Is(err, ErrInvalidArgument), true)
	}
	listed := make([]Event, 1)
	count, next, cursor, err := m.Prefixes(0, listed, tokens)
	must(t, err)
	equal(t, []any{count, next != 0, cursor}, []any{1, true, uint64(2)})
	equal(t, listed[0].Digest, events[0].Digest)
	count, next, _, err = m.Prefixes(next, listed, tokens)
	must(t, err)
	equal(t, []any{count, next == 0 || count == 1}, []any{1, true})
	equal(t, listed[0].Digest, events[1].Digest)
	info, err := m.BlockInfo(blocks[0])
	must(t, err)
	equal(t, info.State, uint32(BlockCached))
}

func TestBlocksToClearAndToMoveAreTold(t *testing.T) {
	m := newManager(t, Config{NumBlocks: 8, BlockSize: 4, ZeroAlways: true})
	low, _, err := m.AllocateRequest(sequence(0, 8), nil)
	must(t, err)
	high, _, err := m.AllocateRequest(sequence(50, 8), nil)
	must(t, err)
	_, blocks, err := m.TakePending()
	must(t, err)
	equal(t, len(blocks), 4)
	must(t, m.FreeRequest(low))
	moves := make([]BlockCopy, 8)
	count, err := m.Compact(0, moves)
	must(t, err)
	equal(t, count, 2)
	table, err := m.BlockTable(high, 0)
	must(t, err)
	for _, move := range moves[:count] {
		equal(t, table[move.Source-2], move.Destination)
	}
}

func TestGroupsAndPools(t *testing.T) {
	m := newManager(t, Config{Pools: []uint64{16, 8}, BlockSize: 4, Groups: []Group{{}, {WindowTokens: 8, Pool: 1}}})
	r, _, err := m.AllocateRequest(sequence(0, 20), nil)
	must(t, err)
	must(t, m.CommitTokens(r, 20))
	window, err := m.BlockTable(r, 1)
	must(t, err)
	equal(t, window[:3], []int32{-1, -1, -1})
	slots := make([]int64, 2)
	must(t, m.Slots(r, 0, 4, slots))
	equal(t, slots[1]-slots[0], int64(1))
	pool, err := m.PoolInfo(1)
	must(t, err)
	equal(t, pool.FirstBlock, uint64(16))
}

func TestCloseWaitsForCallsAndEndsAllUse(t *testing.T) {
	for i := 0; i < 50; i++ {
		m := newManager(t, Config{NumBlocks: 256})
		_, err := m.NewStep(StepLimits{MaxRequests: 1, MaxTokens: 1, MaxRows: 1, RowStride: 1})
		must(t, err)
		var group sync.WaitGroup
		tokens := sequence(0, 2000)
		for g := 0; g < 4; g++ {
			group.Add(1)
			go func() {
				defer group.Done()
				for {
					r, _, err := m.AllocateRequest(tokens, nil)
					if err == ErrClosed {
						return
					}
					if errors.Is(err, ErrNoSpace) {
						continue
					}
					if err == nil {
						err = m.FreeRequest(r)
					}
					if err != nil && err != ErrClosed {
						t.Error(err)
						return
					}
				}
			}()
		}
		must(t, m.Close())
		must(t, m.Close())
		group.Wait()
	}
}

func TestManyGoroutinesShareOneManager(t *testing.T) {
	m := newManager(t, Config{NumBlocks: 512, BlockSize: 4})
	var group sync.WaitGroup
	for g := 0; g < 8; g++ {
		group.Add(1)
		go func(g int) {
			defer group.Done()
			for i := 0; i < 300; i++ {
				r, cached, err := m.AllocateRequest(sequence((g*i)%7, 30), nil)
				if err != nil || cached%4 != 0 {
					t.Error(cached, err)
					return
				}
				if err := m.CommitTokens(r, 30); err != nil {
					t.Error(err)
				}
				if err := m.FreeRequest(r); err != nil {
					t.Error(err)
				}
			}
		}(g)
	}
	group.Wait()
	must(t, m.Check())
	stats, err := m.Stats()
	must(t, err)
	equal(t, stats.Admissions, uint64(2400))
}

func BenchmarkCommitTokens(b *testing.B) {
	m := newManager(b, Config{NumBlocks: 64})
	r, _, _ := m.AllocateRequest(sequence(0, 40), nil)
	must(b, m.CommitTokens(r, 40))
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		m.CommitTokens(r, 40)
	}
}

func BenchmarkAppendTokensOfNone(b *testing.B) {
	m := newManager(b, Config{NumBlocks: 64})
	r, _, _ := m.AllocateRequest(sequence(0, 40), nil)
	none := make([]int32, 0, 1)
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		m.AppendTokens(r, none)
	}
}

func BenchmarkVersion(b *testing.B) { // A bare call into C.
	for i := 0; i < b.N; i++ {
		Version()
	}
}
