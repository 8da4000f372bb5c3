// SPDX-License-Identifier: Apache-2.0

package kvcache

// #include <kvcache.h>
import "C"

import "unsafe"

// Structs of kvcache.h with the same layout, so that the library fills them in place. The size that each passes is its own:
// a newer library with longer structs fills what is here.

// Stats are counters since creation and gauges, as of the last finished call.
type Stats struct {
	size                                                                                                                          uint64
	Epoch                                                                                                                         uint64
	BlocksTotal, BlocksFree, BlocksCached, BlocksLive, BlocksReserved, BlocksFilling, BlocksFenced, BlocksPinned                  uint64
	LiveRequests, WaitingRequests, Admissions, PromptTokens, CachedTokens, BlockQueries, BlockHits, LostReuseTokens, Readmissions uint64
	Refusals, Preemptions, Evictions, Copies, Duplicates, PublishedBlocks, UnpublishedBlocks, RejectedCandidates                  uint64
	NodesUsed, MetadataBytes                                                                                                      uint64
}

// RequestInfo is the state of a request; Admitted is 0 while it waits.
type RequestInfo struct {
	size                                                                                                               uint64
	NamespaceID, UserData, NumTokens, NumCommitted, NumCached, Capacity, NumBlocks, LostReuseTokens, MinTruncateTokens uint64
	Admitted, Flags                                                                                                    uint32
}

// ProbeInfo says what would hit, and whether it fits: BlocksNeeded + watermark <= BlocksAvailable.
type ProbeInfo struct {
	size                                                      uint64
	NumCached, BlocksNeeded, BlocksAvailable, LostReuseTokens uint64
}

// BlockInfo is the state of one block; State is a Block* constant.
type BlockInfo struct {
	size                                                        uint64
	TokenOffset                                                 uint64
	State, Pool, Requests, RawHolds, Pins, Published, NumCopies uint32
	Group                                                       int32
}

// PoolInfo are the counts of a pool; the states sum to NumBlocks.
type PoolInfo struct {
	size                                                                         uint64
	FirstBlock, NumBlocks, Free, Cached, Live, Reserved, Filling, Fenced, Pinned uint64
}

// Properties are what a manager was made with, defaults filled in.
type Properties struct {
	size                                                                               uint64
	NumBlocks, MaxNodes, MaxRequests, MaxRequestTokens, EventCapacity, WatermarkBlocks uint64
	BlockSize, VocabSize, Policy, Flags, NumGroups, NumPools                           uint32
}

// Event is what became findable or went away; Kind is an Event* constant. A jump of Sequence means that events were lost.
type Event struct {
	Sequence, TimeNs, Epoch, NamespaceID, Node, ParentNode, TokenOffset uint64
	Kind, Group, NumTokens                                              uint32
	Block                                                               int32
	Digest, ParentDigest, ExtraDigest                                   [32]byte
}

// ExtraKey is the identity of a span of tokens whose ids alone do not identify it (an image).
type ExtraKey struct {
	FirstToken, NumTokens uint64
	Digest                [32]byte
}

// BlockCopy asks for the contents of block Source in block Destination.
type BlockCopy struct{ Source, Destination int32 }

// TableChange says that BlockTables[Group][Row][Column] became Block.
type TableChange struct{ Group, Row, Column, Block int32 }

// sizesInC are compared with those above by a test.
var sizesInC = map[string]uintptr{
	"Stats": C.sizeof_kvc_stats, "RequestInfo": C.sizeof_kvc_request_info, "ProbeInfo": C.sizeof_kvc_probe_info,
	"BlockInfo": C.sizeof_kvc_block_info, "PoolInfo": C.sizeof_kvc_pool_info, "Properties": C.sizeof_kvc_properties,
	"Event": C.sizeof_kvc_event, "ExtraKey": C.sizeof_kvc_extra_key, "BlockCopy": C.sizeof_kvc_block_copy,
	"TableChange": C.sizeof_kvc_table_change, "requestConfig": C.sizeof_kvc_request_config,
	"Metrics": C.sizeof_kvc_quant_metrics, "MemoryEstimate": C.sizeof_kvc_memory_estimate, "Run": C.sizeof_kvc_run,
}

// asByte is what the native layer takes for a struct.
func asByte[T any](value *T) *byte { return (*byte)(unsafe.Pointer(value)) }

// asBytes is an array of structs in place.
func asBytes[T any](values []T) []byte {
	if len(values) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&values[0])), len(values)*int(unsafe.Sizeof(values[0])))
}
