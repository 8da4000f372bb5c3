// SPDX-License-Identifier: Apache-2.0

package kvcache

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"math/rand"
	"os"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// A fuzzer calls every exported function with arguments that are mostly right, and with hostile ones: numbers near limits, slices that are nil,
// empty, too short, too long, shared between arguments, or larger than memory; objects that are closed. Slices end where a page begins that nobody
// may touch, so that whoever reads or writes past one ends the process.
type fuzzer struct {
	*rand.Rand
	guarded          [48][]byte
	next             int
	huge             []int32 // Pages that nobody may touch: a length that must be refused before anything is read.
	m, closed        *Manager
	s                *Storage
	step             *Step
	closedStep       *Step
	closedS          *Storage
	tier, closedTier *Tier
	offload          *Offload // Closed, if the manager has no events.
	offloadTier      *Tier
	closedOffload    *Offload
	folder           string // Of checkpoints.
	requests         []Request
	pins             []Pin
	namespaces       []Namespace
	blocks           []int32
	tokens           []int32 // Shared by all who want tokens.
	floats           []float32
}

const (
	hugeElements = 1 << 40
	guardedBytes = 1 << 16
)

// room has n elements before such a page.
func room[T any](f *fuzzer, n int) []T {
	var element T
	bytes := n * int(unsafe.Sizeof(element))
	if bytes > guardedBytes {
		return make([]T, n)
	}
	f.next = (f.next + 1) % len(f.guarded)
	first := unsafe.Add(unsafe.Pointer(&f.guarded[f.next][0]), guardedBytes-bytes)
	return unsafe.Slice((*T)(first), n)
}

func newFuzzer(t *testing.T, seed int64) *fuzzer {
	pages, err := syscall.Mmap(-1, 0, 1<<12, syscall.PROT_NONE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	must(t, err)
	f := &fuzzer{Rand: rand.New(rand.NewSource(seed)), huge: unsafe.Slice((*int32)(unsafe.Pointer(&pages[0])), hugeElements)}
	for i := range f.guarded {
		f.guarded[i], err = syscall.Mmap(-1, 0, guardedBytes+1<<12, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
		must(t, err)
		must(t, syscall.Mprotect(f.guarded[i][guardedBytes:], syscall.PROT_NONE))
	}
	f.tokens, f.floats = make([]int32, 64), make([]float32, 1<<14)
	f.folder = t.TempDir()
	for f.offload == nil {
		f.renew(t)
	}
	f.closed, f.closedS, f.closedStep, f.closedTier, f.closedOffload = f.m, f.s, f.step, f.tier, f.offload
	f.renew(t)
	must(t, f.closedStep.Close())
	must(t, f.closed.Close())
	must(t, f.closedS.Close())
	must(t, f.closedTier.Close())
	return f
}

func (f *fuzzer) oneOf(numbers ...uint64) uint64 { return numbers[f.Intn(len(numbers))] }

// renew makes the objects that calls go to, in some shape.
func (f *fuzzer) renew(t *testing.T) {
	config := Config{NumBlocks: 12, BlockSize: 4, MaxRequests: 8, MaxRequestTokens: 64, EventCapacity: f.oneOf(0, 8), ZeroCrossNamespace: f.Intn(3) == 0,
		NullBlock: f.Intn(4) == 0, Hints: f.Intn(4) != 0, MaxQuotas: uint32(f.Intn(3)), VocabSize: uint32(f.oneOf(0, 100)),
		MaxBlocks: []uint64{f.oneOf(12, 18)}, Headroom: f.Intn(2) == 0, Fills: f.Intn(3) != 0, PartialReuse: f.Intn(2) == 0, RecordBytes: f.oneOf(0, 1<<16)}
	if f.Intn(2) == 0 {
		config.Groups = []Group{{}, {WindowTokens: f.oneOf(2, 5, 9), NumSinkTokens: uint32(f.Intn(3))}}
	}
	var err error
	f.m, err = New(config)
	must(t, err)
	f.step, err = f.m.NewStep(StepLimits{MaxFrees: 2, MaxRequests: 3, MaxAdmissions: 2, MaxTokens: 8, MaxPromptTokens: 24, MaxRows: 5, RowStride: 16})
	must(t, err)
	storage := StorageConfig{NumBlocks: 12, NumLayers: 2, NumHeads: 2, HeadDim: 8, BlockSize: 4, DType: []DType{Float32, BFloat16, Int8}[f.Intn(3)],
		VHeadDim: uint32(f.oneOf(0, 6))}
	if f.Intn(4) == 0 {
		storage.NumHeads, storage.VHeadDim, storage.Flags, storage.DType = 1, 6, 1, Float32 // latent rows
	}
	f.s, err = NewStorage(storage)
	must(t, err)
	f.tier, err = OpenTier(TierConfig{URL: "memory:?bytes=64KiB", PageBytes: 64, Fingerprint: [32]byte{1}})
	must(t, err)
	f.offloadTier, f.offload = f.newOffload(t)
	f.requests, f.pins, f.namespaces, f.blocks = nil, nil, nil, nil
}

func (f *fuzzer) pageKeys() [][32]byte {
	return slice(f, f.Intn(5), func() [32]byte { return [32]byte{byte(f.Intn(6))} })
}

func (f *fuzzer) pageConfig() PageConfig {
	text := func() []byte { return []byte([]string{"m", "m", "weights", ""}[f.Intn(4)]) }
	return PageConfig{Model: text(), Weights: text(), Numerics: text(), NumLayers: uint32(f.oneOf(0, 0, 4, f.number())), NumHeads: uint32(f.oneOf(0, 0, 4, f.number())),
		FirstLayer: uint32(f.oneOf(0, 0, 1, f.number())), FirstHead: uint32(f.oneOf(0, 0, 1, f.number()))}
}

func (f *fuzzer) jobOptions() *JobOptions {
	if f.Intn(2) == 0 {
		return nil
	}
	options := &JobOptions{Priority: TierPriority(f.oneOf(0, 1, 2, 3, f.number())), Timeout: time.Duration(f.oneOf(0, 0, 1<<30, f.number())),
		Lease: time.Duration(f.oneOf(0, 0, f.number())), NowNs: f.number(), PageBytes: f.oneOf(0, 64, f.number())}
	if f.Intn(3) == 0 {
		options.Runs = slice(f, f.Intn(3), func() Run { return Run{f.oneOf(0, 16, f.number()), f.oneOf(0, 8, f.number())} })
	}
	if f.Intn(3) == 0 {
		options.Generations = slice(f, f.Intn(5), f.number)
	}
	return options
}

// number is mostly a small one, else one near a limit.
func (f *fuzzer) number() uint64 {
	if f.Intn(4) != 0 {
		return uint64(f.Intn(20))
	}
	return f.oneOf(math.MaxUint64, math.MaxUint64-7, 1<<63, 1<<63-1, 1<<62, 1<<40, 1<<32, 1<<32+4, 1<<32-1, 1<<31, 1<<31-1, 65535, 65536, 65537, 8192, 8193)
}

func (f *fuzzer) int() int { return int(f.number()) }
func (f *fuzzer) huge64() []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(&f.huge[0])), hugeElements/2)
}

func (f *fuzzer) uint32() uint32 { return uint32(f.number()) }

// small is mostly below n.
func (f *fuzzer) small(n int) uint64 {
	if f.Intn(8) == 0 {
		return f.number()
	}
	return uint64(f.Intn(n))
}

// length is mostly n.
func (f *fuzzer) length(n int) int {
	switch f.Intn(24) {
	case 0:
		return 0
	case 1:
		return n + 1
	case 2:
		return 2 * n
	case 3:
		if n > 0 {
			return n - 1
		}
	}
	return n
}

// slice has mostly n elements.
func slice[T any](f *fuzzer, n int, element func() T) []T {
	if f.Intn(24) == 0 {
		return nil
	}
	values := room[T](f, f.length(n))
	for i := range values {
		values[i] = element()
	}
	return values
}

// data is rows for a storage: a part of memory that many arguments share.
func (f *fuzzer) data(n int) []float32 {
	if f.Intn(24) == 0 {
		return nil
	}
	n = f.length(n)
	if f.Intn(4) != 0 {
		values := room[float32](f, n)
		f.write(values)
		return values
	}
	for n > len(f.floats) {
		f.floats = append(f.floats, f.floats...)
	}
	first := f.Intn(len(f.floats) - n + 1)
	return f.floats[first : first+n]
}

func (f *fuzzer) write(values []float32) {
	for i := range values {
		values[i] = f.Float32()
	}
}

func (f *fuzzer) prompt() []int32 {
	if f.Intn(40) == 0 {
		return f.huge
	}
	n := f.length(f.Intn(24))
	if f.Intn(8) == 0 {
		return f.tokens[:n%len(f.tokens)]
	}
	kind := int32(f.Intn(3))
	prompt := slice(f, n, func() int32 { return kind })
	if len(prompt) > 0 && f.Intn(16) == 0 {
		prompt[f.Intn(len(prompt))] = int32(f.number())
	}
	return prompt
}

func pick[T ~uint64](f *fuzzer, from []T) T {
	if len(from) == 0 || f.Intn(12) == 0 {
		return T(f.number())
	}
	return from[f.Intn(len(from))]
}

func (f *fuzzer) request() Request { return pick(f, f.requests) }
func (f *fuzzer) namespace() Namespace {
	if f.Intn(3) != 0 {
		return []Namespace{0, 0, AllNamespaces}[f.Intn(3)]
	}
	return pick(f, f.namespaces)
}
func (f *fuzzer) name() string {
	return []string{"a", "b", "", "a\x00b", strings.Repeat("n", f.Intn(300))}[f.Intn(5)]
}
func (f *fuzzer) block() int32 { return int32(f.small(12)) }
func (f *fuzzer) slot() int64  { return int64(f.small(48)) - 1 }

func (f *fuzzer) extraKeys() []ExtraKey {
	if f.Intn(3) != 0 {
		return nil
	}
	return slice(f, f.Intn(3), func() ExtraKey { return ExtraKey{FirstToken: f.small(8), NumTokens: f.small(4)} })
}

func (f *fuzzer) options() *RequestOptions {
	if f.Intn(2) == 0 {
		return nil
	}
	return &RequestOptions{Namespace: f.namespace(), MaxCachedTokens: f.number(), ExternalTokens: f.small(3) * f.small(2), Slots: f.small(9), Lookahead: f.small(4),
		DropTailBlocks: uint32(f.small(2)), NoRead: f.Intn(4) == 0, NoWrite: f.Intn(4) == 0, FullMustFit: f.Intn(4) == 0, Resumed: f.Intn(4) == 0,
		ExtraKeys: f.extraKeys()}
}

// attention is a right question to the storage, in which something may then be changed.
func (f *fuzzer) attention() *Attention {
	info, requests := &f.s.info, f.Intn(4)
	a := &Attention{Layer: uint32(f.Intn(2)), NumQHeads: uint32(info.num_heads) * uint32(1+f.Intn(2)), QOffsets: []uint64{0}, KVLens: []uint64{},
		NotCausal: f.Intn(4) == 0, Window: f.small(6), Sinks: f.small(3)}
	bit := uint64(0)
	mask := f.Intn(3) == 0
	for r := 0; r < requests; r++ {
		length := uint64(1 + f.Intn(16))
		queries := uint64(f.Intn(int(length)%4 + 1))
		a.QOffsets, a.KVLens = append(a.QOffsets, a.QOffsets[r]+queries), append(a.KVLens, length)
		a.MaskOffsets, a.MaskStarts = append(a.MaskOffsets, bit), append(a.MaskStarts, length/2)
		bit += queries * (length - length/2)
	}
	if mask {
		a.Mask = room[byte](f, int(bit+7)/8)
	}
	for _, list := range []*[]uint64{&a.QOffsets, &a.KVLens, &a.MaskOffsets, &a.MaskStarts} {
		guarded := room[uint64](f, len(*list))
		copy(guarded, *list)
		*list = guarded
	}
	rows := int(a.QOffsets[requests]) * int(a.NumQHeads)
	a.Q, a.Out = f.data(rows*int(info.head_dim)), room[float32](f, rows*int(info.v_head_dim))
	if f.Intn(3) == 0 { // mostly right, and with room
		head := int(info.head_dim) + f.Intn(3)
		a.QHeadStride, a.QTokenStride = head, head*int(a.NumQHeads)+f.Intn(3)
		a.Q = f.data(int(a.QOffsets[requests])*a.QTokenStride + f.Intn(2))
	}
	if f.Intn(3) == 0 {
		head := int(info.v_head_dim) + f.Intn(3) - f.Intn(2)
		a.OutHeadStride, a.OutTokenStride = head, head*int(a.NumQHeads)+f.Intn(3)
		a.Out = room[float32](f, int(a.QOffsets[requests])*a.OutTokenStride+f.Intn(2))
	}
	a.BlockTables = slice(f, requests*4, f.block)
	if f.Intn(3) == 0 {
		a.LSE = room[float32](f, rows)
	}
	if f.Intn(3) == 0 {
		a.AlibiSlopes = f.data(int(a.NumQHeads))
	}
	if f.Intn(3) == 0 {
		a.SinkLogits = f.data(int(a.NumQHeads))
	}
	if f.Intn(4) == 0 {
		a.BlockMask = room[byte](f, requests*int(info.num_heads))
		f.Read(a.BlockMask)
	}
	if f.Intn(4) == 0 {
		a.Launch = &Launch{Planned: f.Intn(2) == 0}
		if f.Intn(2) == 0 {
			a.Launch.Plan = room[byte](f, f.Intn(64))
		}
		if f.Intn(2) == 0 {
			a.Launch.Workspace = room[byte](f, f.Intn(64))
		}
	}
	numbers := [][]uint64{a.QOffsets, a.KVLens, a.MaskOffsets, a.MaskStarts}
	switch f.Intn(21) {
	case 0, 1, 2, 3:
		if list := numbers[f.Intn(4)]; len(list) > 0 {
			list[f.Intn(len(list))] = f.number()
		}
	case 4:
		a.QStarts = slice(f, requests, func() uint64 { return f.small(16) })
	case 5:
		a.NumQHeads = f.uint32()
	case 6:
		a.Out = f.data(len(a.Out))
	case 7:
		a.Out = a.Q
	case 8:
		a.Mask, a.MaskStarts = []byte{}, nil
	case 9:
		a.KVLens = f.huge64()
	case 10:
		a.KVLens, a.MaskOffsets = a.QOffsets, a.QOffsets
	case 11:
		a.Scale, a.SoftCap = float32(math.NaN()), float32(f.int())
	case 12:
		a.SharedTokens, a.Window = f.number(), f.number()
	case 13:
		a.Layer = f.uint32()
	case 14:
		a.BlockMask = room[byte](f, f.Intn(9))
	case 15:
		a.QOffsets = nil
	case 16:
		list := []*[]uint64{&a.QOffsets, &a.KVLens, &a.MaskOffsets, &a.MaskStarts, &a.QStarts}[f.Intn(5)]
		*list = room[uint64](f, f.length(len(*list)))
	case 17:
		a.Q, a.LSE = f.data(len(a.Q)), f.data(rows)
	case 18:
		a.Mask = room[byte](f, f.length(len(a.Mask)))
	case 19:
		strides := []*int{&a.QTokenStride, &a.QHeadStride, &a.OutTokenStride, &a.OutHeadStride}
		*strides[f.Intn(4)] = f.int()
	}
	return a
}

// rows are arguments of Store and its like.
// blockChoice picks in one of three ways, or in more, or in none.
func (f *fuzzer) blockChoice(bounds []uint16) BlockChoice {
	some := []float64{0, 0, 0, 0.5, 1, 6, -1, math.NaN(), math.Inf(1)}
	c := BlockChoice{Bounds: bounds, SinkBlocks: f.small(3), RecentBlocks: f.small(3)}
	c.Ratio, c.Threshold = some[f.Intn(len(some))], some[f.Intn(len(some))]
	if c.Ratio == 0 && c.Threshold == 0 || f.Intn(6) == 0 {
		c.TopK = f.small(5)
	}
	return c
}

func (f *fuzzer) rows() (first, layers uint32, k, v []float32, slots []int64) {
	layers = uint32(f.Intn(3))
	first = uint32(f.small(2))
	slots = slice(f, f.Intn(6), f.slot)
	n := len(slots) * int(f.s.info.num_heads)
	if layers > 0 {
		n *= int(layers)
	}
	k, v = f.data(n*int(f.s.info.head_dim)), f.data(n*int(f.s.info.v_head_dim))
	if f.s.info.flags&1 != 0 {
		v = f.data(0)
	}
	if f.Intn(12) == 0 {
		layers = f.uint32()
	}
	return
}

func (f *fuzzer) blockList() []int32 { return slice(f, f.Intn(4), f.block) }
func (f *fuzzer) copies() []BlockCopy {
	return slice(f, f.Intn(3), func() BlockCopy { return BlockCopy{f.block(), f.block()} })
}
func (f *fuzzer) pages() ([]byte, uint64) {
	block, _ := f.s.Bytes()
	if f.Intn(12) == 0 {
		return f.s.Slab(), f.oneOf(0, block)
	}
	return room[byte](f, f.length(12*int(block))), f.oneOf(0, 0, block, f.number())
}

func (f *fuzzer) storageConfig() StorageConfig {
	config := StorageConfig{NumBlocks: f.number(), NumLayers: f.uint32(), NumHeads: f.uint32(), HeadDim: f.uint32(), VHeadDim: f.uint32(), BlockSize: f.uint32(),
		DType: DType(f.small(13)), Layout: uint32(f.small(6)), Flags: uint32(f.small(64)), ScaleGroup: uint32(f.small(2)),
		Alignment:  uint32(f.oneOf(0, 16, 64, f.number())),
		NumThreads: uint32(f.oneOf(0, 1, 2, 257, math.MaxUint32)), KScale: float32(f.oneOf(0, 0, 1)), VScale: float32(f.oneOf(0, 0, 1)), ResidualBlocks: uint32(f.small(3))}
	if f.Intn(3) == 0 {
		config = StorageConfig{NumBlocks: 1 + f.small(4), NumLayers: 1, NumHeads: 1, HeadDim: 8, DType: config.DType}
	}
	if f.Intn(4) == 0 {
		config.Memory = slice(f, 4096, func() byte { return 0 })
	}
	return config
}

func (f *fuzzer) model() *Model {
	if f.Intn(2) == 0 {
		models, err := Models()
		if err == nil {
			return models[f.Intn(len(models))]
		}
	}
	return &Model{NumLayers: f.uint32(), NumQHeads: f.uint32(), NumKVHeads: f.uint32(), HeadDim: f.uint32(), VHeadDim: f.uint32(), LatentDim: f.uint32(),
		RopeDim:    f.uint32(),
		MaxContext: f.number(), WindowTokens: f.number(), WindowLayers: slice(f, f.Intn(3), f.uint32), RopeTheta: float64(f.int()), RopeFactor: float64(f.int()),
		RopeOriginalContext: f.number(), RopeScaling: uint32(f.small(7)), RopeFlags: uint32(f.small(2))}
}

func (f *fuzzer) quant() QuantFormat {
	return QuantFormat{DType: DType([]DType{Int8, Int4, Float8E4M3, Float8E5M2, DType(f.small(13))}[f.Intn(5)]), Group: uint32(f.oneOf(0, 0, 4, 3, f.number())),
		Asymmetric: f.Intn(3) == 0, Channels: f.Intn(3) == 0, Scale: []float32{0, 0, 1, float32(math.NaN()), -1}[f.Intn(5)]}
}

// step fills a step and says what is in it.
func (f *fuzzer) fillStep(s *Step) *Step {
	if s.Frees == nil {
		return s
	}
	for _, list := range [][]uint64{s.Frees, s.Preempts, s.Truncates, s.Requests, s.AdmitRequests} {
		for i := range list {
			list[i] = uint64(f.request()) * f.oneOf(0, 1, 1, 1)
		}
	}
	for _, list := range [][]uint64{s.CommitOffsets, s.ExtendOffsets, s.AdmitOffsets} {
		sum := uint64(0)
		for i := range list {
			list[i] = sum
			sum += uint64(f.Intn(3))
		}
	}
	for i := range s.Truncates {
		s.TruncateLengths[i] = f.small(12)
	}
	for i := range s.Committed {
		info, _ := f.m.RequestInfo(Request(s.Requests[i]))
		s.Committed[i] = info.NumCommitted + f.oneOf(0, 0, 1)
	}
	for _, list := range [][]int32{s.CommitTokens, s.ExtendTokens, s.AdmitTokens} {
		copy(list, make([]int32, len(list)))
	}
	for i := range s.Rows {
		s.Rows[i] = int32(i)
	}
	s.NumFrees, s.NumPreempts, s.NumTruncates, s.NumRequests, s.NumAdmissions = f.Intn(2), f.Intn(2), f.Intn(2), f.Intn(4), f.Intn(3)
	s.NoCommits, s.NoExtensions, s.SlotsOnly, s.UseCommitTokens, s.UseRows = f.Intn(4) == 0, f.Intn(4) == 0, f.Intn(4) == 0, f.Intn(4) == 0, f.Intn(2) == 0
	s.NowNS = f.oneOf(0, 0, f.small(40))
	s.Flags, s.RetiredStep, s.AdmitOptions = uint32(f.oneOf(0, 0, 1, 2, 3)), s.StepID, nil
	if f.Intn(3) == 0 {
		s.AdmitOptions = slice(f, s.NumAdmissions, func() RequestOptions { return RequestOptions{Slots: f.small(9), ExtraKeys: f.extraKeys()} })
	}
	numbers := []*int{&s.NumFrees, &s.NumPreempts, &s.NumTruncates, &s.NumRequests, &s.NumAdmissions}
	lists := [][]uint64{s.Frees, s.TruncateLengths, s.Requests, s.Committed, s.CommitOffsets, s.ExtendOffsets, s.AdmitRequests, s.AdmitOffsets}
	tokens := [][]int32{s.CommitTokens, s.ExtendTokens, s.AdmitTokens, s.Rows}
	switch f.Intn(12) {
	case 0:
		*numbers[f.Intn(len(numbers))] = f.int()
	case 1, 2:
		list := lists[f.Intn(len(lists))]
		list[f.Intn(len(list))] = f.number()
	case 3:
		list := tokens[f.Intn(len(tokens))]
		list[f.Intn(len(list))] = int32(f.number())
	case 4:
		s.RetiredStep = f.number()
	}
	return s
}

func (f *fuzzer) keep(r Request, err error) {
	if err == nil && r != 0 {
		f.requests = append(f.requests, r)
	}
}

// often are calls that others need before they can do anything.
var often = map[string]int{"Manager.AllocateRequest": 8, "Manager.CommitTokens": 8, "Manager.PinPrefix": 4, "Manager.Unpin": 2, "Manager.NewStep": 2, "New": 2}

// exported are the functions of this package and the methods of its types.
func exported(t *testing.T) map[string]*ast.FuncDecl {
	names := map[string]*ast.FuncDecl{}
	packages, err := parser.ParseDir(token.NewFileSet(), ".", func(info os.FileInfo) bool { return !strings.HasSuffix(info.Name(), "_test.go") }, 0)
	must(t, err)
	for _, file := range packages["kvcache"].Files {
		for _, declaration := range file.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if !ok || !function.Name.IsExported() {
				continue
			}
			name := function.Name.Name
			if function.Recv != nil {
				receiver := function.Recv.List[0].Type
				if pointer, ok := receiver.(*ast.StarExpr); ok {
					receiver = pointer.X
				}
				name = receiver.(*ast.Ident).Name + "." + name
			}
			names[name] = function
		}
	}
	return names
}

// TestFuzz makes KVC_FUZZ_CALLS calls by KVC_FUZZ_SEED, and for at most 30 seconds times KVC_TEST_ROUNDS unless calls are given. Each must return, without a panic and
// without an error that means a defect; one that fails must leave the manager as it was, and all must leave it sound.
func TestFuzz(t *testing.T) {
	seed, calls, limit := int64(1), rounds(60000), time.Duration(rounds(30))*time.Second
	if text := os.Getenv("KVC_FUZZ_SEED"); text != "" {
		number, err := strconv.ParseInt(text, 10, 64)
		must(t, err)
		seed = number
	}
	if text := os.Getenv("KVC_FUZZ_CALLS"); text != "" {
		number, err := strconv.Atoi(text)
		must(t, err)
		calls, limit = number, time.Duration(math.MaxInt64)
	}
	fmt.Printf("fuzz: seed %d\n", seed) // also when a call ends the process
	f := newFuzzer(t, seed)
	table, names, done, failed := f.calls(t), []string{}, map[string]int{}, map[string]int{}
	for _, more := range []map[string]func() error{f.speculationCalls(), f.schedulerCalls(t), f.offloadCalls(t)} {
		for name, call := range more {
			table[name] = call
		}
	}
	public := exported(t)
	f.derive(table, public)
	for name := range public {
		if table[name] == nil {
			t.Errorf("%s is exported and has no call here", name)
		}
	}
	for name := range table {
		if public[name] == nil {
			t.Errorf("%s has a call and is not exported", name)
		}
		names = append(names, name)
		for i := 0; i < often[name]; i++ {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	neverDone := []string{} // these have every other turn
	for i, name := range names {
		if i == 0 || name != names[i-1] {
			neverDone = append(neverDone, name)
		}
	}
	began, number := time.Now(), 0
	for ; number < calls && time.Since(began) < limit; number++ {
		if number%500 == 499 {
			open := f.m
			f.s.Close()
			must(t, f.tier.Close())
			must(t, f.offloadTier.Close())
			f.renew(t)
			must(t, open.Close())
		}
		from := names
		if len(neverDone) > 0 && f.Intn(2) == 0 {
			from = neverDone
		}
		name := from[f.Intn(len(from))]
		manager, storage := f.m, f.s
		before, err := manager.Digest()
		must(t, err)
		if f.Intn(200) == 0 { // what was closed answers so, or not at all
			f.m, f.s = f.closed, f.closedS
		}
		err = table[name]()
		f.m, f.s = manager, storage
		must(t, f.m.Check())
		if err == nil {
			if done[name]++; done[name] == 1 {
				at := sort.SearchStrings(neverDone, name)
				neverDone = append(neverDone[:at], neverDone[at+1:]...)
			}
			continue
		}
		failed[name]++
		var own *Error
		if err != ErrClosed && !errors.As(err, &own) || errors.Is(err, ErrInternal) || errors.Is(err, ErrCorrupt) {
			t.Fatalf("seed %d, call %d: %s: %v", seed, number, name, err)
		}
		after, err := f.m.Digest()
		must(t, err)
		if before != after {
			t.Fatalf("seed %d, call %d: %s failed and changed the manager", seed, number, name)
		}
	}
	total := 0
	for name := range table {
		total += done[name]
		if done[name] == 0 || testing.Verbose() {
			t.Logf("%s: %d done, %d refused", name, done[name], failed[name])
		}
		if done[name] == 0 && number >= 60000 {
			t.Errorf("%s has never succeeded", name)
		}
	}
	t.Logf("seed %d: %d calls, %d done, in %v", seed, number, total, time.Since(began))
}
