// SPDX-License-Identifier: Apache-2.0

package kvcache

// #include <kvcache.h>
import "C"

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"sort"
	"strings"
	"unsafe"

	"github.com/libkvcache/libkvcache/bindings/go/internal/native"
)

// MetricsSource is an object whose metrics are wanted, with its labels.
type MetricsSource struct {
	Object any               // A *Manager, *Storage, *Tier, *Offload or *Scheduler.
	Labels map[string]string // Names are letters, digits and _; none that docs/METRICS.md has.
}

// RenderMetrics returns the metrics of objects as OpenMetrics text, for Prometheus: answer /metrics with it, as application/openmetrics-text;
// version=1.0.0; charset=utf-8. No two objects of one kind may have the same labels. vllmNames adds the names of vLLM for what has the same meaning there.
// It changes nothing. Errors: ErrInvalidArgument (labels, or an object of another kind), ErrClosed, ErrOutOfMemory.
func RenderMetrics(sources []MetricsSource, vllmNames bool) ([]byte, error) {
	objects, texts, counts, flags := make([]any, len(sources)), []byte(nil), make([]uint64, len(sources)), uint32(0)
	sorted := append([]MetricsSource(nil), sources...)
	sort.SliceStable(sorted, func(i, j int) bool { return rankOf(sorted[i].Object) < rankOf(sorted[j].Object) })
	for i, source := range sorted {
		objects[i], counts[i] = source.Object, uint64(len(source.Labels))
		for name, value := range source.Labels {
			if strings.ContainsRune(name+value, 0) {
				return nil, invalid("the label %q is %q; it must have no zero byte", name, value)
			}
			texts = append(append(append(append(texts, name...), 0), value...), 0)
		}
	}
	if vllmNames {
		flags = C.KVC_METRICS_VLLM_NAMES
	}
	for size := 1 << 16; ; size *= 4 {
		room, count := make([]byte, size), uint64(0)
		err := withObjects(objects, func(o *addresses) error {
			return native.Kvc_metrics_render(o[0], o[1], o[2], o[3], o[4], texts, counts, flags, room, &count)
		})
		if err == nil {
			return room[:count], nil
		}
		if !errors.Is(err, ErrBufferTooSmall) {
			return nil, err
		}
	}
}

// EnableLatencies makes objects measure their calls until they are closed. Each latency takes 19 KiB. No result of a call depends on it. No other call on
// the objects may run: do it right after their creation. Doing it twice changes nothing. Errors as RenderMetrics.
func EnableLatencies(objects ...any) error {
	return withObjects(objects, func(o *addresses) error { return native.Kvc_metrics_enable_latencies(o[0], o[1], o[2], o[3], o[4]) })
}

// ReadLatency returns one latency of an object. Errors: ErrInvalidArgument (it has no such latency), ErrBusy (not enabled), ErrClosed.
func ReadLatency(object any, kind LatencyKind) (latency Latency, err error) {
	latency.size = uint64(unsafe.Sizeof(latency))
	err = withObjects([]any{object}, func(o *addresses) error {
		return native.Kvc_metrics_read_latency(o[0], o[1], o[2], o[3], o[4], uint32(kind), asByte(&latency))
	})
	return latency, err
}

// ReadMemory returns the memory of objects by kind. Errors: ErrInvalidArgument, ErrClosed.
func ReadMemory(objects ...any) (profile MemoryProfile, err error) {
	profile.size = uint64(unsafe.Sizeof(profile))
	err = withObjects(objects, func(o *addresses) error {
		return native.Kvc_metrics_read_memory(o[0], o[1], o[2], o[3], o[4], asByte(&profile))
	})
	return profile, err
}

// addresses are those of managers, storages, tiers, offloads and schedulers.
type addresses [5][]uintptr

// rankOf is the index in addresses; -1 = an object of another kind, or nil.
func rankOf(object any) int {
	if object == nil || reflect.ValueOf(object).Kind() != reflect.Ptr || reflect.ValueOf(object).IsNil() {
		return -1
	}
	switch object.(type) {
	case *Manager:
		return 0
	case *Storage:
		return 1
	case *Tier:
		return 2
	case *Offload:
		return 3
	case *Scheduler:
		return 4
	}
	return -1
}

// lockOrder is the order in which kinds are locked: a manager before its schedulers; storages last, as withStorages does.
var lockOrder = [5]int{0, 4, 1, 3, 2}

// withObjects runs a function with the addresses of open objects, in their order. Close waits for it. Objects are locked in one order, so that two calls with
// the same objects never wait for each other.
func withObjects(objects []any, function func(o *addresses) error) error {
	defer runtime.KeepAlive(objects)
	held := map[any]bool{}
	for _, object := range objects {
		if rankOf(object) < 0 {
			return invalid("%s has no metrics; give a *Manager, *Storage, *Tier, *Offload or *Scheduler", fmt.Sprintf("%T", object))
		}
		held[object] = true
		if s, ok := object.(*Scheduler); ok {
			held[s.m] = true
		}
	}
	all := make([]any, 0, len(held))
	for object := range held {
		all = append(all, object)
	}
	sort.Slice(all, func(i, j int) bool {
		a, b := lockOrder[rankOf(all[i])], lockOrder[rankOf(all[j])]
		return a < b || a == b && reflect.ValueOf(all[i]).Pointer() < reflect.ValueOf(all[j]).Pointer()
	})
	opened := map[any]uintptr{}
	first := sort.Search(len(all), func(i int) bool { return rankOf(all[i]) == 1 }) // storages are the last
	for i, object := range all {
		if i == first {
			several.Lock()
		}
		switch o := object.(type) {
		case *Manager:
			o.mu.RLock()
			defer o.mu.RUnlock()
			opened[object] = o.c
		case *Storage:
			o.mu.RLock()
			defer o.mu.RUnlock()
			opened[object] = o.c
		case *Tier:
			o.mu.RLock()
			defer o.mu.RUnlock()
			opened[object] = o.c
		case *Offload:
			o.inner.one.Lock() // calls must not overlap
			defer o.inner.one.Unlock()
			o.inner.mu.RLock()
			defer o.inner.mu.RUnlock()
			opened[object] = o.inner.c
		case *Scheduler:
			o.mu.Lock()
			defer o.mu.Unlock()
			opened[object] = o.c
		}
	}
	if first < len(all) {
		several.Unlock()
	}
	var found addresses
	for _, object := range objects {
		if opened[object] == 0 {
			return ErrClosed
		}
		found[rankOf(object)] = append(found[rankOf(object)], opened[object])
	}
	return function(&found)
}
