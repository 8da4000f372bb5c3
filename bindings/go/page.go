// SPDX-License-Identifier: Apache-2.0

package kvcache

import "github.com/libkvcache/libkvcache/bindings/go/internal/native"

// PageConfig is what must be equal for two processes to use each other's pages, and which part of them a storage has: kvc_page_config.
type PageConfig struct {
	Model, Weights        []byte // Must be given: name of the model, and version or digest of its weights.
	Numerics              []byte // What else changes values, such as kernels.
	NumLayers, NumHeads   uint32 // Layers and KV heads of a whole page, over all ranks; 0 = those of the storage.
	FirstLayer, FirstHead uint32 // Where the storage's layers and heads begin in the page.
}

// PageInfo are properties of the pages of a storage.
type PageInfo struct {
	Fingerprint [32]byte // For PageKeys and TierConfig.
	PageBytes   uint64   // Of a whole page.
	PartBytes   uint64   // Of the storage's part.
}

// PageInfo tells fingerprint and size of the pages of the storage: its blocks in an order that depends on no layout, device or number of ranks.
// Errors: ErrInvalidArgument, ErrUnsupported (channel keys).
func (s *Storage) PageInfo(config PageConfig) (info PageInfo, err error) {
	err = s.call(func(c uintptr) error {
		return native.Kvc_storage_page_properties(c, config.Model, config.Weights, config.Numerics, config.NumLayers, config.NumHeads, config.FirstLayer,
			config.FirstHead, info.Fingerprint[:], &info.PageBytes, &info.PartBytes)
	})
	return info, err
}

// PageRuns lists the storage's part of a page, ascending: JobOptions.Runs.
func (s *Storage) PageRuns(config PageConfig) ([]Run, error) {
	return grown(func(room []Run) (count uint64, err error) {
		err = s.call(func(c uintptr) error {
			return native.Kvc_storage_page_runs(c, config.Model, config.Weights, config.Numerics, config.NumLayers, config.NumHeads, config.FirstLayer,
				config.FirstHead, asBytes(room), &count)
		})
		return count, err
	})
}

// PackPages copies blocks in host memory to pages: of each the storage's part. Part i begins at pages[i*stride] (0 = PageInfo.PartBytes).
func (s *Storage) PackPages(blocks []int32, pages []byte, stride uint64) error {
	return s.call(func(c uintptr) error { return native.Kvc_storage_pack_pages(c, blocks, pages, stride) })
}

// UnpackPages copies pages to blocks: it reverses PackPages.
func (s *Storage) UnpackPages(blocks []int32, pages []byte, stride uint64) error {
	return s.call(func(c uintptr) error { return native.Kvc_storage_unpack_pages(c, blocks, pages, stride) })
}

// PositionDigests returns the digest of the prefix up to the end of each full block of a prompt, as Event.Digest. It changes nothing.
func (m *Manager) PositionDigests(namespace Namespace, tokens []int32, keys []ExtraKey) ([][32]byte, error) {
	return grown(func(room [][32]byte) (count uint64, err error) {
		err = m.call(func(c uintptr) error {
			return native.Kvc_manager_position_digests(c, uint64(namespace), tokens, asBytes(keys), asBytes(room), &count)
		})
		return count, err
	})
}

// PageKeys returns the keys of the pages of a group at these positions.
func PageKeys(digests [][32]byte, group uint32, fingerprint [32]byte) ([][32]byte, error) {
	keys := make([][32]byte, len(digests))
	err := native.Kvc_page_key(asBytes(digests), group, fingerprint[:], asBytes(keys))
	return keys, err
}
