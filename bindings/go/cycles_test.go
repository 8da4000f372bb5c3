// SPDX-License-Identifier: Apache-2.0

package kvcache

import (
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

func residentBytes(t *testing.T) int {
	debug.FreeOSMemory()
	text, err := os.ReadFile("/proc/self/statm")
	must(t, err)
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	must(t, err)
	return pages * os.Getpagesize()
}

// TestManyLivesLeaveNothing closes managers with a request and a step, every 64th with a storage: KVC_CYCLES of them, some thousands by default.
func TestManyLivesLeaveNothing(t *testing.T) {
	count := 5000
	if text := os.Getenv("KVC_CYCLES"); text != "" {
		_, err := fmt.Sscan(text, &count)
		must(t, err)
	}
	tokens, alive, before := sequence(0, 40), atomic.LoadInt64(&liveObjects), 0
	for number := 0; number < count; number++ {
		if number == count/4 {
			before = residentBytes(t)
		}
		m, err := New(Config{NumBlocks: 64, MaxRequests: 4, EventCapacity: 8})
		must(t, err)
		r, _, err := m.AllocateRequest(tokens, nil)
		must(t, err)
		must(t, m.CommitTokens(r, 40))
		s, err := m.NewStep(StepLimits{MaxRequests: 2, MaxTokens: 4, MaxRows: 2, RowStride: 8})
		must(t, err)
		must(t, s.Close())
		if number%64 == 0 {
			storage, err := NewStorage(StorageConfig{NumBlocks: 2, NumLayers: 1, NumHeads: 1, HeadDim: 8})
			must(t, err)
			must(t, storage.Close())
			scheduler, err := m.NewScheduler(SchedulerConfig{MaxRunning: 2, MaxTokens: 16}) // which the manager closes
			must(t, err)
			_, err = scheduler.Add(tokens, 4, &ScheduleOptions{Inputs: []EncoderInput{{0, 2}}})
			must(t, err)
			_, err = scheduler.Plan(0)
			must(t, err)
		}
		must(t, m.Close())
	}
	if left := atomic.LoadInt64(&liveObjects) - alive; left != 0 {
		t.Fatal(left, "objects are left")
	}
	grown := residentBytes(t) - before
	t.Logf("%d lives: %.1f MiB more memory than after a quarter of them", count, float64(grown)/(1<<20))
	if grown > 48<<20 { // the collector's own heap comes and goes
		t.Fatal(grown, "bytes more")
	}
}
