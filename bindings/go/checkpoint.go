// SPDX-License-Identifier: Apache-2.0

package kvcache

// #include <kvcache.h>
import "C"

import (
	"bytes"
	"errors"
	"sync"
	"time"

	"github.com/libkvcache/libkvcache/bindings/go/internal/native"
)

// CheckpointConfig says how to save, restore and compact a checkpoint: kvc_checkpoint_config. Folder has no default.
type CheckpointConfig struct {
	Folder string     // Save makes it if it is not there; what it is in must be.
	Pages  PageConfig // Save and restore: what computed the blocks. Model, Weights and Numerics must be the same in both.
	Codec  string     // Save and compact: "none", or a plug-in: "lz4", "zstd"; "" = "none".
	Level  int32      // Of the codec; 0 = its default.
	ID     uint64     // Restore and compact: which checkpoint; 0 = the newest.

	Full           bool // Save: write all pages, in one file.
	Increment      bool // Save: fail with ErrNotFound if there is no checkpoint to build on.
	Requests       bool // Save the requests too, as their tokens. Restore: make them wait again.
	NoSync         bool // Do not wait for the disk: a checkpoint survives the end of the process, but perhaps not of the machine.
	BytesElsewhere bool // Restore groups without a storage too: you bring their bytes, or have them still; all blocks must keep their ids.

	KeepLast uint32 // Save and compact: remove checkpoints but for the newest so many; 0 = keep all.
	// Save: do nothing, with ID 0 as the result, until NowNs is LastNs + Interval. Give NowNs of the save before as LastNs. 0 = save.
	Interval      time.Duration
	LastNs, NowNs uint64
}

func (config *CheckpointConfig) flags() (flags uint32) {
	for flag, set := range map[uint32]bool{C.KVC_CHECKPOINT_FULL: config.Full, C.KVC_CHECKPOINT_INCREMENT: config.Increment,
		C.KVC_CHECKPOINT_REQUESTS: config.Requests, C.KVC_CHECKPOINT_NO_SYNC: config.NoSync,
		C.KVC_CHECKPOINT_BYTES_ELSEWHERE: config.BytesElsewhere} {
		if set {
			flags |= flag
		}
	}
	return flags
}

func (config *CheckpointConfig) codec() string {
	if config.Codec == "" {
		return "none"
	}
	return config.Codec
}

// CheckpointInfo is what a checkpoint has: kvc_checkpoint_info.
type CheckpointInfo struct {
	ID                      uint64 // Never 0, but when a save was not due.
	NumFiles, FileBytes     uint64 // Files that it needs, and the bytes of all of them.
	WrittenBytes            uint64 // That this save or compaction wrote; else of its own files.
	PageBytes, StoredBytes  uint64 // Of all its pages, and the same as they are stored.
	NumPages, NewPages      uint64 // Blocks with bytes; of these, in its own data file.
	NumBlocks, NumPositions uint64 // Blocks, with or without bytes; prefix positions.
	NumNamespaces           uint64 // But for the default one.
	NumRequests             uint64
	LostBlocks              uint64 // Save: blocks that were evicted before they were written; they are left out.
	LeftOut                 uint64 // Restore: blocks for which there was no room.
	NotRemoved              uint64 // Save, compact: old files that could not be removed; the next save tries again.
	Version                 uint32 // Of the format.
	BlockSize, NumGroups    uint32
	IDsKept                 bool     // Restore: all blocks have the ids that they had.
	Content                 [32]byte // ContentDigest of the manager that was saved.
	Codec, Model, Weights   string   // Of its own data file; of the names the first bytes, other than printable ones as '?'.
}

// readCheckpoint makes a call that fills an info.
func readCheckpoint(call func(info *byte) error) (CheckpointInfo, error) {
	c := C.kvc_checkpoint_info{struct_size: C.sizeof_kvc_checkpoint_info}
	err := call(asByte(&c))
	info := CheckpointInfo{ID: uint64(c.id), NumFiles: uint64(c.num_files), FileBytes: uint64(c.file_bytes), WrittenBytes: uint64(c.written_bytes),
		PageBytes: uint64(c.page_bytes), StoredBytes: uint64(c.stored_bytes), NumPages: uint64(c.num_pages), NewPages: uint64(c.new_pages),
		NumBlocks: uint64(c.num_blocks), NumPositions: uint64(c.num_positions), NumNamespaces: uint64(c.num_namespaces),
		NumRequests: uint64(c.num_requests), LostBlocks: uint64(c.lost_blocks), LeftOut: uint64(c.left_out), NotRemoved: uint64(c.not_removed),
		Version: uint32(c.version), BlockSize: uint32(c.block_size), NumGroups: uint32(c.num_groups), IDsKept: c.ids_kept != 0,
		Codec: textOf(asBytes(c.codec[:])), Model: textOf(asBytes(c.model[:])), Weights: textOf(asBytes(c.weights[:]))}
	copy(info.Content[:], asBytes(c.content[:]))
	return info, err
}

// textOf is an array of C up to its zero.
func textOf(array []byte) string {
	before, _, _ := bytes.Cut(array, []byte{0})
	return string(before)
}

// several is held while storages are locked, so that two calls with the same storages do not wait for each other.
var several sync.Mutex

// withStorages runs a function with the addresses of open storages, one for each group; nil = none. Close waits for it.
func withStorages(storages []*Storage, function func(addresses []uintptr) error) error {
	addresses, held := make([]uintptr, len(storages)), map[*Storage]bool{nil: true}
	several.Lock()
	for _, s := range storages {
		if !held[s] {
			s.mu.RLock()
			defer s.mu.RUnlock()
			held[s] = true
		}
	}
	several.Unlock()
	for i, s := range storages {
		if s != nil && s.c == 0 {
			return ErrClosed
		} else if s != nil {
			addresses[i] = s.c
		}
	}
	return function(addresses)
}

// SaveCheckpoint saves what the manager has cached, with the bytes of its blocks. The manager may serve meanwhile. storages: one in memory of the host for
// each group; nil = its blocks are saved without bytes. A failed save leaves all earlier checkpoints as they were. Errors: ErrInvalidArgument, ErrNotFound
// (Increment without a base, the codec, the folder's parent), ErrBusy (another process writes to the folder), ErrLimit (the disk is full), ErrDevice,
// ErrUnsupported (channel keys), ErrOutOfMemory.
func (m *Manager) SaveCheckpoint(storages []*Storage, config CheckpointConfig) (CheckpointInfo, error) {
	if config.Interval < 0 {
		return CheckpointInfo{}, invalid("Interval is %v; it must not be negative", config.Interval)
	}
	p := config.Pages
	return readCheckpoint(func(info *byte) error {
		return m.call(func(c uintptr) error {
			return withStorages(storages, func(s []uintptr) error {
				return native.Kvc_checkpoint_save(c, s, p.Model, p.Weights, p.Numerics, p.NumLayers, p.NumHeads, p.FirstLayer, p.FirstHead, config.Folder,
					config.codec(), config.Level, config.flags(), config.KeepLast, uint64(config.Interval), config.LastNs, config.NowNs, info)
			})
		})
	})
}

// requestPair is kvc_request_pair.
type requestPair struct{ oldID, newID, numTokens, numCommitted uint64 }

// Restored is what RestoreCheckpoint made.
type Restored struct {
	Namespaces map[Namespace]Namespace // New ids by old ones.
	Requests   map[Request]Request     // With CheckpointConfig.Requests: those that wait again, new ids by old ones.
	Committed  map[Request]uint64      // How many tokens of each had been committed, by old ids; 0 = it waited.
	Info       CheckpointInfo
}

// RestoreCheckpoint fills a new manager, and the storages of its groups, with a checkpoint: its hits are those of the manager that was saved. Its number of
// blocks, the layout of its storages and its policy may be others. Nobody else may use the manager meanwhile. If it fails the manager is as it was; blocks of
// the storages, all of them free, may have other bytes. Errors: ErrNotFound, ErrCorrupt (a file does not check), ErrInvalidArgument (made for something
// else), ErrBusy (the manager is not new), ErrUnsupported (a group without a storage; a newer format; NoPrefixCache), ErrLimit, ErrOutOfMemory, ErrDevice.
func (m *Manager) RestoreCheckpoint(storages []*Storage, config CheckpointConfig) (Restored, error) {
	p, namespaces, requests := config.Pages, make([]namespacePair, 16), []requestPair(nil)
	for {
		info, err := readCheckpoint(func(info *byte) error {
			return m.call(func(c uintptr) error {
				return withStorages(storages, func(s []uintptr) error {
					return native.Kvc_checkpoint_restore(c, s, p.Model, p.Weights, p.Numerics, p.NumLayers, p.NumHeads, p.FirstLayer, p.FirstHead,
						config.Folder, config.ID, config.flags(), asBytes(namespaces), asBytes(requests), info)
				})
			})
		})
		more := info.NumNamespaces > uint64(len(namespaces)) || config.Requests && info.NumRequests > uint64(len(requests))
		if errors.Is(err, ErrBufferTooSmall) && more {
			namespaces, requests = make([]namespacePair, info.NumNamespaces+1), make([]requestPair, info.NumRequests)
			continue
		}
		if err != nil {
			return Restored{}, err
		}
		restored := Restored{map[Namespace]Namespace{}, map[Request]Request{}, map[Request]uint64{}, info}
		for _, pair := range namespaces[:info.NumNamespaces] {
			restored.Namespaces[Namespace(pair.oldID)] = Namespace(pair.newID)
		}
		for i := 0; config.Requests && uint64(i) < info.NumRequests; i++ {
			restored.Requests[Request(requests[i].oldID)] = Request(requests[i].newID)
			restored.Committed[Request(requests[i].oldID)] = requests[i].numCommitted
		}
		return restored, nil
	}
}

// ContentDigest is a digest of what the manager has cached, and in which order it would be evicted. It is equal in all processes, whatever the ids of blocks.
func (m *Manager) ContentDigest() (digest [32]byte, err error) {
	err = m.call(func(c uintptr) error { return native.Kvc_manager_content_digest(c, digest[:]) })
	return digest, err
}

// Checkpoints lists the ids of the checkpoints of a folder, oldest first. ErrNotFound: the folder.
func Checkpoints(folder string) ([]uint64, error) {
	return grown(func(room []uint64) (count uint64, err error) {
		err = native.Kvc_checkpoint_list(folder, room, &count)
		return count, err
	})
}

// ReadCheckpointInfo returns what a checkpoint has, without reading its pages. id: 0 = the newest. Errors: ErrNotFound, ErrCorrupt, ErrUnsupported (a newer
// format), ErrDevice, ErrOutOfMemory.
func ReadCheckpointInfo(folder string, id uint64) (CheckpointInfo, error) {
	return readCheckpoint(func(info *byte) error { return native.Kvc_checkpoint_read_info(folder, id, info) })
}

// ValidateCheckpoint reads and checks every byte of all files that a checkpoint needs. Errors as of ReadCheckpointInfo; the text of ErrCorrupt has the file
// and the place.
func ValidateCheckpoint(folder string, id uint64) (CheckpointInfo, error) {
	return readCheckpoint(func(info *byte) error { return native.Kvc_checkpoint_validate(folder, id, info) })
}

// RemoveCheckpoint removes a checkpoint, and the files that only it needs. Errors: ErrInvalidArgument (id 0), ErrNotFound, ErrBusy, ErrDevice.
func RemoveCheckpoint(folder string, id uint64) error {
	return native.Kvc_checkpoint_remove(folder, id)
}

// CompactCheckpoint makes a checkpoint of the same content with all its pages in one file, then removes the one that it was made from, and others as
// KeepLast says. It uses Folder, ID, Codec, Level, NoSync and KeepLast of the config. If it fails, nothing is removed.
func CompactCheckpoint(config CheckpointConfig) (CheckpointInfo, error) {
	return readCheckpoint(func(info *byte) error {
		return native.Kvc_checkpoint_compact(config.Folder, config.ID, config.codec(), config.Level, config.flags()&C.KVC_CHECKPOINT_NO_SYNC, config.KeepLast,
			info)
	})
}
