// SPDX-License-Identifier: Apache-2.0

package kvcache

// #include <kvcache.h>
import "C"

import "unsafe"

// Structs of the C headers with the same layout, so that the library fills them in place. Each passes its own size: a newer
// library with longer structs fills the fields that are here.

// Stats has counters since creation, and gauges, as of the last finished call: kvc_stats.
type Stats struct {
	size                                                                                                                          uint64
	Epoch                                                                                                                         uint64
	BlocksTotal, BlocksFree, BlocksCached, BlocksLive, BlocksReserved, BlocksFilling, BlocksFenced, BlocksPinned                  uint64
	LiveRequests, WaitingRequests, Admissions, PromptTokens, CachedTokens, BlockQueries, BlockHits, LostReuseTokens, Readmissions uint64
	Refusals, Preemptions, Evictions, Copies, Duplicates, PublishedBlocks, UnpublishedBlocks, RejectedCandidates                  uint64
	NodesUsed, MetadataBytes, EventsDropped                                                                                       uint64
	FillingHits, FillingWaits, PartialHits, PartialTokens                                                                         uint64
}

// RequestInfo is the state of a request: kvc_request_info. Admitted is 0 while it waits. NextCheckpoint is, with state groups, the next number
// of tokens above NumCommitted whose state is worth keeping: end a step there, and commit it; 0 = none. If LostReuseTokens is not 0, LostGroup is
// the group that alone had least, the first of equal ones, and LostReason, a Lost* constant, why most of it was lost.
type RequestInfo struct {
	size                                                                                                               uint64
	NamespaceID, UserData, NumTokens, NumCommitted, NumCached, Capacity, NumBlocks, LostReuseTokens, MinTruncateTokens uint64
	Admitted, Flags                                                                                                    uint32
	NextCheckpoint                                                                                                     uint64
	CrossTokens, NumCrossCached                                                                                        uint64 // Of the encoder: its tokens, and as many if their KV was cached.
	LostGroup, LostReason                                                                                              uint32
}

// ProbeInfo says what would hit: kvc_probe_info. Fits is 1 if the admission has space.
type ProbeInfo struct {
	size                                                      uint64
	NumCached, BlocksNeeded, BlocksAvailable, LostReuseTokens uint64
	Fits                                                      uint32
	_                                                         uint32
	FillingRequest                                            uint64 // Of ProbeRequest: which computes the next block; 0 = none.
}

// BlockInfo is the state of one block: kvc_block_info. State is a Block* constant.
type BlockInfo struct {
	size                                                             uint64
	TokenOffset                                                      uint64
	State, Pool, Requests, ExternalHolds, Pins, Published, NumCopies uint32
	Group                                                            int32
}

// PoolInfo has the blocks of a pool by state, which sum to NumBlocks: kvc_pool_info.
type PoolInfo struct {
	size                                                                         uint64
	FirstBlock, NumBlocks, Free, Cached, Live, Reserved, Filling, Fenced, Pinned uint64
	MaxBlocks                                                                    uint64 // Its ids are below FirstBlock + MaxBlocks.
}

// LostReuse is the reuse that a group has lost, in tokens by reason: kvc_lost_reuse. Sums over the admissions that Stats.Admissions counts;
// Admissions is how many of them add to it.
type LostReuse struct {
	size                                                                uint64
	Admissions, BlockTokens, WindowTokens, StateTokens, AgreementTokens uint64
	NodeTokens                                                          uint64 // In full blocks not published as all positions were in use; no admission counts them.
}

// QuotaInfo is the share of a namespace in one pool: kvc_quota_info. MaxBlocks is 0 without a maximum.
type QuotaInfo struct {
	size                                                                                     uint64
	MinBlocks, MaxBlocks, Held, Cached, Fenced, Available, Refusals, BlockQueries, BlockHits uint64
}

// Properties is the configuration of a manager, with defaults filled in: kvc_properties.
type Properties struct {
	size                                                                               uint64
	NumBlocks, MaxNodes, MaxRequests, MaxRequestTokens, EventCapacity, WatermarkBlocks uint64
	BlockSize, VocabSize, Policy, Flags, NumGroups, NumPools                           uint32
	PolicyWeight                                                                       float64
	PolicyHistory                                                                      uint64
	MaxQuotas                                                                          uint32
	NumCrossGroups                                                                     uint32 // The last groups.
	MaxBlocks                                                                          uint64 // Blocks that all pools may have.
	RecordBytes                                                                        uint64
}

// Event is a change of what can be found: kvc_event. Kind is an Event* constant. A gap in Sequence means that events were lost.
type Event struct {
	Sequence, TimeNs, Epoch, NamespaceID, Node, ParentNode, TokenOffset uint64
	Kind, Group, NumTokens                                              uint32
	Block                                                               int32
	Digest, ParentDigest, ExtraDigest                                   [32]byte
}

// ExtraKey identifies a span of tokens that their ids alone do not identify, such as the placeholder tokens of an image.
type ExtraKey struct {
	FirstToken, NumTokens uint64
	Digest                [32]byte
}

// BlockCopy says: copy the contents of block Source to block Destination.
type BlockCopy struct{ Source, Destination int32 }

// TokenCopy says: copy NumTokens tokens of a group from Offset on in block Source of the old memory to NewOffset on in block Destination of the
// new one.
type TokenCopy struct {
	Group                        uint32
	Source, Destination          int32
	Offset, NewOffset, NumTokens uint32
}

// namespacePair is kvc_namespace_pair.
type namespacePair struct{ oldID, newID uint64 }

// TableChange says that BlockTables[Group][Row][Column] became Block.
type TableChange struct{ Group, Row, Column, Block int32 }

// sizesInC are the sizes in C. A test compares them with those of the structs above.
var sizesInC = map[string]uintptr{
	"Stats": C.sizeof_kvc_stats, "RequestInfo": C.sizeof_kvc_request_info, "ProbeInfo": C.sizeof_kvc_probe_info,
	"BlockInfo": C.sizeof_kvc_block_info, "PoolInfo": C.sizeof_kvc_pool_info, "QuotaInfo": C.sizeof_kvc_quota_info, "LostReuse": C.sizeof_kvc_lost_reuse, "Properties": C.sizeof_kvc_properties, "LogInfo": C.sizeof_kvc_log_info, "logReplay": C.sizeof_kvc_replay_info,
	"Event": C.sizeof_kvc_event, "ExtraKey": C.sizeof_kvc_extra_key, "BlockCopy": C.sizeof_kvc_block_copy,
	"TokenCopy": C.sizeof_kvc_token_copy, "namespacePair": C.sizeof_kvc_namespace_pair,
	"TableChange": C.sizeof_kvc_table_change, "requestConfig": C.sizeof_kvc_request_config,
	"Metrics": C.sizeof_kvc_quant_metrics, "MemoryEstimate": C.sizeof_kvc_memory_estimate, "Run": C.sizeof_kvc_run, "TierStats": C.sizeof_kvc_tier_stats, "TierCounts": C.sizeof_kvc_tier_counts,
	"ScheduledInfo": C.sizeof_kvc_scheduled_info, "SchedulerStats": C.sizeof_kvc_scheduler_stats, "EncoderInput": C.sizeof_kvc_encoder_input,
	"EncoderRun": C.sizeof_kvc_encoder_run, "EndedRequest": C.sizeof_kvc_ended_request,
}

// asByte is a struct as the native layer takes it.
func asByte[T any](value *T) *byte { return (*byte)(unsafe.Pointer(value)) }

// asBytes is an array of structs, in place, as bytes.
func asBytes[T any](values []T) []byte {
	if len(values) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&values[0])), len(values)*int(unsafe.Sizeof(values[0])))
}
