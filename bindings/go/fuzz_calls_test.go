// SPDX-License-Identifier: Apache-2.0

package kvcache

import (
	"errors"
	"math"
	"strings"
	"testing"
	"unsafe"
)

// calls has a call for every exported function and method.
func (f *fuzzer) calls(t *testing.T) map[string]func() error {
	first := func(_ any, err error) error { return err }
	return map[string]func() error{
		"BuildInfo": func() error { BuildInfo(); return nil },
		"OpenTier": func() error {
			tier, err := OpenTier(TierConfig{URL: []string{"memory:?bytes=64KiB", "memory:?bytes=64KiB&threads=0", "", "x", "memory:", "dir:\x00"}[f.Intn(6)], PageBytes: f.oneOf(64, f.number()),
				MaxStoreBytes: f.number(), Fingerprint: [32]byte{1}})
			if err == nil {
				_, err = tier.Exists(f.pageKeys(), nil)
				must(t, tier.Close())
			}
			return err
		},
		"OpenPlugin": func() error {
			err := OpenPlugin([]string{"absent", "", "A B", "a/b", strings.Repeat("x", 99)}[f.Intn(5)], []string{"", "/nowhere"}[f.Intn(2)])
			if errors.Is(err, ErrNotFound) {
				return nil
			}
			return err
		},
		"RenderMetrics": func() error {
			labels := map[string]string{[]string{"a", "a", "a", "state", "", "__a", "a b", "\x00"}[f.Intn(8)]: []string{"x", "x", "\u00e9\"\\\n", "\xff", "\x00"}[f.Intn(5)]}
			objects := []any{f.m, f.s, f.tier, f.closedTier, nil, 3}
			sources := []MetricsSource{{objects[f.Intn(6)], labels}, {objects[f.Intn(3)], labels}}
			return first(RenderMetrics(sources[:f.Intn(3)], f.Intn(2) == 0))
		},
		"ReadMemory": func() error { return first(ReadMemory([]any{f.m, f.s, f.tier, f.closedTier, nil}[f.Intn(5)], f.m)) },
		"ReadLatency": func() error {
			m, err := New(Config{NumBlocks: 8})
			must(t, err)
			defer m.Close()
			must(t, EnableLatencies(m))
			return first(ReadLatency([]any{m, m, m, f.m, f.s, f.tier, f.closedTier, nil}[f.Intn(8)], LatencyKind(f.oneOf(1, 2, uint64(f.uint32())))))
		},
		"EnableLatencies": func() error {
			m, err := New(Config{NumBlocks: 8})
			must(t, err)
			defer m.Close()
			return EnableLatencies([]any{m, m, f.closedTier, nil}[f.Intn(4)], m)
		},
		"Tier.Get": func() error {
			keys := f.pageKeys()
			return first(f.tier.Get(keys, room[byte](f, f.length(64*len(keys))), f.jobOptions()))
		},
		"Tier.Put": func() error {
			keys := f.pageKeys()
			return first(f.tier.Put(keys, room[byte](f, f.length(64*len(keys))), f.jobOptions()))
		},
		"PageKeys": func() error { return first(PageKeys(f.pageKeys(), f.uint32(), [32]byte{})) },
		"Storage.PackPages": func() error {
			pages, _ := f.pages()
			return f.s.PackPages(f.blockList(), pages, f.oneOf(0, f.number()))
		},
		"Storage.UnpackPages": func() error {
			pages, _ := f.pages()
			return f.s.UnpackPages(f.blockList(), pages, f.oneOf(0, f.number()))
		},
		"Version":       func() error { Version(); return nil },
		"Status.String": func() error { _ = Status(f.number()).String(); return nil },
		"ConfigFromShortfin": func() error {
			text := []byte(shortfinConfig)
			if f.Intn(2) == 0 {
				text[f.Intn(len(text))] = byte(f.Intn(256))
			}
			_, _, err := ConfigFromShortfin(text[:len(text)-f.Intn(2)])
			return err
		},
		"Model.Register": func() error {
			model := f.model()
			model.Name = []string{"", "fuzz/model", "phi-4", "a b", "fuzz/\x00", strings.Repeat("x", 64), model.Name}[f.Intn(7)]
			return model.Register()
		},
		"DType.Bits": func() error { return first(DType(int32(f.number())).Bits()) },
		"Device": func() error {
			return first(Device([]string{"cpu", "", "none", "cpu\x00", strings.Repeat("x", 4096)}[f.Intn(5)]))
		},
		"New": func() error {
			config := Config{NumBlocks: f.oneOf(0, 1, 8, 1<<31, 1<<40, math.MaxUint64), BlockSize: f.uint32(), VocabSize: f.uint32(), MaxNodes: f.oneOf(0, 1, 64, 1<<62),
				MaxRequests: f.oneOf(0, 1, 262143, 262144, math.MaxUint64), MaxRequestTokens: f.number(), EventCapacity: f.oneOf(0, 8, 1<<24+1, math.MaxUint64),
				WatermarkBlocks: f.number(), Pools: slice(f, f.Intn(3), func() uint64 { return f.oneOf(0, 1, 8, math.MaxUint64) }), NoPrefixCache: f.Intn(2) == 0,
				Groups: slice(f, f.Intn(3), func() Group {
					return Group{WindowTokens: f.number(), RetentionTokens: f.number(), NumSinkTokens: f.uint32(), Pool: uint32(f.small(3))}
				})}
			if f.Intn(2) == 0 {
				config.Pools, config.BlockSize, config.NumBlocks, config.MaxRequestTokens = nil, 0, 4, 0
			}
			m, err := New(config)
			if err == nil {
				must(t, m.Check())
				must(t, m.Close())
			}
			return err
		},
		"Manager.CommitTokens": func() error {
			r := f.request()
			info, _ := f.m.RequestInfo(r)
			return f.m.CommitTokens(r, int(f.oneOf(info.NumTokens, info.NumTokens, info.NumCommitted, f.number())))
		},
		"Manager.AdmitBatch": func() error {
			requests := slice(f, f.Intn(4), f.request)
			var statuses []Status
			if f.Intn(2) == 0 {
				statuses = make([]Status, f.length(len(requests)))
			}
			return first(f.m.AdmitBatch(requests, statuses))
		},
		"Manager.ExportTables": func() error {
			requests := slice(f, f.Intn(3), f.request)
			return f.m.ExportTables(requests, uint32(f.small(2)), int32(f.number()), slice(f, len(requests)*16, f.block))
		},
		"Manager.Slots": func() error {
			slots, huge := slice(f, f.Intn(8), f.slot), f.huge64()
			if f.Intn(12) == 0 {
				slots = *(*[]int64)(unsafe.Pointer(&huge))
			}
			return f.m.Slots(f.request(), uint32(f.small(2)), int(f.small(4)), slots)
		},
		"Manager.Rebuild": func() error {
			m := f.m // which mostly has requests
			if f.Intn(2) == 0 {
				fresh, err := New(Config{NumBlocks: 4, BlockSize: 4})
				must(t, err)
				defer fresh.Close()
				m = fresh
			}
			made, err := m.Rebuild(Config{NumBlocks: f.oneOf(0, 4, 8, 1<<40), BlockSize: uint32(f.oneOf(0, 1, 6, 1024, 2000))})
			if err == nil {
				must(t, made.Manager.Check())
				must(t, made.Manager.Close())
			}
			return err
		},
		"Manager.Resize": func() error {
			return first(f.m.Resize(uint32(f.small(2)), f.oneOf(12, 12, 12, 10+f.small(9), 10+f.small(9), f.small(20), f.number())))
		},
		"Manager.OpenNamespace": func() error {
			part := func() []byte { return slice(f, f.Intn(3)*f.Intn(2)*30000, func() byte { return byte(f.Intn(2)) }) }
			n, err := f.m.OpenNamespace(Identity{part(), part(), part()})
			if err == nil && n != 0 {
				f.namespaces = append(f.namespaces, n)
			}
			return err
		},
		"Manager.OpenCurve": func() error {
			return f.m.OpenCurve(f.namespace(), CurveConfig{SampleRate: []float64{0, 0.5, 1, -1, math.NaN()}[f.Intn(5)], MaxSamples: f.oneOf(0, 1, 64, 1<<40),
				MaxBlocks: f.oneOf(0, 1, 64, 1<<40), HalfLife: f.number()})
		},
		"NewWorkload": func() error { return f.workload(nil) },
		"NewIndex":    func() error { return f.index(nil) },
		"Index.EndResync": func() error {
			return f.index(func(i *Index) error {
				if err := i.BeginResync(1, AllMedia); err != nil {
					return err
				}
				return i.EndResync(f.small(3), uint32(f.small(3)), f.number())
			})
		},
		"NamespaceRoot": func() error { return first(NamespaceRoot(nil, []byte{}, []byte(f.name()))) },
		"PrefixDigests": func() error { return first(PrefixDigests(f.root(), f.prompt(), uint32(f.oneOf(4, 4, 0, 2000)))) },
		"Index.Load": func() error {
			return f.index(func(i *Index) error {
				dump, err := i.Dump()
				if err != nil {
					return err
				}
				if err := i.RemoveWorker(1); err != nil {
					return err
				}
				if f.Intn(3) == 0 {
					dump[f.Intn(len(dump))] ^= 1
				}
				return i.Load(dump[:len(dump)-f.Intn(2)])
			})
		},
		"IndexApplied.IsStale": func() error { _ = IndexApplied{}.IsStale(); return nil },
		"NewPublisher":         func() error { return f.publisher(nil) },
		"Publisher.Resync": func() error {
			return f.publisher(func(p *Publisher) error {
				if err := p.Resync(); err != nil {
					return err
				}
				return first(p.Poll())
			})
		},
		"Publisher.Read": func() error {
			return f.publisher(func(p *Publisher) error {
				if err := p.Resync(); err != nil {
					return err
				}
				if _, err := p.Poll(); err != nil {
					return err
				}
				_, _, err := p.Read(f.number())
				return err
			})
		},
		"NewSizer": func() error { return f.sizer(nil) },
		"Sizer.ReadLog": func() error {
			return f.sizer(func(s *Sizer) error {
				if _, err := s.Decide(1, 5); err != nil {
					return err
				}
				return first(s.ReadLog(f.small(2)))
			})
		},
		"Manager.Prefixes": func() error {
			_, _, _, err := f.m.Prefixes(f.number(), make([]Event, f.Intn(3)), make([]int32, f.Intn(3)*8))
			return err
		},
		"Manager.AllocateFromPrompt": func() error {
			if f.Intn(16) == 0 { // where there is such a prompt
				own, err := New(Config{NumBlocks: 4, BlockSize: 4, MaxRequests: 1, MaxRequestTokens: 16})
				must(t, err)
				defer own.Close()
				_, err = own.RegisterPrompt("a", 0, make([]int32, 4), nil)
				must(t, err)
				_, _, err = own.AllocateFromPrompt("a", []int32{1}, nil)
				return err
			}
			r, _, err := f.m.AllocateFromPrompt(f.name(), f.prompt(), f.options())
			f.keep(r, err)
			return err
		},
		"Manager.AcquireBlocks": func() error {
			blocks := f.blockList()
			err := f.m.AcquireBlocks(uint32(f.small(2)), blocks)
			if err == nil {
				f.blocks = append(f.blocks, blocks...)
			}
			return err
		},
		"Manager.AcquirePrefix": func() error {
			blocks, err := f.m.AcquirePrefix(f.namespace(), uint32(f.small(2)), f.prompt(), f.extraKeys())
			f.blocks = append(f.blocks, blocks...)
			return err
		},
		"Manager.PublishBlocks": func() error {
			return f.m.PublishBlocks(f.namespace(), uint32(f.small(2)), f.prompt(), f.extraKeys(), append(f.blockList(), f.blocks...))
		},
		"Manager.ReleaseBlocks": func() error {
			blocks := f.blocks
			if f.Intn(4) == 0 {
				return f.m.ReleaseBlocks(f.blockList())
			}
			f.blocks = nil
			return f.m.ReleaseBlocks(blocks)
		},
		"Manager.Events": func() error {
			_, _, err := f.m.Events(f.number(), slice(f, f.Intn(5), func() Event { return Event{} }), slice(f, f.Intn(20), f.block))
			return err
		},
		"Manager.NewStep": func() error {
			limit := func() int {
				return int(f.oneOf(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, math.MaxUint64, 1<<63, 1<<62, 1<<61))
			}
			step, err := f.m.NewStep(StepLimits{limit(), limit(), limit(), limit(), limit(), limit(), limit(), limit()})
			if err == nil {
				must(t, step.Close())
			}
			return err
		},
		"Step.Run": func() error {
			if f.Intn(20) == 0 {
				return f.closedStep.Run()
			}
			err := f.fillStep(f.step).Run()
			if err == nil {
				for i := 0; i < f.step.NumAdmissions; i++ {
					f.keep(Request(f.step.Admitted[i]), nil)
				}
			}
			return err
		},
		"Step.Row": func() (err error) {
			defer func() { // the one call that panics
				if text, ok := recover().(string); ok && strings.HasPrefix(text, "kvcache: Row(") {
					err = ErrInvalidArgument
				}
			}()
			f.step.Row(int(f.small(3)), int(f.small(6)))
			return nil
		},
		"Step.Close": func() error { return f.closedStep.Close() },

		"StorageSize": func() error { _, _, err := StorageSize(f.storageConfig()); return err },
		"NewStorage": func() error {
			config := f.storageConfig()
			if _, slab, err := StorageSize(config); err == nil && slab > 1<<24 && slab < 1<<46 {
				config.NumBlocks = 1 // it would be made
				if block, _, _ := StorageSize(config); block > 1<<24 {
					return nil
				}
			}
			if config.Memory != nil && f.Intn(2) == 0 {
				config.NumBlocks, config.Alignment = math.MaxUint64, 16
			}
			s, err := NewStorage(config)
			if err == nil {
				must(t, s.Close())
			}
			return err
		},
		"Storage.Store": func() error { return f.s.Store(f.rows()) },
		"Storage.StoreRotated": func() error {
			first, layers, k, v, slots := f.rows()
			rope := &KeyRope{Table: f.data(8 * len(slots)), RopeDim: uint32(f.oneOf(0, 0, 4, f.number())), FirstElement: uint32(f.small(4)), Interleaved: f.Intn(2) == 0}
			if f.Intn(3) == 0 {
				rope.Rows = slice(f, len(slots), func() int64 { return int64(f.small(len(slots) + 1)) })
			}
			return f.s.StoreRotated(first, layers, k, v, slots, rope)
		},
		"Storage.Gather":  func() error { return f.s.Gather(f.rows()) },
		"Storage.Measure": func() error { _, _, err := f.s.Measure(f.rows()); return err },
		"Storage.CopyTokens": func() error {
			from, err := NewStorage(StorageConfig{NumBlocks: 4, NumLayers: 1, NumHeads: 1, HeadDim: 8, BlockSize: 8})
			must(t, err)
			defer from.Close()
			to, err := NewStorage(StorageConfig{NumBlocks: 4, NumLayers: 1, NumHeads: 1, HeadDim: 8, BlockSize: 4})
			must(t, err)
			defer to.Close()
			if f.Intn(4) == 0 {
				to = f.s
			}
			return to.CopyTokens(from, slice(f, f.Intn(3), func() TokenCopy {
				return TokenCopy{f.uint32(), int32(f.small(4)), int32(f.small(4)), uint32(f.small(4)), uint32(f.small(2)), uint32(f.oneOf(0, 1, 2, math.MaxUint32))}
			}))
		},
		"Storage.SwapOut": func() error {
			pages, bytes := f.pages()
			return f.s.SwapOut(f.copies(), pages, bytes)
		},
		"Storage.SwapIn": func() error {
			pages, bytes := f.pages()
			return f.s.SwapIn(f.copies(), pages, bytes)
		},
		"Storage.Slab": func() error { return map[bool]error{true: ErrClosed}[f.closedS.Slab() == nil && f.s.Slab() == nil] },
		"Storage.KeyBounds": func() error {
			return f.s.KeyBounds(uint32(f.small(2)), f.blockList(), room[uint16](f, f.length(12*int(f.s.info.num_heads)*2*int(f.s.info.head_dim))))
		},
		"Storage.SelectBlocks": func() error {
			bounds := room[uint16](f, f.length(12*int(f.s.info.num_heads)*2*int(f.s.info.head_dim)))
			return first(f.s.SelectBlocks(f.attention(), f.blockChoice(bounds)))
		},
		"MergeAttention": func() error {
			partials, dim, rows := f.Intn(4), 1+f.Intn(8), f.Intn(4)
			outs, lses, out, lse := f.data(partials*rows*dim), f.data(partials*rows), f.data(rows*dim), f.data(rows)
			if f.Intn(6) == 0 {
				partials, dim = f.int(), f.int()
			}
			return MergeAttention(outs, lses, partials, dim, out, lse)
		},
		"TreeMask": func() error {
			if f.Intn(12) == 0 {
				return first2(TreeMask(f.huge))
			}
			n := 0
			return first2(TreeMask(slice(f, f.Intn(10), func() int32 { n++; return int32(f.small(n)) - 1 })))
		},
		"ReplayLog": func() error {
			log, err := f.m.TakeLog()
			if err != nil || len(log) == 0 {
				return err
			}
			if f.Intn(2) == 0 { // else whole, if it is the first part
				log[f.Intn(len(log))] ^= byte(1 << f.Intn(8))
			}
			return first(ReplayLog(log))
		},
		"FindModel": func() error {
			return first(FindModel([]string{"llama-3.1-8b", "", "\x00", strings.Repeat("m", 4096)}[f.Intn(4)]))
		},
		"ModelFromConfig": func() error {
			text := []byte(`{"model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64, "vocab_size": 100, "max_position_embeddings": 128}`)
			if f.Intn(2) == 0 {
				text = text[:f.Intn(len(text))]
			}
			return first(ModelFromConfig(text))
		},
		"Models": func() error { return first(Models()) },
		"Model.EstimateMemory": func() error {
			flag := func() uint32 { return uint32(f.small(2) * f.small(2)) }
			return first(f.model().EstimateMemory(MemoryQuery{f.number(), f.number(), f.number(), f.number(), DType(f.small(13)), f.uint32(),
				uint32(f.oneOf(0, 0, f.number())), flag(), flag(), flag(), 0,
				float32(f.small(3)) / 2, []string{"", "cpu", "nowhere"}[f.Intn(3)], f.number(), f.number(), DType(f.small(13)), DType(f.small(13))}))
		},
		"Model.RopeFrequencies": func() error {
			m := f.model()
			_, _, err := m.RopeFrequencies(uint32(f.small(4)), f.number(), slice(f, int(m.HeadDim%512/2), func() float64 { return float64(f.int()) }))
			return err
		},
		"RopeTable": func() error {
			frequencies := slice(f, f.Intn(5), func() float64 { return float64(f.int()) })
			return first(RopeTable(frequencies, float64(f.int()), slice(f, f.Intn(5), func() int64 { return int64(f.number()) })))
		},
		"ApplyRope": func() error {
			rows := &RopeRows{NumHeads: uint32(f.small(4)), HeadDim: uint32(2 * f.small(5)), RopeDim: uint32(f.oneOf(0, 0, 2, f.number())),
				FirstElement: uint32(f.small(3)), Interleaved: f.Intn(2) == 0}
			tokens := f.Intn(4)
			rows.X = f.data(tokens * int(rows.NumHeads%8*(rows.HeadDim%16)))
			if f.Intn(3) == 0 {
				rows.Rows = slice(f, tokens, func() int64 { return int64(f.small(4)) })
			}
			return ApplyRope(rows, f.data(8*(4+tokens)))
		},
		"Quantize": func() error {
			dim := f.Intn(12)
			values := f.data(f.Intn(4) * dim)
			return first3(Quantize(f.quant(), values, int(f.oneOf(uint64(dim), uint64(dim), uint64(dim), f.number()))))
		},
		"Dequantize": func() error {
			dim, rows, format := f.Intn(12), f.Intn(4), f.quant()
			values := room[float32](f, f.length(rows*dim))
			_, codes, scales, err := checkQuant(format, make([]float32, rows*dim), dim)
			if err != nil {
				codes, scales = 0, 0
			}
			dim = int(f.oneOf(uint64(dim), uint64(dim), uint64(dim), f.number()))
			return Dequantize(format, slice(f, int(codes%4096), func() byte { return byte(f.Intn(256)) }), f.data(int(scales%4096)), dim, values)
		},
	}
}

func first2[A, B any](_ A, _ B, err error) error { return err }
func first3[A, B any](_ A, _ B, err error) error { return err }
