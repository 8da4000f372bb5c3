// SPDX-License-Identifier: Apache-2.0

package kvcache

// #include <kvcache.h>
import "C"

import (
	"unsafe"

	"github.com/libkvcache/libkvcache/bindings/go/internal/native"
)

// Namespace is the id of an open namespace. Requests of different namespaces never share blocks. 0 is the default one.
type Namespace uint64

// Pin is the id of a pin, which protects a prefix from eviction until Unpin.
type Pin uint64

// Identity is all that makes the KV of equal tokens different. A part that is nil is absent; an empty one is present, which
// is different.
type Identity struct{ Model, Adapter, Tenant []byte }

// AllNamespaces stands for all namespaces together, in curves and in EventAllCleared. No namespace has this id.
const AllNamespaces Namespace = C.KVC_ALL_NAMESPACES

// OpenNamespace opens the namespace with this identity. Opening an identity again returns the same id; close it as often.
func (m *Manager) OpenNamespace(identity Identity) (namespace Namespace, err error) {
	var id uint64
	err = m.call(func(c uintptr) error {
		return native.Kvc_manager_open_namespace(c, identity.Model, identity.Adapter, identity.Tenant, &id)
	})
	return Namespace(id), err
}

// SetPrefixCaching switches prefix caching off and on, for example to measure without it; a manager begins with it on. Off:
// admissions, Probe and AcquirePrefix find nothing, and nothing is published. Cached blocks stay until they are evicted, and can
// hit when it is on again; pins, registered prompts, hints and checkpoints are as ever. Admitted requests keep their blocks. A
// request that was admitted at any moment while it was off publishes nothing until it is preempted and admitted again. Rebuild
// and checkpoints do not carry the switch: set it again. Errors: ErrUnsupported (on, with NoPrefixCache).
func (m *Manager) SetPrefixCaching(on bool) error {
	var number uint32
	if on {
		number = 1
	}
	return m.call(func(c uintptr) error { return native.Kvc_manager_set_prefix_caching(c, number) })
}

// Namespaces lists the open namespaces besides the default one.
func (m *Manager) Namespaces() ([]Namespace, error) {
	return grown(func(room []Namespace) (count uint64, err error) {
		ids := unsafe.Slice((*uint64)(unsafe.Pointer(&room[0])), len(room))
		err = m.call(func(c uintptr) error { return native.Kvc_manager_list_namespaces(c, ids, &count) })
		return count, err
	})
}

// Probe asks whether a prompt would fit, and how much of it is cached. It changes nothing.
func (m *Manager) Probe(namespace Namespace, tokens []int32, keys []ExtraKey) (info ProbeInfo, err error) {
	info.size = uint64(unsafe.Sizeof(info))
	err = m.call(func(c uintptr) error {
		return native.Kvc_manager_probe(c, uint64(namespace), tokens, asBytes(keys), asByte(&info))
	})
	return info, err
}

// PinPrefix protects the cached part of a prefix from eviction. ErrNotFound if no block is cached.
func (m *Manager) PinPrefix(namespace Namespace, tokens []int32, keys []ExtraKey) (pin Pin, pinned int, err error) {
	var id, count uint64
	err = m.call(func(c uintptr) error {
		return native.Kvc_manager_pin_prefix(c, uint64(namespace), tokens, asBytes(keys), &id, &count)
	})
	return Pin(id), int(count), err
}

// Pins lists all pins.
func (m *Manager) Pins() ([]Pin, error) {
	return grown(func(room []Pin) (count uint64, err error) {
		ids := unsafe.Slice((*uint64)(unsafe.Pointer(&room[0])), len(room))
		err = m.call(func(c uintptr) error { return native.Kvc_manager_list_pins(c, ids, &count) })
		return count, err
	})
}

// DropPrefix drops the cached blocks of these tokens that nobody holds.
func (m *Manager) DropPrefix(namespace Namespace, tokens []int32, keys []ExtraKey) (dropped int, err error) {
	var count uint64
	err = m.call(func(c uintptr) error {
		return native.Kvc_manager_drop_prefix(c, uint64(namespace), tokens, asBytes(keys), &count)
	})
	return int(count), err
}

// EvictBlocks evicts up to maxBlocks cached blocks in the order of the policy. pool is the index of a pool; -1 = all, pool by pool.
func (m *Manager) EvictBlocks(pool int32, maxBlocks int) (evicted int, err error) {
	var count uint64
	err = m.call(func(c uintptr) error {
		if err := notNegative("maxBlocks", maxBlocks); err != nil {
			return err
		}
		return native.Kvc_manager_evict_blocks(c, pool, uint64(maxBlocks), &count)
	})
	return int(count), err
}

// AcquireBlocks takes blocks of a group's pool, all or nothing. Each gets one external hold.
func (m *Manager) AcquireBlocks(group uint32, blocks []int32) error {
	return m.call(func(c uintptr) error { return native.Kvc_manager_acquire_blocks(c, group, blocks) })
}

// AcquirePrefix takes an external hold on each cached block of a prefix in one group; -1 where a window does not need the block.
func (m *Manager) AcquirePrefix(namespace Namespace, group uint32, tokens []int32, keys []ExtraKey) ([]int32, error) {
	return grown(func(room []int32) (count uint64, err error) {
		err = m.call(func(c uintptr) error {
			return native.Kvc_manager_acquire_prefix(c, uint64(namespace), tokens, asBytes(keys), group, room, &count)
		})
		return count, err
	})
}

// PublishBlocks publishes externally held blocks as the KV of the first tokens, which must be written. ErrNotHeld for a block
// without an external hold.
func (m *Manager) PublishBlocks(namespace Namespace, group uint32, tokens []int32, keys []ExtraKey, blocks []int32) error {
	return m.call(func(c uintptr) error {
		return native.Kvc_manager_publish_blocks(c, uint64(namespace), tokens, asBytes(keys), group, blocks)
	})
}

// ReleaseBlocks releases one external hold per entry, all or nothing.
func (m *Manager) ReleaseBlocks(blocks []int32) error {
	return m.call(func(c uintptr) error { return native.Kvc_manager_release_blocks(c, blocks) })
}

// UnpublishBlocks makes blocks unfindable because their bytes are wrong, for example after a failed load. It returns how many
// were published. Cached blocks become free; held blocks stay with their holders.
func (m *Manager) UnpublishBlocks(blocks []int32) (unpublished int, err error) {
	var count uint64
	err = m.call(func(c uintptr) error { return native.Kvc_manager_unpublish_blocks(c, blocks, &count) })
	return int(count), err
}

// Events reads up to len(events) events, 1 at least, from a cursor on (0 at first), without removing them. It returns their number,
// 0 if there are no more, and the next cursor; if that is more than cursor + count, the events between are lost. If tokens is not empty, it receives the tokens of the events, NumTokens each, and has
// room for a block at least; reading stops before an event whose tokens do not fit.
func (m *Manager) Events(cursor uint64, events []Event, tokens []int32) (count int, next uint64, err error) {
	var read uint64
	err = m.call(func(c uintptr) error {
		return native.Kvc_manager_poll_events(c, cursor, asBytes(events), tokens, &next, &read)
	})
	return int(read), next, err
}

// Prefixes lists what can be found, up to len(events) entries from a cursor on (0 at first): an EventStored for each prefix position
// and group, in no particular order. It returns their number and the next cursor, 0 at the end. The first call also returns the
// event cursor: list everything, then apply the Events from there on. events and tokens as for Events.
func (m *Manager) Prefixes(cursor uint64, events []Event, tokens []int32) (count int, next, eventCursor uint64, err error) {
	var read uint64
	err = m.call(func(c uintptr) error {
		return native.Kvc_manager_list_prefixes(c, cursor, asBytes(events), tokens, &next, &eventCursor, &read)
	})
	return int(read), next, eventCursor, err
}
