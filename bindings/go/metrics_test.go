// SPDX-License-Identifier: Apache-2.0

package kvcache

import (
	"errors"
	"strings"
	"sync"
	"testing"
)

func TestMetricsOfAllObjects(t *testing.T) {
	l := newLife(t, "memory:?bytes=1MiB", OffloadWriteThrough)
	m := newManager(t, Config{NumBlocks: 32, BlockSize: 4})
	scheduler, err := m.NewScheduler(SchedulerConfig{})
	must(t, err)
	defer scheduler.Close()
	must(t, EnableLatencies(l.m, l.s, l.tier, l.offload, m, scheduler))
	compute(t, l.m, l.s, []int32{1, 2, 3, 4, 5}, nil)
	must(t, l.offload.Poll(0))
	first, second := map[string]string{"model": "a \"b\"\\\n"}, map[string]string{"model": "c", "rank": "1"}
	sources := []MetricsSource{{scheduler, second}, {l.m, first}, {l.s, first}, {l.tier, first}, {l.offload, first}, {m, second}}
	text, err := RenderMetrics(sources, true)
	must(t, err)
	for _, line := range []string{
		`kvcache_admissions_total{model="a \"b\"\\\n",order="first"} 1`, `kvcache_scheduler_requests{model="c",rank="1",state="running"} 0`,
		`vllm:prefix_cache_queries_total{model="a \"b\"\\\n"} 5`, "# EOF",
	} {
		if !strings.Contains(string(text), line+"\n") {
			t.Errorf("no line %s in\n%s", line, text)
		}
	}
	latency, err := ReadLatency(l.m, LatencyAdmit)
	must(t, err)
	if latency.Count != 1 || latency.MaxNs == 0 || latency.P999Ns > latency.MaxNs || latency.SumNs != latency.MaxNs {
		t.Errorf("%+v", latency)
	}
	if latency, err = ReadLatency(l.s, LatencyStore); err != nil || latency.Count != 1 {
		t.Errorf("%+v, %v", latency, err)
	}
	profile, err := ReadMemory(l.m, l.s, l.tier, l.offload, scheduler)
	must(t, err)
	_, slab := l.s.Bytes()
	stats, err := l.m.Stats()
	must(t, err)
	if profile.SlabBytes != slab || profile.MetadataBytes <= stats.MetadataBytes || profile.TierBytes < 1<<20 || profile.OffloadBytes == 0 || profile.SchedulerBytes == 0 {
		t.Errorf("%+v", profile)
	}
}

func TestMetricsRefuseWhatTheyDoNotKnow(t *testing.T) {
	a, b := newManager(t, Config{NumBlocks: 8}), newManager(t, Config{NumBlocks: 8})
	for _, sources := range [][]MetricsSource{
		{{nil, nil}}, {{5, nil}}, {{(*Manager)(nil), nil}}, {{a, nil}, {b, nil}}, {{a, map[string]string{"state": "x"}}}, {{a, map[string]string{"a": "\xff"}}}, {{a, map[string]string{"a": "\x00"}}},
	} {
		if text, err := RenderMetrics(sources, false); !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("%v: %q, %v", sources, text, err)
		}
	}
	if _, err := ReadLatency(a, LatencyAdmit); !errors.Is(err, ErrBusy) {
		t.Error(err)
	}
	if _, err := ReadLatency(a, LatencyPlan); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
	must(t, b.Close())
	if _, err := ReadMemory(a, b); err != ErrClosed {
		t.Error(err)
	}
	if text, err := RenderMetrics(nil, false); err != nil || string(text) != "# EOF\n" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestMetricsBesideWorkAndClose(t *testing.T) {
	l := newLife(t, "memory:?bytes=1MiB", OffloadWriteThrough)
	var wait sync.WaitGroup
	for g := 0; g < 4; g++ {
		wait.Add(1)
		go func(g int) {
			defer wait.Done()
			sources := []MetricsSource{{l.offload, nil}, {l.tier, nil}, {l.s, nil}, {l.m, nil}}
			if g%2 == 0 {
				sources[0], sources[3] = sources[3], sources[0]
			}
			for i := 0; i < 200; i++ {
				if _, err := RenderMetrics(sources, false); err != nil && err != ErrClosed {
					t.Error(err)
				}
			}
		}(g)
	}
	for i := 0; i < 20; i++ {
		must(t, l.offload.Poll(0))
	}
	must(t, l.s.Close()) // and the offload
	wait.Wait()
}
