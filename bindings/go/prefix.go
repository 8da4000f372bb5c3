// SPDX-License-Identifier: Apache-2.0

package kvcache

// #include <kvcache.h>
import "C"

import (
	"unsafe"

	"libkvcache/bindings/go/internal/native"
)

// Namespace is the id of an open namespace: requests of different ones never share. 0 is the default one.
type Namespace uint64

// Pin keeps a prefix from eviction until Unpin.
type Pin uint64

// Identity is everything that makes KV of equal tokens different. nil is absent; empty is present, which is different.
type Identity struct{ Model, Adapter, Tenant []byte }

// Kinds of events and states of blocks.
const (
	EventStored  = C.KVC_EVENT_STORED
	EventRemoved = C.KVC_EVENT_REMOVED
	EventCleared = C.KVC_EVENT_CLEARED

	BlockFree     = C.KVC_BLOCK_FREE
	BlockCached   = C.KVC_BLOCK_CACHED
	BlockPinned   = C.KVC_BLOCK_PINNED
	BlockReserved = C.KVC_BLOCK_RESERVED
	BlockLive     = C.KVC_BLOCK_LIVE
	BlockFilling  = C.KVC_BLOCK_FILLING
	BlockFenced   = C.KVC_BLOCK_FENCED
)

// OpenNamespace opens the namespace of an identity; opening it again gives the same id and must be closed as often.
func (m *Manager) OpenNamespace(identity Identity) (namespace Namespace, err error) {
	var id uint64
	err = m.call(func(c uintptr) error {
		return native.Kvc_manager_open_namespace(c, identity.Model, identity.Adapter, identity.Tenant, &id)
	})
	return Namespace(id), err
}

// CloseNamespace undoes one open. ErrBusy if it is the last and requests or pins exist.
func (m *Manager) CloseNamespace(namespace Namespace) error {
	return m.call(func(c uintptr) error { return native.Kvc_manager_close_namespace(c, uint64(namespace)) })
}

// Reset forgets everything cached in a namespace (0 = all) in constant time.
func (m *Manager) Reset(namespace Namespace) error {
	return m.call(func(c uintptr) error { return native.Kvc_manager_reset(c, uint64(namespace)) })
}

// Probe asks what would hit and whether it fits; it changes nothing.
func (m *Manager) Probe(namespace Namespace, tokens []int32, keys []ExtraKey) (info ProbeInfo, err error) {
	info.size = uint64(unsafe.Sizeof(info))
	err = m.call(func(c uintptr) error {
		return native.Kvc_manager_probe(c, uint64(namespace), tokens, asBytes(keys), asByte(&info))
	})
	return info, err
}

// PinPrefix keeps the cached part of a prefix from eviction. ErrNotFound if not even one block is cached.
func (m *Manager) PinPrefix(namespace Namespace, tokens []int32, keys []ExtraKey) (pin Pin, pinned int, err error) {
	var id, count uint64
	err = m.call(func(c uintptr) error {
		return native.Kvc_manager_pin_prefix(c, uint64(namespace), tokens, asBytes(keys), &id, &count)
	})
	return Pin(id), int(count), err
}

// Unpin ends a pin.
func (m *Manager) Unpin(pin Pin) error {
	return m.call(func(c uintptr) error { return native.Kvc_manager_unpin_prefix(c, uint64(pin)) })
}

// DropPrefix drops every cached block of these tokens that nobody holds.
func (m *Manager) DropPrefix(namespace Namespace, tokens []int32, keys []ExtraKey) (dropped int, err error) {
	var count uint64
	err = m.call(func(c uintptr) error {
		return native.Kvc_manager_drop_prefix(c, uint64(namespace), tokens, asBytes(keys), &count)
	})
	return int(count), err
}

// EvictBlocks evicts up to maxBlocks cached blocks in policy order.
func (m *Manager) EvictBlocks(maxBlocks int) (evicted int, err error) {
	var count uint64
	err = m.call(func(c uintptr) error { return native.Kvc_manager_evict_blocks(c, uint64(maxBlocks), &count) })
	return int(count), err
}

// AcquireBlocks takes blocks with one raw hold each, all or nothing.
func (m *Manager) AcquireBlocks(group uint32, blocks []int32) error {
	return m.call(func(c uintptr) error { return native.Kvc_manager_acquire_blocks(c, group, blocks) })
}

// AcquirePrefix takes a raw hold on the cached blocks of a prefix in one group; -1 where a window needs none.
func (m *Manager) AcquirePrefix(namespace Namespace, group uint32, tokens []int32, keys []ExtraKey) ([]int32, error) {
	return grown(func(room []int32) (count uint64, err error) {
		err = m.call(func(c uintptr) error {
			return native.Kvc_manager_acquire_prefix(c, uint64(namespace), group, tokens, asBytes(keys), room, &count)
		})
		return count, err
	})
}

// PublishBlocks publishes raw-held blocks as the KV of the tokens that they have room for, which must be written.
func (m *Manager) PublishBlocks(namespace Namespace, group uint32, tokens []int32, keys []ExtraKey, blocks []int32) error {
	return m.call(func(c uintptr) error {
		return native.Kvc_manager_publish_blocks(c, uint64(namespace), group, tokens, asBytes(keys), blocks)
	})
}

// ReleaseBlocks gives back one raw hold per entry, all or nothing.
func (m *Manager) ReleaseBlocks(blocks []int32) error {
	return m.call(func(c uintptr) error { return native.Kvc_manager_release_blocks(c, blocks) })
}

// UnpublishBlocks makes blocks unfindable, whoever holds them, because their bytes turned out to be wrong; it says how many were findable.
func (m *Manager) UnpublishBlocks(blocks []int32) (unpublished int, err error) {
	var count uint64
	err = m.call(func(c uintptr) error { return native.Kvc_manager_unpublish_blocks(c, blocks, &count) })
	return int(count), err
}

// Events reads up to len(events) events from a cursor on, without removing them, and returns how many and the cursor to go
// on with. Their tokens, NumTokens each, are written to tokens, if it is not nil; reading stops where they do not fit.
func (m *Manager) Events(cursor uint64, events []Event, tokens []int32) (count int, next uint64, err error) {
	var read uint64
	err = m.call(func(c uintptr) error {
		return native.Kvc_manager_poll_events(c, cursor, asBytes(events), tokens, &next, &read)
	})
	return int(read), next, err
}
