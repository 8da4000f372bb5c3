// SPDX-License-Identifier: Apache-2.0

package kvcache

import (
	"errors"

	"github.com/libkvcache/libkvcache/bindings/go/internal/native"
)

// Rebuilt is what Rebuild made.
type Rebuilt struct {
	Manager    *Manager
	Copies     []TokenCopy             // To execute before the manager admits a request, by group, destination and new offset.
	Namespaces map[Namespace]Namespace // New ids by old ones.
}

// Rebuild creates a manager of another configuration that has what this one has cached: the way to change the block size, the number of
// blocks or the policy. config.Groups are those of this manager. This manager stays as it is; close it when the copies are done. A smaller pool
// keeps what would be evicted last. ErrBusy while requests are admitted, blocks held or steps in flight; ErrUnsupported for groups with a window.
func (m *Manager) Rebuild(config Config) (*Rebuilt, error) {
	var copies []TokenCopy
	var pairs []namespacePair
	var numCopies, numPairs uint64
	made, err := create(config, func(c *byte, address *uintptr) error {
		return m.call(func(old uintptr) error {
			for size := 1024; ; size *= 4 {
				copies, pairs = make([]TokenCopy, size), make([]namespacePair, size)
				err := native.Kvc_manager_rebuild(old, c, asBytes(copies), asBytes(pairs), address, &numCopies, &numPairs)
				if !errors.Is(err, ErrBufferTooSmall) {
					return err
				}
			}
		})
	})
	if err != nil {
		return nil, err
	}
	namespaces := map[Namespace]Namespace{}
	for _, pair := range pairs[:numPairs] {
		namespaces[Namespace(pair.oldID)] = Namespace(pair.newID)
	}
	return &Rebuilt{made, copies[:numCopies], namespaces}, nil
}

// CopyTokens copies tokens from another storage of the same layers, heads, types and scales, whose block size may differ, bit by bit, in memory of
// the host. ErrUnsupported for memory of a device, tiled keys and channel keys.
func (s *Storage) CopyTokens(from *Storage, copies []TokenCopy) error {
	return from.call(func(source uintptr) error {
		return s.call(func(c uintptr) error { return native.Kvc_storage_copy_tokens(source, c, asBytes(copies)) })
	})
}
