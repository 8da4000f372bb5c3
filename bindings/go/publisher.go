// SPDX-License-Identifier: Apache-2.0

package kvcache

// #include <kvcache.h>
import "C"

import (
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/libkvcache/libkvcache/bindings/go/internal/native"
)

// PublisherConfig is how events are published: kvc_publisher_config, with its defaults for what is not set.
type PublisherConfig struct {
	URL      string // Transport, such as zmq:tcp://*:5557?replay=tcp://*:5558; "" = none: Read gives the batches.
	Topic    string // First frame of each message.
	Medium   string // Where the blocks are; "" = "GPU".
	Hash     PublisherHash
	HashSeed string // With PublisherVLLM its PYTHONHASHSEED; "" = vLLM's own default.

	Thread      bool   // A thread of its own publishes; else Poll does.
	Arrays      bool   // Events are arrays, as before vLLM 0.26, not maps.
	BytesHashes bool   // Hashes are 32 bytes, not integers.
	NoRank      bool   // The rank is nil.
	NoGroups    bool   // Events name no group. Only one may be published then.
	Rank        uint32 // Data parallel rank.
	Groups      uint64 // Bit g publishes group g; 0 = all.

	MaxBlocks, ReplayBatches uint32        // Of a batch, 0 = 1024; to keep, 0 = 10,000.
	ReplayBytes              uint64        // 0 = 64 MiB.
	Interval, ResyncInterval time.Duration // Between looks of the thread, 0 = 10 ms, at most 1 s; between resyncs that subscribers start, 0 = 10 s.
}

// NamespaceNames is what subscribers know of a namespace: kvc_publisher_namespace. "" = absent.
type NamespaceNames struct {
	LoraName, LoraPath, CacheSalt string
}

// Publisher publishes a manager's events: kvc_publisher. Any goroutine may call it. Create it with NewPublisher, free it with Close. Closing the
// manager closes it.
type Publisher struct {
	m  *Manager
	mu sync.RWMutex // Held for reading by every call: Close waits for them.
	c  uintptr
}

// NewPublisher creates a publisher of a manager with events. Errors: ErrInvalidArgument, ErrUnsupported (no events; the plug-in is no transport),
// ErrNotFound (the plug-in), ErrBusy (an address in use), ErrOutOfMemory.
func NewPublisher(m *Manager, config PublisherConfig) (*Publisher, error) {
	if config.Interval < 0 || config.ResyncInterval < 0 {
		return nil, invalid("Interval is %v, ResyncInterval %v; neither may be negative", config.Interval, config.ResyncInterval)
	}
	flags := uint32(0)
	for _, flag := range []struct {
		set bool
		bit uint32
	}{{config.Thread, C.KVC_PUBLISHER_THREAD}, {config.Arrays, C.KVC_PUBLISHER_ARRAYS}, {config.BytesHashes, C.KVC_PUBLISHER_BYTES},
		{config.NoRank, C.KVC_PUBLISHER_NO_RANK}, {config.NoGroups, C.KVC_PUBLISHER_NO_GROUPS}} {
		if flag.set {
			flags |= flag.bit
		}
	}
	var address uintptr
	p := &Publisher{m: m}
	err := m.call(func(c uintptr) error {
		err := native.Kvc_publisher_create(c, config.URL, config.Topic, config.Medium, config.HashSeed, config.Groups, uint64(config.Interval),
			config.ReplayBytes, uint64(config.ResyncInterval), config.ReplayBatches, config.MaxBlocks, config.Rank, uint32(config.Hash), flags, &address)
		if err == nil {
			p.c = address
			m.owned.Store(p, nil)
			atomic.AddInt64(&liveObjects, 1)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Close publishes what has happened until now, and ends the publisher. Closing again does nothing.
func (p *Publisher) Close() error {
	if err := p.m.call(func(uintptr) error { p.destroy(); return nil }); err != ErrClosed {
		return err
	}
	return nil
}

func (p *Publisher) destroy() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.c == 0 {
		return
	}
	p.m.owned.Delete(p)
	C.kvc_publisher_destroy((*C.kvc_publisher)(*(*unsafe.Pointer)(unsafe.Pointer(&p.c))))
	p.c = 0
	atomic.AddInt64(&liveObjects, -1)
}

func (p *Publisher) call(function func(c uintptr) error) error {
	return p.m.call(func(uintptr) error {
		p.mu.RLock()
		defer p.mu.RUnlock()
		if p.c == 0 {
			return ErrClosed
		}
		return function(p.c)
	})
}

// Read returns the first batch that is kept and whose number is not below sequence, in MessagePack, and its number. ErrNotFound: there is none yet.
func (p *Publisher) Read(sequence uint64) (number uint64, batch []byte, err error) {
	batch, err = grown(func(room []byte) (count uint64, err error) {
		err = p.call(func(c uintptr) error { return native.Kvc_publisher_read(c, sequence, room, &number, &count) })
		return count, err
	})
	return number, batch, err
}

// NameNamespace says what subscribers know of a namespace, before it has blocks.
func (p *Publisher) NameNamespace(namespace Namespace, names NamespaceNames) error {
	return p.call(func(c uintptr) error {
		return native.Kvc_publisher_name_namespace(c, uint64(namespace), names.LoraName, names.LoraPath, names.CacheSalt)
	})
}
